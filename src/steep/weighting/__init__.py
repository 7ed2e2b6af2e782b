"""Variance Based Samples Weighting: Algorithm 2; and labels that are probably wrong."""

from steep.weighting.diagnosis import WeightingReport, weighting_report
from steep.weighting.estimator import VarianceWeighted
from steep.weighting.search import VarianceWeightedCV
from steep.weighting.suspect_labels import Suspects
from steep.weighting.suspects import suspects
from steep.weighting.weights import sample_weights

__all__ = [
    "Suspects",
    "VarianceWeighted",
    "VarianceWeightedCV",
    "WeightingReport",
    "sample_weights",
    "suspects",
    "weighting_report",
]
