"""A warning that points at the line of the user."""

from __future__ import annotations

import contextlib
import sys
import warnings
from pathlib import Path
from typing import Any

import joblib
import sklearn

# Files whose lines are between that of the user and the warning: decorators of scikit-learn and of
# contexts, meta-estimators and pipelines, joblib's loops.
_INSIDE = tuple(
    f"{Path(path).parent}{sep}"
    for path in (sklearn.__file__, joblib.__file__, Path(__file__).parents[1] / "__init__.py")
    for sep in ("/", "\\")
) + (contextlib.__file__.removesuffix(".py"),)  # Python 3.12 finds no file by its whole name
# Python 3.11 cannot skip files: there it is the line that calls the function which warns.
_WHERE: dict[str, Any] = (
    {"skip_file_prefixes": _INSIDE} if sys.version_info >= (3, 12) else {"stacklevel": 3}
)


def warn_user(message: str, category: type[Warning]) -> None:
    """Warn at the innermost line that is in neither scikit-learn, joblib nor this package."""
    warnings.warn(message, category, **_WHERE)
