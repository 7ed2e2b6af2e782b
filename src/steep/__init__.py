"""steep: put the training effort where the function is steep.

Three jobs, one idea. A *measure* says how much a function varies around each point; a *use* turns
that into new points (``design``), sample weights (``sample_weights``, ``VarianceWeighted``) or a
better head of a trained network (``steep.nn``).
"""

from importlib.metadata import version as _version

from steep.bound import generalization_bound
from steep.campaign import Campaign, command_simulator
from steep.domain import Box, Category, Integer, Log
from steep.exceptions import SteepError, SteepWarning
from steep.measures.perturbation import perturbation_variance
from steep.measures.surprise import surprise_variation
from steep.measures.taylor import taylor_variation
from steep.measures.variance import neighbor_variance
from steep.mixture import WeightedGaussianMixture
from steep.neighbors import neighbor_graph
from steep.rescaling import rescale
from steep.sampling import Design, VariationSampler, design
from steep.weighting import VarianceWeighted, VarianceWeightedCV, sample_weights, suspects, weighting_report

__version__ = _version("steep")

__all__ = [
    "Box",
    "Campaign",
    "Category",
    "Design",
    "Integer",
    "Log",
    "SteepError",
    "SteepWarning",
    "VarianceWeighted",
    "VarianceWeightedCV",
    "VariationSampler",
    "WeightedGaussianMixture",
    "command_simulator",
    "design",
    "generalization_bound",
    "neighbor_graph",
    "neighbor_variance",
    "perturbation_variance",
    "rescale",
    "sample_weights",
    "surprise_variation",
    "suspects",
    "taylor_variation",
    "weighting_report",
]
