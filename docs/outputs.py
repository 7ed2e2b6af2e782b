"""Write what the code of pages prints and draws into the pages.

    python docs/outputs.py docs/tutorials/*.md README.md

The ``text`` block below a ``python`` block becomes its output, unless it holds "…"; a picture below it
becomes the figure that the block drew. The tests check the outputs, not the pictures.
"""

import contextlib
import importlib.util
import io
import os
import re
import sys
import tempfile
import warnings
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot

TESTS = Path(__file__).parents[1] / "tests" / "test_documentation.py"
PICTURE = re.compile(r"\s*!\[[^]]*\]\(([^)]+\.png)\)")


def main():
    spec = importlib.util.spec_from_file_location("test_documentation", TESTS)
    pages = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(pages)
    warnings.simplefilter("ignore")
    for page in map(Path, sys.argv[1:]):
        page.write_text(run(page.resolve(), pages.CODE), encoding="utf-8")


def run(page, code_pattern):
    """The page with the outputs of its blocks, run in order in a folder of their own."""
    text, done, made, scope, home = page.read_text(encoding="utf-8"), 0, [], {"__name__": "page"}, Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for match in code_pattern.finditer(text):
            if match["skip"]:
                continue
            code = match["shown"] if match["shown"] is not None else match["hidden"]
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(code, page.name, "exec"), scope)
            if match["printed"] is not None and "…" not in match["printed"]:
                lines = [line.rstrip() for line in printed.getvalue().rstrip().splitlines()]
                made += [text[done : match.start("printed")], *(f"{line}\n" for line in lines)]
                done = match.end("printed")
            if pyplot.get_fignums() and (picture := PICTURE.match(text, match.end())):
                pyplot.gcf().savefig(page.parent / picture[1], dpi=80, bbox_inches="tight")
                pyplot.close("all")
        os.chdir(home)
    return "".join(made) + text[done:]


if __name__ == "__main__":
    main()
