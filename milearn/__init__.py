"""milearn: multiple-instance learning for scikit-learn."""

from ._bags import Bags
from .svm import MISVC, SDPMIL, InstanceMISVC

__version__ = "0.1.0.dev0"

__all__ = ["MISVC", "SDPMIL", "Bags", "InstanceMISVC", "__version__"]
