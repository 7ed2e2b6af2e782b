"""Pages: one self-contained HTML file for a weighting, a design or a campaign.

Templates and scripts are files under ``templates`` and ``assets``; nothing is computed here beyond preparing what is
shown. The page of suspects is written by their ``page`` method.
"""

from steep.report.results import campaign_page, design_page
from steep.report.weighting import weighting_page

__all__ = ["campaign_page", "design_page", "weighting_page"]
