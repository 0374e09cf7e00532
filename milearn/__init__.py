"""Multiple-instance learning for scikit-learn."""

from ._bags.container import Bags
from ._version import __version__
from .auto import MIClassifier, MIRegressor
from .cluster import BAMIC, M3IC
from .ensemble import DPBoost, LPBoost
from .structured import MILSD
from .svm import (
    MISVC,
    MISVR,
    SDPMIL,
    CoupledMISVC,
    CoupledMISVR,
    InstanceMISVC,
)

__all__ = [
    "BAMIC",
    "M3IC",
    "MILSD",
    "MISVC",
    "MISVR",
    "SDPMIL",
    "Bags",
    "CoupledMISVC",
    "CoupledMISVR",
    "DPBoost",
    "InstanceMISVC",
    "LPBoost",
    "MIClassifier",
    "MIRegressor",
    "__version__",
]
