"""Pages: one self-contained HTML file for a weighting, suspects, a design, a campaign or an improvement.

Templates and scripts are files under ``templates`` and ``assets``; nothing is computed here beyond preparing what is
shown. The page of a reproduction is :func:`steep.paper.reproduction_page`.
"""

from steep.report.weighting import weighting_page

__all__ = ["weighting_page"]
