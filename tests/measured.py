"""The variation of labelled samples by any measure of labels, as the uses measure it."""

from steep.measures import Neighborhood, resolve


def measure_variation(X, y, *, measure="variance", n_neighbors=20, include_self=True, **how):
    found = resolve(measure, use="a test", feeds=("labels",))
    found.check_k(n_neighbors)
    return found.variation(Neighborhood.of(X, y, n_neighbors=n_neighbors, include_self=include_self, **how))
