"""Fits with one thread of BLAS, because most of them are many small products.

On two cores, a second thread made FisherVector 1.5 times and SDPMIL 1.2 times quicker, and none of
ten other fits by more than a tenth. It made DPBoost 1.9 times slower. Its waiting is busy, so that
fits took up to 3.4 times the CPU time. ``n_jobs`` shares the work instead.
"""

from __future__ import annotations

from collections.abc import Callable

from .. import _compat
from .._bags.threads import inner_matrices, one_blas_thread


def fit_context(*, prefer_skip_nested_validation: bool) -> Callable[[Callable], Callable]:
    """scikit-learn's ``_fit_context``, with one thread of BLAS."""
    validated = _compat.fit_context(prefer_skip_nested_validation=prefer_skip_nested_validation)
    return lambda fit: validated(inner_matrices()(one_blas_thread()(fit)))
