"""steep: put the training effort where the function is steep.

Three jobs, one idea. A *measure* says how much a function varies around each point; a *use* turns
that into new points (``design``), sample weights (``sample_weights``, ``VarianceWeighted``) or a
better head of a trained network (``steep.nn``).

A name is imported when it is first used, so that the command answers ``--help`` at once.
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from steep._suspects import Suspects, suspects
    from steep.campaign import Campaign, command_simulator
    from steep.domain import Box, Category, Integer, Log
    from steep.exceptions import SteepError, SteepWarning
    from steep.measures.surprise import surprise_variation
    from steep.measures.taylor import taylor_variation
    from steep.measures.variance import neighbor_variance, perturbation_variance
    from steep.mixture import WeightedGaussianMixture
    from steep.neighbors import neighbor_graph
    from steep.rescaling import Rescaling, rescale
    from steep.sampling import Adaptive, Design, Even, Taylor, Variance, VariationSampler
    from steep.sampling.design import design
    from steep.surrogate import Surrogate, emulate, hybrid
    from steep.weighting import VarianceWeighted, VarianceWeightedCV, WeightSearch, sample_weights

    __version__: str

__all__ = [
    "Adaptive", "Box", "Campaign", "Category", "Design", "Even", "Integer", "Log", "Rescaling", "SteepError",
    "SteepWarning", "Surrogate", "Suspects", "Taylor", "Variance", "VarianceWeighted", "VarianceWeightedCV",
    "VariationSampler", "WeightSearch", "WeightedGaussianMixture", "command_simulator", "design", "emulate",
    "hybrid", "neighbor_graph", "neighbor_variance", "perturbation_variance", "rescale", "sample_weights",
    "surprise_variation", "suspects", "taylor_variation",
]  # fmt: skip

# Where each name lives, and the rooms that may be entered after a plain ``import steep``.
_HOMES = {
    "steep._suspects": ("Suspects", "suspects"),
    "steep.campaign": ("Campaign", "command_simulator"),
    "steep.domain": ("Box", "Category", "Integer", "Log"),
    "steep.exceptions": ("SteepError", "SteepWarning"),
    "steep.measures.surprise": ("surprise_variation",),
    "steep.measures.taylor": ("taylor_variation",),
    "steep.measures.variance": ("neighbor_variance", "perturbation_variance"),
    "steep.mixture": ("WeightedGaussianMixture",),
    "steep.neighbors": ("neighbor_graph",),
    "steep.rescaling": ("Rescaling", "rescale"),
    "steep.sampling": ("Adaptive", "Design", "Even", "Taylor", "Variance", "VariationSampler", "design"),
    "steep.surrogate": ("Surrogate", "emulate", "hybrid"),
    "steep.weighting": ("VarianceWeighted", "VarianceWeightedCV", "WeightSearch", "sample_weights"),
}
_ROOMS = frozenset(
    {
        "campaign", "dask", "domain", "evidence", "exceptions", "labels", "measures", "metrics", "mixture",
        "neighbors", "rescaling", "sampling", "surrogate", "weighting",
    }
)  # fmt: skip
_HOME = {name: home for home, names in _HOMES.items() for name in names}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Import a public name or a room when it is first asked for."""
        if name in _HOME:
            value = getattr(_import_module(_HOME[name]), name)
        elif name in _ROOMS:
            value = _import_module(f"steep.{name}")
        elif name == "__version__":
            from importlib.metadata import version

            value = version("steep")
        else:
            raise AttributeError(f"module 'steep' has no attribute {name!r}")
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_ROOMS, "__version__"})
