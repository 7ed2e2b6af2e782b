"""The k-nearest-neighbour graph of a data set with itself."""

from steep.neighbors.graph import neighbor_graph

__all__ = ["neighbor_graph"]
