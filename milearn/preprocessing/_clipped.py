"""Scaling of instances with clipping, so that test bags are not far from all training bags."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from scipy import sparse
from sklearn import config_context
from sklearn.base import BaseEstimator, clone
from sklearn.preprocessing import MinMaxScaler, QuantileTransformer, StandardScaler
from sklearn.utils import check_random_state
from sklearn.utils.metadata_routing import MetadataRequest

from .._bags import Bags
from .._bags.distinct import instance_ranks
from .._bags.rows_on_disk import is_read_in_blocks
from .._fit.validation import STORED_FLOATS, validate_bags
from .._kernels.centring import exact_factors
from ._instance_transformer import InstanceTransformer, fit_block

_SCALINGS = ("standard", "minmax", "quantile")


class ClippedScaler(InstanceTransformer):
    r"""Scale each feature of the instances and clip outliers.

    The scaling is learnt on the instances of the training bags:

    * "standard": z-scores, clipped to :math:`[-c, c]`;
    * "minmax": the range of the training instances mapped to [0, 1], and clipped to it;
    * "quantile": the rank of a value among the training instances, mapped to a standard normal
      distribution and clipped to :math:`[-c, c]`.

    A feature that is nearly always zero has a small standard deviation. An instance with a nonzero
    value may have a z-score of 20, so its squared distance to every training instance is at least
    400, and with an RBF kernel its bag has a similarity of zero to every other bag. Clipping limits
    these distances.

    Parameters
    ----------
    scaling : {"standard", "minmax", "quantile"}, default="standard"
        The scaling, by :class:`~sklearn.preprocessing.StandardScaler`,
        :class:`~sklearn.preprocessing.MinMaxScaler` or
        :class:`~sklearn.preprocessing.QuantileTransformer`.
    clip : float, default=3.0
        The bound c, which must be positive; not used by "minmax".
    with_mean : bool, default=True
        Whether "standard" subtracts the mean. CSR instances need False and stay sparse.
    n_quantiles : int, default=1000
        Number of quantiles of each feature for "quantile", at most the size of the subsample.
    subsample : int or None, default=10_000
        Maximum number of instances from which quantiles are computed. None uses all instances.
    random_state : int, RandomState instance or None, default=None
        Determines the subsample.

    Attributes
    ----------
    transformer_ : StandardScaler, MinMaxScaler or QuantileTransformer
        The fitted scaler, which does not clip.
    constant_ : ndarray of shape (n_features_in_,), bool
        Features that are constant in the training instances. They are transformed to zero, also in
        new bags, because their scale is unknown.
    clip_ : tuple of two floats
        The lowest and the highest possible output.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Only when the bags have feature names that are all strings.

    Raises
    ------
    ValueError
        In ``fit``, if the scaling is unknown or the bound is not positive.
    TypeError
        In ``fit``, if the scaling would make CSR instances dense.

    See Also
    --------
    InstanceTransformer : Any scikit-learn transformer, applied to instances.

    Notes
    -----
    NaN is passed through. Bags of any kind become :class:`~milearn.Bags`, and a plain matrix stays
    a matrix. There is no ``inverse_transform``, because clipped values cannot be recovered.

    Examples
    --------
    >>> from milearn import Bags
    >>> from milearn.preprocessing import ClippedScaler
    >>> train = Bags.from_list([[[0.0], [1.0]], [[2.0], [3.0], [4.0]]])
    >>> scaler = ClippedScaler("minmax").fit(train)
    >>> scaler.transform([[[1.0], [40.0]]]).instances
    array([[0.25],
           [1.  ]])
    """

    constant_: np.ndarray
    clip_: tuple[float, float]

    def __init__(
        self,
        scaling: str = "standard",
        *,
        clip: float = 3.0,
        with_mean: bool = True,
        n_quantiles: int = 1000,
        subsample: int | None = 10_000,
        random_state: Any = None,
    ) -> None:
        self.scaling = scaling
        self.clip = clip
        self.with_mean = with_mean
        self.n_quantiles = n_quantiles
        self.subsample = subsample
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> ClippedScaler:  # type: ignore[override]
        """Learn the scaling from the instances.

        Parameters
        ----------
        X : Bags, 3-D array, sequence of 2-D blocks, or matrix
            Bags to fit on; the rows of a matrix are bags of one instance.
        y : ignored
            Present for consistency with other estimators.

        Returns
        -------
        self
            The fitted estimator.
        """
        if not (isinstance(self.scaling, str) and self.scaling in _SCALINGS):
            known = ", ".join(map(repr, _SCALINGS))
            raise ValueError(f"scaling={self.scaling!r} is unknown: choose one of {known}.")
        if not isinstance(self.clip, Real) or isinstance(self.clip, bool) or not self.clip > 0:
            raise ValueError(f"clip={self.clip!r} is not a positive number.")
        bags = validate_bags(self, X, dtype=STORED_FLOATS, ensure_all_finite="allow-nan")
        if bags.is_sparse and not self._keeps_zeros():
            raise TypeError(
                f"Sparse instances would become dense by scaling={self.scaling!r} with "
                f'with_mean={self.with_mean}: choose ClippedScaler("standard", with_mean=False).'
            )
        inner = self._scaler(bags.n_instances)
        self.transformer_ = _fitted(inner, bags, self.subsample, self.random_state)
        self.constant_ = _constant(self.transformer_)
        bound = float(self.clip)
        self.clip_ = (0.0, 1.0) if self.scaling == "minmax" else (-bound, bound)
        return self

    # Clipped values cannot be recovered.
    inverse_transform = property(doc="Not available.")

    def get_metadata_routing(self) -> MetadataRequest:
        """Requests of this estimator, which does not use metadata.

        Returns
        -------
        MetadataRequest
            An empty request.
        """
        return BaseEstimator.get_metadata_routing(self)

    def _inner(self) -> Any:
        return self._scaler(n_instances=self.n_quantiles)

    def _keeps_zeros(self) -> bool:
        return self.scaling == "standard" and not self.with_mean

    def _scaler(self, n_instances: int) -> Any:
        if self.scaling == "minmax":
            return MinMaxScaler()
        if self.scaling == "quantile":
            drawn = n_instances if self.subsample is None else min(n_instances, self.subsample)
            return QuantileTransformer(
                # scikit-learn warns if there are more quantiles than instances.
                n_quantiles=max(1, min(self.n_quantiles, drawn)),
                output_distribution="normal",
                subsample=None,
            )
        return StandardScaler(with_mean=self.with_mean)

    def _apply(self, matrix: Any) -> Any:
        scaled: Any
        if isinstance(self.transformer_, QuantileTransformer):
            scaled = _by_quantiles(self.transformer_, matrix)
        else:
            scaled = super()._apply(matrix)
        if sparse.issparse(scaled):
            scaled.data[self.constant_[scaled.indices]] = 0.0
            np.clip(scaled.data, *self.clip_, out=scaled.data)
            scaled.eliminate_zeros()
            return scaled
        scaled[:, self.constant_] = 0.0
        return np.clip(scaled, *self.clip_, out=scaled)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self._keeps_zeros()
        return tags


@dataclass(frozen=True)
class ScaledInPlace:
    """A fitted scaling of dense rows, which are changed in place.

    The calls for z-scores take a fraction of those of the transformer, because nothing is checked.
    """

    scaler: ClippedScaler

    def __call__(self, rows: np.ndarray) -> None:
        inner = self.scaler.transformer_
        if not isinstance(inner, StandardScaler):
            rows[...] = self.scaler._apply(rows)
            return
        if inner.with_mean:
            rows -= inner.mean_.astype(rows.dtype)
        rows /= inner.scale_.astype(rows.dtype)
        rows[:, self.scaler.constant_] = 0.0
        np.clip(rows, *self.scaler.clip_, out=rows)


def _fitted(inner: Any, bags: Bags, subsample: int | None, random_state: Any) -> Any:
    """Fit the scaler on all instances, or "quantile" on a sample independent of their order."""
    scaler = clone(inner)
    n = bags.n_instances
    if isinstance(scaler, QuantileTransformer) and subsample is not None and subsample < n:
        ranked = np.argsort(instance_ranks(bags), kind="stable")
        drawn = check_random_state(random_state).choice(n, subsample, replace=False)
        return scaler.fit(bags.source().gather(np.sort(ranked[drawn])))
    if not is_read_in_blocks(bags):
        return scaler.fit(bags.instances)
    if hasattr(scaler, "partial_fit"):
        return bags.source().fold(fit_block, scaler)
    return scaler.fit(bags.source().gather(np.arange(n)))


def _by_quantiles(model: QuantileTransformer, matrix: np.ndarray) -> np.ndarray:
    """The transformed matrix.

    scikit-learn takes values within 1e-7 of the lowest and highest quantile for these, which are
    all values of a feature of a smaller range.
    """
    factors = exact_factors(model.quantiles_[-1] - model.quantiles_[0])
    dtype = matrix.dtype
    if factors is not None:
        model = copy(model)
        model.quantiles_ = model.quantiles_ * factors
        matrix = matrix * factors
    with config_context(transform_output="default"):
        return np.asarray(model.transform(matrix), dtype=dtype)


def _constant(scaler: Any) -> np.ndarray:
    if hasattr(scaler, "quantiles_"):
        return scaler.quantiles_[0] == scaler.quantiles_[-1]
    if hasattr(scaler, "data_range_"):
        return scaler.data_range_ == 0
    # Constant up to rounding, as in StandardScaler, which does not divide in this case.
    return (scaler.scale_ == 1) & (scaler.var_ < 0.5)
