"""Support vector machines for bags."""

from typing import NoReturn

from .._version import removed
from ._bag_svm import BagSVC, BagSVR
from ._coupled_misvm import MISVR, CoupledMISVC, CoupledMISVR
from ._misvc import MISVC, InstanceMISVC
from ._ordinal_misvc import OrdinalMISVC
from ._sdpmil import SDPMIL

__all__ = [
    "MISVC",
    "MISVR",
    "SDPMIL",
    "BagSVC",
    "BagSVR",
    "CoupledMISVC",
    "CoupledMISVR",
    "InstanceMISVC",
    "OrdinalMISVC",
]


def __getattr__(name: str) -> NoReturn:
    removed("svm", [name], ImportError)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
