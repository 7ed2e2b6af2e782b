"""The guide: make docs builds it. The tests run the code of its pages."""

from importlib.metadata import version as installed

project = "steep"
author = "The steep developers"
copyright = f"2026, {author}"  # noqa: A001
release = version = installed("steep")

extensions = ["myst_parser", "sphinx.ext.mathjax", "sphinx_copybutton"]
exclude_patterns = ["_build", "*.py", "images/*.py"]
source_suffix = {".md": "markdown"}
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 4
suppress_warnings = ["myst.xref_missing"]  # the tests check every link, those that leave this folder too

html_theme = "pydata_sphinx_theme"
html_title = f"steep {release}"
html_static_path = ["_static"]
html_css_files = ["guide.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "navbar_align": "left",
    "header_links_before_dropdown": 7,
    "show_toc_level": 2,
    "footer_start": ["copyright"],
    "footer_end": [],
    "search_as_you_type": True,
}
