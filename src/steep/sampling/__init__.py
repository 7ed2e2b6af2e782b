"""Variation Based Sampling: Algorithm 1 of the paper for any measure, density and draw."""

from steep.sampling.design import Design, design
from steep.sampling.sampler import VariationSampler
from steep.sampling.strategies import Adaptive, Even, Taylor, Variance

__all__ = ["Adaptive", "Design", "Even", "Taylor", "Variance", "VariationSampler", "design"]
