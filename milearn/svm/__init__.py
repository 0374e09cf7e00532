"""Support vector machines for bags."""

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
