"""Statistics of each feature over the instances of a bag, one row per bag."""

from __future__ import annotations

import re
from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from .._bags import Bags
from .._bags.blocks import Block
from .._bags.canonical import canonical_csr
from .._bags.rows_on_disk import computed_in, is_read_in_blocks
from .._bags.segments import gather_rows
from .._fit.validation import STORED_FLOATS, in_order, validate_bags
from .._kernels.statistics import DenseRuns, SparseRuns, statistic_of, sums_of
from .._solvers.discriminant.superquantile import counts_of, means_of_highest
from .._version import VersionedEstimator

_NAMES = ("min", "max", "mean", "std", "sum", "count", "median")
_TAIL = re.compile(r"(top|bottom) (\d+(?:\.\d+)?)%")


class BagStatistics(TransformerMixin, VersionedEstimator):
    r"""Represent each bag by statistics of its instances.

    The statistics are computed separately for each feature of a bag with the instances
    :math:`x_1, \dots, x_n`: minimum and maximum, the mean :math:`m = \frac{1}{n} \sum_j x_j`, the
    standard deviation :math:`\sqrt{\frac{1}{n} \sum_j (x_j - m)^2}`, the sum, quantiles with linear
    interpolation between order statistics (as :func:`numpy.quantile`), the number of instances, and
    the mean of the :math:`\max(1, \lceil q n \rceil)` highest or lowest values for a share q. The
    result is a matrix with one row per bag. With :class:`~sklearn.svm.SVC` this is a baseline for
    multiple-instance methods.

    Read more in the :ref:`User Guide <methods_embeddings>`.

    .. versionadded:: 0.1.0

    Parameters
    ----------
    statistics : sequence of str and float, default=("min", "max")
        Any of "min", "max", "mean", "std", "sum", "count" and "median"; a number between 0 and 1
        is a quantile, and "top 5%" or "bottom 0.1%" the mean of this share of the highest or lowest
        values. A single statistic can be passed without a sequence.
    sparse_output : bool, default=False
        Return a CSR matrix, which is recommended for text: if a feature is zero in all instances
        of a bag, all of its statistics are zero. By default, a dense array is returned.

    Attributes
    ----------
    statistics_ : tuple of str and float
        The statistics, in the order of the columns.
    n_features_in_ : int
        Number of features of an instance.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Only when the bags have feature names that are all strings.

    Raises
    ------
    ValueError
        In ``fit``, if a statistic is unknown.

    See Also
    --------
    InstanceTransformer : Transforms instances and keeps bags.
    milearn.embedding.BagDissimilarity : One row of distances per bag.

    Notes
    -----
    Columns are ordered by statistic; "count" is a single column. CSR instances are not converted to
    dense arrays; implicit zeros count like any other value. Sums are computed in float64.
    Statistics of float32 and float16 instances are float32. Instances in float16 or in a memory map
    are read in blocks of bags.

    References
    ----------
    T. Gaertner, P. A. Flach, A. Kowalczyk and A. J. Smola. Multi-instance kernels. ICML 2002
    (the minimax kernel).

    Examples
    --------
    >>> from milearn import Bags
    >>> from milearn.preprocessing import BagStatistics
    >>> bags = Bags.from_list([[[0.0, 1.0], [2.0, 3.0]], [[4.0, 5.0]]])
    >>> stats = BagStatistics(("min", 0.5, "count"))
    >>> stats.fit_transform(bags)
    array([[0., 1., 1., 2., 2.],
           [4., 5., 4., 5., 1.]])
    >>> stats.get_feature_names_out()
    array(['min_x0', 'min_x1', 'q0.5_x0', 'q0.5_x1', 'count'], dtype=object)
    """

    statistics_: tuple[Any, ...]

    def __init__(self, statistics: Any = ("min", "max"), *, sparse_output: bool = False) -> None:
        self.statistics = statistics
        self.sparse_output = sparse_output

    @in_order
    def fit(self, X: Any, y: Any = None) -> BagStatistics:
        """Validate the statistics and store the number and names of features.

        Parameters
        ----------
        X : bags, or matrix of shape (n_bags, n_features)
            Bags; the rows of a matrix are bags of one instance.
        y : ignored
            Present for consistency with other estimators.

        Returns
        -------
        self
            The fitted estimator.
        """
        statistics = _checked_statistics(self.statistics)
        validate_bags(self, X, dtype=STORED_FLOATS)
        self.statistics_ = statistics
        return self

    def transform(self, X: Any) -> Any:
        """One row of statistics per bag.

        Parameters
        ----------
        X : bags, or matrix of shape (n_bags, n_features)
            Each row of a matrix is a bag of one instance.

        Returns
        -------
        ndarray of shape (n_bags, n_columns), or csr_array with ``sparse_output=True``
            Columns in the order of :meth:`get_feature_names_out`.
        """
        check_is_fitted(self)
        bags = validate_bags(self, X, reset=False, dtype=STORED_FLOATS)
        if is_read_in_blocks(bags):
            parts = bags.source().map(_rows_of_block, self.statistics_)
            rows: Any = sparse.vstack(parts) if sparse.issparse(parts[0]) else np.concatenate(parts)
        else:
            rows = _rows_of(bags, self.statistics_)
        if self.sparse_output:
            # Use 32-bit indices if possible, because libsvm does not accept others.
            return canonical_csr(sparse.csr_array(rows))
        return rows.toarray() if sparse.issparse(rows) else rows

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the columns, such as ``min_x0``, ``q0.25_x0`` and ``count``.

        Parameters
        ----------
        input_features : array-like of str of shape (n_features_in_,), default=None
            Names of the features. By default, ``feature_names_in_`` or ``x0, x1, ...``.

        Returns
        -------
        ndarray of str of shape (n_features_out,)
            One name per column.
        """
        check_is_fitted(self)
        features = OneToOneFeatureMixin.get_feature_names_out(self, input_features)
        names: list[str] = []
        for statistic in self.statistics_:
            if statistic == "count":
                names.append("count")
                continue
            prefix = statistic if isinstance(statistic, str) else f"q{statistic:g}"
            names.extend(f"{prefix}_{feature}" for feature in features)
        return np.array(names, dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.three_d_array = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _checked_statistics(statistics: Any) -> tuple[Any, ...]:
    known = f"{', '.join(map(repr, _NAMES))}, 'top 5%', 'bottom 5%' or a quantile between 0 and 1"
    alone = isinstance(statistics, (str, Real))
    if not alone and not isinstance(statistics, (Sequence, np.ndarray)):
        raise ValueError(f"statistics={statistics!r} is not a sequence: use some of {known}.")
    listed = [statistics] if alone else list(statistics)
    if not listed:
        raise ValueError(f"statistics is empty: use at least one of {known}.")
    checked: list[Any] = []
    for name in listed:
        quantile = isinstance(name, Real) and not isinstance(name, bool)
        if quantile and 0 <= float(name) <= 1:
            name = float(name)
        elif not isinstance(name, str) or not (name in _NAMES or _tail(name)):
            raise ValueError(f"statistics contains {name!r}, which is unknown: use {known}.")
        checked.append(name)
    return tuple(checked)


def _tail(name: str) -> tuple[bool, float] | None:
    """Whether the highest values are averaged, and the share of them; None for other statistics."""
    found = _TAIL.fullmatch(name)
    if found is None or float(found[2]) > 100:
        return None
    return found[1] == "top", float(found[2]) / 100


def _rows_of_block(block: Block, statistics: tuple[Any, ...]) -> Any:
    return _rows_of(Bags(block.instances, block.offsets), statistics)


def _rows_of(bags: Bags, statistics: tuple[Any, ...]) -> Any:
    """The concatenated statistics of each bag, CSR for CSR instances."""
    if sparse.issparse(bags.instance_rows):
        stored = _Stored(bags.instances, bags.offsets)
        columns = [stored.statistic(name) for name in statistics]
        return sparse.hstack(columns, format="csr", dtype=bags.dtype)
    runs = _Dense(bags.instances, bags.offsets)
    dense = [
        runs.sizes.astype(bags.dtype) if name == "count" else _statistic(runs, name)
        for name in statistics
    ]
    return np.concatenate(dense, axis=1, dtype=computed_in(bags.dtype), casting="same_kind")


def _statistic(runs: _Dense | _Stored, name: Any) -> np.ndarray:
    """A statistic of runs of values, by their sums, extremes and quantiles."""
    if not isinstance(name, str) or name == "median":
        return runs.quantile(0.5 if name == "median" else name)
    tail = _tail(name)
    return runs.tail(*tail) if tail else statistic_of(runs, name)


class _Dense(DenseRuns):
    """With quantiles and means of tails."""

    def quantile(self, quantile: float) -> np.ndarray:
        # Bags of equal size form a 3-D array, so loop over sizes instead of bags.
        out = np.empty((len(self.sizes), self.values.shape[1]), dtype=self.values.dtype)
        for size in np.unique(self.sizes):
            same = np.flatnonzero(self.sizes == size)
            rows, _ = gather_rows(self.offsets, same)
            blocks = self.values[rows].reshape(len(same), size, -1)
            out[same] = np.quantile(blocks, quantile, axis=1)
        return out

    def tail(self, highest: bool, share: float) -> np.ndarray:
        sign = 1.0 if highest else -1.0
        means = means_of_highest(sign * self.values.T, self.offsets, [share])[0]
        return (sign * means).astype(self.values.dtype, copy=False)


class _Stored(SparseRuns):
    """With quantiles and means of tails."""

    def statistic(self, statistic: Any) -> sparse.csr_array:
        """The statistic as CSR of shape (n_bags, n_features), or (n_bags, 1) for "count"."""
        if statistic == "count":
            return sparse.csr_array(self.bag_sizes[:, np.newaxis].astype(self.dtype))
        return self.matrix(_statistic(self, statistic))

    def tail(self, highest: bool, share: float) -> np.ndarray:
        ranked = self.values[np.lexsort((self.values, self.run))]
        below = np.add.reduceat(ranked < 0, self.starts, dtype=np.intp)
        counts = counts_of(self.sizes, share)
        lowest = self.sizes - counts if highest else counts
        # Stored entries among the lowest values: the implicit zeros follow the negative ones.
        place = np.where(lowest < below, lowest, np.maximum(below, lowest - self.zeros))
        is_low = np.arange(len(ranked)) - self.starts[self.run] < place[self.run]
        return sums_of(self, np.where(is_low != highest, ranked, 0.0)) / counts

    def quantile(self, quantile: float) -> np.ndarray:
        ranked = self.values[np.lexsort((self.values, self.run))]
        below = np.add.reduceat(ranked < 0, self.starts, dtype=np.intp)

        def order_statistic(rank: np.ndarray) -> np.ndarray:
            # The implicit zeros are between the negative values and the others.
            zero = (rank >= below) & (rank < below + self.zeros)
            place = np.where(rank < below, rank, rank - self.zeros)
            place = np.clip(place, 0, self.lengths - 1)
            return np.where(zero, 0.0, ranked[self.starts + place])

        position = quantile * (self.sizes - 1)
        low = np.floor(position).astype(np.intp)
        lower = order_statistic(low)
        upper = order_statistic(np.minimum(low + 1, self.sizes - 1))
        return lower + (position - low) * (upper - lower)
