"""Support vector machines for bags."""

from ._instance_misvc import InstanceMISVC
from ._misvc import MISVC
from ._sdpmil import SDPMIL

__all__ = ["MISVC", "SDPMIL", "InstanceMISVC"]
