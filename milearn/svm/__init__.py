"""Support vector machines for bags."""

from ._bag_svc import BagSVC
from ._bag_svr import BagSVR
from ._coupled_misvc import CoupledMISVC
from ._coupled_misvr import CoupledMISVR
from ._instance_misvc import InstanceMISVC
from ._misvc import MISVC
from ._misvr import MISVR
from ._ordinal_misvc import OrdinalMISVC
from ._path import misvc_path
from ._sdpmil import SDPMIL
from ._well_svc import WellSVC

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
    "WellSVC",
    "misvc_path",
]
