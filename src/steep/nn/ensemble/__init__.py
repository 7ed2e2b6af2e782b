"""Ensembles: many small networks of one shape trained as one batched computation."""

from steep.nn.ensemble.training import Ensemble, train_ensemble

__all__ = ["Ensemble", "train_ensemble"]
