"""The k-nearest-neighbour graph of a data set with itself; importing it compiles and loads nothing."""

from steep.neighbors.graph import GraphInfo, neighbor_graph, refined_graph
from steep.neighbors.sparse import sparse_graph

__all__ = ["GraphInfo", "neighbor_graph", "refined_graph", "sparse_graph"]
