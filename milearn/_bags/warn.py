"""A warning that points at the line of the user."""

from __future__ import annotations

import contextlib
import sys
import warnings
from pathlib import Path
from typing import Any

import joblib
import sklearn

# Files whose frames are between the user's line and the warning: decorators of scikit-learn and of
# contexts, meta-estimators and pipelines, joblib's loops.
_INSIDE = tuple(
    f"{Path(path).parent}{sep}"
    for path in (sklearn.__file__, joblib.__file__, Path(__file__).parents[1] / "__init__.py")
    for sep in ("/", "\\")
) + (contextlib.__file__,)


def is_inside(frame: Any) -> bool:
    """Whether a frame belongs to scikit-learn, joblib or this package."""
    return frame.f_code.co_filename.startswith(_INSIDE)


def warn_user(message: str, category: type[Warning]) -> None:
    """Warn at the innermost frame that belongs to neither scikit-learn, joblib nor this package."""
    level = 2
    frame = sys._getframe(1)
    while frame.f_back is not None and is_inside(frame):
        frame = frame.f_back
        level += 1
    warnings.warn(message, category, stacklevel=level)
