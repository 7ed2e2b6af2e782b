"""Pictures of designs, weights and gains with matplotlib, for papers and notebooks.

Results draw themselves by their ``plot`` method, which calls these.
"""

from steep.plotting.design import plot_design
from steep.plotting.style import save_picture
from steep.plotting.weights import plot_gains, plot_weights

__all__ = ["plot_design", "plot_gains", "plot_weights", "save_picture"]
