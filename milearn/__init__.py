"""Multiple-instance learning for scikit-learn."""

from ._bags.container import Bags
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

__version__ = "0.3.0"

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
