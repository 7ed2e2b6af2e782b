"""Pages: one self-contained HTML file for a weighting, suspects, a design, a campaign or an improvement.

Templates and scripts are files under ``templates`` and ``assets``; nothing is computed here beyond preparing what is
shown.
"""

from steep.report.campaign import campaign_page
from steep.report.design import design_page
from steep.report.improvement import improvement_page
from steep.report.suspects import suspects_page
from steep.report.weighting import weighting_page

__all__ = ["campaign_page", "design_page", "improvement_page", "suspects_page", "weighting_page"]
