"""Variance Based Samples Weighting: Algorithm 2."""

from steep.weighting.estimator import VarianceWeighted
from steep.weighting.search import VarianceWeightedCV, WeightSearch
from steep.weighting.weights import sample_weights

__all__ = ["VarianceWeighted", "VarianceWeightedCV", "WeightSearch", "sample_weights"]
