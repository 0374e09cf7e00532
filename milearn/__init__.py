"""milearn: multiple-instance learning for scikit-learn."""

from ._bags import Bags

__version__ = "0.1.0.dev0"

__all__ = ["Bags", "__version__"]
