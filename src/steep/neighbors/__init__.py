"""The k-nearest-neighbour graph of a data set with itself; importing it compiles and loads nothing."""

from typing import TYPE_CHECKING, Any

from steep.neighbors.graph import GraphInfo, neighbor_graph, sparse_graph

if TYPE_CHECKING:
    from steep.neighbors.transformer import NeighborTransformer

__all__ = ["GraphInfo", "NeighborTransformer", "neighbor_graph", "sparse_graph"]


def __getattr__(name: str) -> Any:
    if name == "NeighborTransformer":  # it imports scikit-learn's base classes
        from steep.neighbors.transformer import NeighborTransformer

        return NeighborTransformer
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
