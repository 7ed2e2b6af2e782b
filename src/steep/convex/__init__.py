"""Many weighted ridge and logistic regressions solved at once, with numpy alone.

:mod:`steep.weighting` solves all weightings of a training set together, :mod:`steep.nn` all heads on the same features.
"""

from steep.convex.inputs import Inputs, feature_scale
from steep.convex.logistic import LogisticProblem, logistic_path, solve_logistic, to_probabilities
from steep.convex.ridge import ridge_path, solve_ridge

__all__ = [
    "Inputs", "LogisticProblem", "feature_scale", "logistic_path", "ridge_path", "solve_logistic", "solve_ridge",
    "to_probabilities",
]  # fmt: skip
