"""Heads: weighted linear models on features, solved as the convex problems they are, or by the paper's Adam."""

from steep.nn.heads.adam import fit_adam
from steep.nn.heads.logistic import fit_logistic, logistic_path
from steep.nn.heads.problem import Head, HeadProblem
from steep.nn.heads.ridge import ridge_path

__all__ = ["Head", "HeadProblem", "fit_adam", "fit_logistic", "logistic_path", "ridge_path"]
