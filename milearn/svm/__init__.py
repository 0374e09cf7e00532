"""Support vector machines for bags."""

from ._instance_misvc import InstanceMISVC
from ._misvc import MISVC

__all__ = ["MISVC", "InstanceMISVC"]
