"""Types that modules share."""

from typing import Any

# An ndarray or a CSR matrix.
Matrix = Any
