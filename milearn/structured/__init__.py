"""Learning where bags, or their instances, are linked."""

from ._graphs import homophily, link_graph
from ._link_content_mf import LinkContentMF
from ._milsd import MILSD
from ._neighbors import knn_bag_graph, spatial_graph

__all__ = ["MILSD", "LinkContentMF", "homophily", "knn_bag_graph", "link_graph", "spatial_graph"]
