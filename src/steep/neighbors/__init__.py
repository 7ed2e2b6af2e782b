"""The k-nearest-neighbour graph of a data set with itself; importing it compiles and loads nothing."""

from steep.neighbors.graph import GraphInfo, neighbor_graph, refined_graph

__all__ = ["GraphInfo", "neighbor_graph", "refined_graph"]
