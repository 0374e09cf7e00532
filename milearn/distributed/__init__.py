"""Bags on the workers of a Dask cluster (needs the extra ``milearn[dask]``)."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._bags import DistributedBags, scan_bag_folder, scan_bags

__all__ = ["DistributedBags", "scan_bag_folder", "scan_bags"]


def __getattr__(name: str) -> Any:
    # Dask is imported when it is used: the packages of milearn can be listed without it.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}._bags"), name)
