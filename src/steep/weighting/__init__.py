"""Variance Based Samples Weighting: Algorithm 2."""

from steep.weighting.search import VarianceWeightedCV, WeightSearch
from steep.weighting.weights import VarianceWeighted, sample_weights

__all__ = ["VarianceWeighted", "VarianceWeightedCV", "WeightSearch", "sample_weights"]
