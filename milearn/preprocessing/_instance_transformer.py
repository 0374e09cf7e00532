"""Any scikit-learn transformer, applied to the instances of bags, and scaling with clipping."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import ndtri
from sklearn import get_config
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin, clone
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.decomposition import IncrementalPCA
from sklearn.feature_selection import SelectorMixin
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    QuantileTransformer,
    StandardScaler,
)
from sklearn.utils import check_random_state, get_tags
from sklearn.utils.metadata_routing import (
    MetadataRequest,
    MetadataRouter,
    MethodMapping,
    process_routing,
)
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from .._bags import Bags
from .._bags.blocks import Block
from .._bags.canonical import check_choice, column_key
from .._bags.distinct import instance_ranks
from .._bags.kinds import targets
from .._bags.rows_on_disk import converted, is_read_in_blocks
from .._bags.threads import inner_matrices
from .._compat import need_module
from .._fit.validation import (
    STORED_FLOATS,
    as_bags,
    check_n_labels,
    in_order,
    validate_bags,
    validate_sample_weight,
)
from .._version import VersionedEstimator

# Proportions of the instances below a value, at least, and above: scores are within 5.2.
_LEAST_PROPORTION = 1e-7
# Steps whose output has the NaN of their input: scalers, selectors of features and "passthrough".
_KEEP_NAN = (OneToOneFeatureMixin, SelectorMixin, str)


def inner_tags(inner: Any) -> Any:
    """Tags of the inner estimator, or None for an object without tags (fit raises an error).

    Unlike in scikit-learn, ``allow_nan`` of pipelines, column transformers and feature unions is
    that of their steps.
    """
    # A class also has the method, but not the tags of an instance.
    if not hasattr(inner, "__sklearn_tags__") or isinstance(inner, type):
        return None
    tags = get_tags(inner)
    tags.input_tags.allow_nan = _takes_nan(inner, tags)
    return tags


def _takes_nan(inner: Any, tags: Any) -> bool:
    """Whether the steps that receive NaN accept them."""
    if isinstance(inner, Pipeline):
        for _, step in inner.steps:
            if not _accepts(step):
                return False
            if not (isinstance(step, _KEEP_NAN) or step is None):
                return True  # such as an imputer
        return True
    if isinstance(inner, FeatureUnion):  # every transformer receives all columns
        return all(_accepts(part) for _, part in inner.transformer_list)
    if isinstance(inner, ColumnTransformer):  # each column goes to one of them, or is left out
        parts = [part for _, part, _ in inner.transformers]
        return any(_accepts(part) for part in [*parts, inner.remainder])
    return bool(tags.input_tags.allow_nan or tags.no_validation)


def _accepts(step: Any) -> bool:
    if isinstance(step, str) or step is None:  # "passthrough" or "drop"
        return True
    tags = inner_tags(step)
    return tags is not None and tags.input_tags.allow_nan


def takes_texts(inner: Any) -> bool:
    """Whether a transformer, or its first step, takes a list of strings, as vectorisers do."""
    if isinstance(inner, Pipeline):
        return bool(inner.steps) and takes_texts(inner.steps[0][1])
    if isinstance(inner, FeatureUnion):
        return any(takes_texts(part) for _, part in inner.transformer_list)
    tags = inner_tags(inner)
    return tags is not None and tags.input_tags.string and not tags.input_tags.two_d_array


def finite_of(inner: Any) -> bool | str:
    """The ``ensure_all_finite`` of validation: allow NaN if the inner estimator supports it."""
    tags = inner_tags(inner)
    return "allow-nan" if tags is not None and tags.input_tags.allow_nan else True


def inner_has(fitted: str, attribute: str) -> Callable[[Any], bool]:
    """Condition of a method: the inner estimator, ``fitted`` after ``fit``, has the attribute."""
    return lambda owner: hasattr(getattr(owner, fitted, owner._inner()), attribute)


def copy_input_tags(tags: Any, inner: Any) -> None:
    """Copy the tags of the inner estimator that concern the input."""
    tags.input_tags.sparse = inner.input_tags.sparse
    tags.input_tags.allow_nan = inner.input_tags.allow_nan
    tags.input_tags.positive_only = inner.input_tags.positive_only
    tags.input_tags.three_d_array = True
    tags.target_tags = inner.target_tags
    tags.non_deterministic = inner.non_deterministic


def routed_fit_params(
    owner: Any, step: str, inner: Any, params: dict[str, Any], bags: Bags
) -> dict[str, Any]:
    """Keyword arguments for the inner ``fit``; values per bag are repeated for its instances.

    With metadata routing the inner estimator receives the requested arguments, otherwise all of
    them. Arrays, lists and series with one entry per bag are values per bag.

    Parameters
    ----------
    owner : meta-estimator with ``get_metadata_routing``
    step : str
        Name of the inner estimator in the router.
    inner : the inner estimator
    params : dict
        Arguments of ``fit`` of the owner.
    bags : Bags

    Raises
    ------
    ValueError
        If ``sample_weight`` is not one nonnegative weight per bag.
    TypeError
        If the inner estimator does not accept ``sample_weight``.
    """
    if not params:
        return {}
    routing = get_config()["enable_metadata_routing"]
    if routing:
        params = process_routing(owner, "fit", **params)[step]["fit"]
    routed = {}
    for name, value in params.items():
        if name == "sample_weight":
            if value is None:
                continue
            value = validate_sample_weight(value, bags)
        is_array = isinstance(value, (list, tuple)) or (hasattr(value, "shape") and value.shape)
        if is_array and not sparse.issparse(value) and len(value) == len(bags):
            value = np.asarray(value)[bags.bag_index]
        routed[name] = value
    return routed


# Transformers whose ``fit`` is one ``partial_fit``, so that calls per block are equivalent.
_FITTED_IN_BLOCKS = (IncrementalPCA, MaxAbsScaler, MinMaxScaler, StandardScaler)


class _MatrixTransformer(TransformerMixin, VersionedEstimator):
    # scikit-learn's set_output wraps the methods that are defined in a class itself. Methods for
    # plain matrices are in this class, and those for bags in a class that is not wrapped. So a
    # matrix can become a data frame, but Bags stay Bags.

    _finite: Callable[[], bool | str]
    _apply: Callable[[Any], Any]

    def transform(self, X: Any) -> Any:
        bags = validate_bags(self, X, reset=False, ensure_all_finite=self._finite())
        return self._apply(bags.instances)


class _ByKind:
    def fit_transform(self, X: Any, y: Any = None, **params: Any) -> Any:
        """Fit on the instances of ``X`` and transform them; see ``fit`` and ``transform``.

        It is equivalent to ``fit(X, y).transform(X)``, even if ``fit_transform`` of the inner
        transformer differs.

        Parameters
        ----------
        X : bags, or matrix of shape (n_bags, n_features)
            Bags to fit on and to transform.
        y : array-like of shape (n_bags,) or (n_bags, n_outputs), default=None
            Labels of the bags, for supervised transformers.
        **params : dict
            Further arguments of ``fit``.

        Returns
        -------
        Bags or matrix
            The result of ``transform``.
        """
        bags = as_bags(X)
        kind = X if bags is None else bags
        return self.fit(kind, y, **params).transform(kind)  # type: ignore[attr-defined]

    def transform(self, X: Any) -> Any:
        """Transform every instance.

        Parameters
        ----------
        X : bags, or matrix of shape (n_bags, n_features)
            Bags to transform; the rows of a matrix are bags of one instance.

        Returns
        -------
        Bags or matrix
            For bags of any kind, :class:`~milearn.Bags` with the same sizes and graphs; for a
            matrix, the output of the inner transformer.
        """
        check_is_fitted(self)
        bags = as_bags(X)
        if bags is None:
            return super().transform(X)  # type: ignore[misc]
        return self._transform_bags(bags)  # type: ignore[attr-defined]


class InstanceTransformer(_ByKind, _MatrixTransformer):
    """Apply a scikit-learn transformer to the instances of bags.

    The transformer is fitted on the matrix of all instances, with instances as samples, and its
    output is converted back to bags. In a pipeline, ``InstanceTransformer(StandardScaler())``
    computes the scaling from the training bags of each fold.

    Read more in the :ref:`User Guide <guide_data>`.

    .. versionadded:: 0.1.0

    Parameters
    ----------
    transformer : transformer, "standard", "passthrough" or None, default="standard"
        Any scikit-learn transformer with ``fit`` and ``transform`` that returns one row for each
        row. It is cloned. "standard" is :class:`~sklearn.preprocessing.StandardScaler`;
        "passthrough" and None change nothing, as in a :class:`~sklearn.pipeline.Pipeline`.

        .. versionchanged:: 0.4.0
            None was StandardScaler.

    Attributes
    ----------
    transformer_ : transformer
        The fitted clone.
    n_features_in_ : int
        Number of features of an instance.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Only when the bags have feature names that are all strings.

    See Also
    --------
    ClippedScaler : Scales instances and clips outliers.
    BagStatistics : One row per bag.

    Notes
    -----
    Bags of any kind become :class:`~milearn.Bags` with their graphs, and a plain matrix
    (its rows are bags of one instance) stays a matrix. Sparse instances are passed to the inner
    transformer as CSR. ``set_output`` and ``transform_output`` of scikit-learn's configuration only
    apply to matrices, and not to the inner transformer. A :class:`~sklearn.pipeline.FeatureUnion`
    that concatenates Bags would make a frame of them: call its ``set_output(transform="default")``.

    For supervised transformers (for example :class:`~sklearn.feature_selection.SelectKBest`) each
    instance has the label of its bag. Other arguments of ``fit`` with one entry per bag, such as
    ``sample_weight``, are also repeated for the instances of the bag; with metadata routing they
    are passed where they are requested. NaN is passed through if the inner transformer accepts it.

    Instances in float16 or in a memory map are transformed in blocks, and the result is in memory,
    in float32 for float16 instances. IncrementalPCA, MaxAbsScaler, MinMaxScaler and StandardScaler
    are also fitted in blocks; for other transformers all instances are converted to float32.

    The columns of a :class:`~sklearn.compose.ColumnTransformer` may be lists of names of features
    of the bags.

    Texts (see :meth:`milearn.Bags.from_list`) are passed to vectorisers, and to pipelines and
    feature unions that begin with one, as a list of strings, and to other transformers as a matrix
    of one column.

    Distributed bags (:class:`~milearn.distributed.DistributedBags`) stay distributed, and can be
    fitted by these four.

    Examples
    --------
    >>> from sklearn.preprocessing import MinMaxScaler
    >>> from milearn import Bags
    >>> from milearn.preprocessing import InstanceTransformer
    >>> bags = Bags.from_list([[[0.0, 10.0], [2.0, 20.0]], [[4.0, 30.0]]])
    >>> scaled = InstanceTransformer(MinMaxScaler()).fit_transform(bags)
    >>> scaled
    Bags(n_bags=2, n_instances=3, n_features=2, sizes=1..2, dtype=float64)
    >>> scaled.instances
    array([[0. , 0. ],
           [0.5, 0.5],
           [1. , 1. ]])
    """

    transformer_: Any

    def __init__(self, transformer: Any = "standard") -> None:
        self.transformer = transformer

    @in_order
    @inner_matrices()
    def fit(self, X: Any, y: Any = None, **params: Any) -> InstanceTransformer:
        """Fit the transformer on the instances.

        Parameters
        ----------
        X : bags, or matrix of shape (n_bags, n_features)
            Bags to fit on; the rows of a matrix are bags of one instance.
        y : array-like of shape (n_bags,) or (n_bags, n_outputs), default=None
            Labels of the bags, for supervised transformers.
        **params : dict
            Further arguments for the ``fit`` of the inner transformer. Those with one entry per bag
            are repeated for its instances.

        Returns
        -------
        self
            The fitted estimator.

        Raises
        ------
        TypeError
            If the inner object does not have ``fit`` and ``transform``.
        ValueError
            If bags are invalid, there is not one label per bag, or a vectoriser gets numbers.
        """
        inner = self._inner()
        if not (hasattr(inner, "fit") and hasattr(inner, "transform")) or isinstance(inner, type):
            raise TypeError(
                f"transformer={inner!r} is not a transformer: pass an instance with fit and "
                "transform, such as StandardScaler(), 'standard' or 'passthrough'."
            )
        bags = validate_bags(
            self, X, dtype=STORED_FLOATS, ensure_all_finite=self._finite(), accept_text=True
        )
        name = type(inner).__name__
        if takes_texts(inner) and bags.dtype != object:
            raise ValueError(
                f"{name} needs text, and the instances are numbers: create bags of text by "
                "Bags.from_list, with a list of strings for each bag."
            )
        labels = None
        if y is not None:
            labels = np.atleast_1d(np.asarray(targets(y)))
            check_n_labels(labels, bags)
            labels = labels[bags.bag_index]
        if _is_identity(inner):
            self.transformer_ = inner
            return self
        routed = routed_fit_params(self, "transformer", inner, params, bags)
        fitted = clone(inner)
        _use_positions(fitted, bags.feature_names)
        if is_read_in_blocks(bags) and type(inner) in _FITTED_IN_BLOCKS and not routed:
            fitted = bags.source().fold(fit_block, fitted)
        else:
            whole = converted(bags, np.float32) if bags.dtype == np.float16 else bags
            fitted.fit(_input_of(fitted, whole.instances), labels, **routed)
        self.transformer_ = fitted
        return self

    @available_if(inner_has("transformer_", "inverse_transform"))
    def inverse_transform(self, X: Any) -> Any:
        """Undo ``transform`` for every instance.

        Parameters
        ----------
        X : bags, or matrix of shape (n_bags, n_features)
            The output of ``transform``, or bags with the same number of features.

        Returns
        -------
        Bags or matrix
            Of the kind of ``X``, with the original features.
        """
        check_is_fitted(self)
        bags = as_bags(X)
        if bags is None:
            return self.transformer_.inverse_transform(X)
        restored = self.transformer_.inverse_transform(bags.instances)
        return bags.with_instances(restored, feature_names=getattr(self, "feature_names_in_", None))

    @available_if(inner_has("transformer_", "get_feature_names_out"))
    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the output features, as returned by the inner transformer.

        Parameters
        ----------
        input_features : array-like of str of shape (n_features_in_,), default=None
            Names of the input features. By default, ``feature_names_in_`` if it is set, otherwise
            ``x0, x1, ...``.

        Returns
        -------
        ndarray of str of shape (n_features_out,)
            One name per feature.
        """
        check_is_fitted(self)
        # The inner transformer was fitted without feature names, so they are validated here.
        names = OneToOneFeatureMixin.get_feature_names_out(self, input_features)
        return self.transformer_.get_feature_names_out(names)

    def get_metadata_routing(self) -> MetadataRouter:
        """Router that passes arguments of ``fit`` to the inner transformer.

        Returns
        -------
        MetadataRouter
            The requests of the inner transformer.
        """
        mapping = MethodMapping()
        mapping.add(caller="fit", callee="fit").add(caller="fit_transform", callee="fit")
        return MetadataRouter(owner=type(self).__name__).add(
            transformer=self._inner(), method_mapping=mapping
        )

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "transformer_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = inner_tags(self._inner())
        if inner is not None:
            copy_input_tags(tags, inner)
            if inner.transformer_tags is not None:
                tags.transformer_tags = inner.transformer_tags
        return tags

    def _inner(self) -> Any:
        if self.transformer is None or self.transformer == "passthrough":
            return FunctionTransformer(accept_sparse=True, feature_names_out="one-to-one")
        return StandardScaler() if self.transformer == "standard" else self.transformer

    def _finite(self) -> bool | str:
        return finite_of(self._inner())

    @inner_matrices()
    def _apply(self, matrix: Any) -> Any:
        return self.transformer_.transform(_input_of(self.transformer_, matrix))

    def _transform_bags(self, bags: Any) -> Any:
        bags = validate_bags(
            self,
            bags,
            reset=False,
            dtype=STORED_FLOATS,
            ensure_all_finite=self._finite(),
            accept_text=True,
        )
        if _is_identity(self.transformer_):
            return bags
        return bags._transformed(_with_new_instances, self)

    def _in_blocks(self, bags: Bags) -> Any:
        blocks = bags.source().blocks(in_parts=True)
        block = next(blocks)
        first = self._apply(block.instances)
        if block.rows.stop == bags.n_instances:
            return first
        if sparse.issparse(first):
            parts = [first, *(self._apply(block.instances) for block in blocks)]
            return sparse.vstack(parts, format="csr")
        out = np.empty((bags.n_instances, first.shape[1]), dtype=first.dtype)
        out[block.rows] = first
        for block in blocks:
            out[block.rows] = self._apply(block.instances)
        return out


def _is_identity(inner: Any) -> bool:
    return isinstance(inner, FunctionTransformer) and inner.func is None


def _with_new_instances(bags: Bags, by: InstanceTransformer) -> Bags:
    named = hasattr(by, "feature_names_in_") and hasattr(by, "get_feature_names_out")
    return bags.with_instances(
        by._in_blocks(bags) if is_read_in_blocks(bags) else by._apply(bags.instances),
        feature_names=by.get_feature_names_out() if named else None,
    )


def fit_block(transformer: Any, block: Block) -> Any:
    """The transformer after one more block."""
    return transformer.partial_fit(block.instances)


def _input_of(inner: Any, matrix: Any) -> Any:
    """The instances, or their texts as a list for vectorisers."""
    return matrix[:, 0].tolist() if matrix.dtype == object and takes_texts(inner) else matrix


def _use_positions(inner: Any, names: np.ndarray | None) -> None:
    """Replace names of columns by their positions, which scikit-learn needs for a matrix."""
    if isinstance(inner, Pipeline) and inner.steps:
        _use_positions(inner.steps[0][1], names)
    elif isinstance(inner, ColumnTransformer) and names is not None:
        given = inner.transformers
        if any(isinstance(key, make_column_selector) for *_, key in given):
            frame = need_module("pandas", "make_column_selector").DataFrame(
                columns=names, dtype=float
            )
            given = [
                (*p, k(frame) if isinstance(k, make_column_selector) else k) for *p, k in given
            ]
        inner.transformers = [(*p, column_key(k, names) if np.ndim(k) else k) for *p, k in given]


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

    Read more in the :ref:`User Guide <guide_data>`.

    .. versionadded:: 0.1.0

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
        Number of features of an instance.
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

    @in_order
    def fit(self, X: Any, y: Any = None) -> ClippedScaler:
        """Learn the scaling from the instances.

        Parameters
        ----------
        X : bags, or matrix of shape (n_bags, n_features)
            Bags to fit on; the rows of a matrix are bags of one instance.
        y : ignored
            Present for consistency with other estimators.

        Returns
        -------
        self
            The fitted estimator.
        """
        check_choice("scaling", self.scaling, _SCALINGS)
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


@inner_matrices()
def _by_quantiles(model: QuantileTransformer, matrix: np.ndarray) -> np.ndarray:
    """The transformed matrix.

    scikit-learn's own way takes values within 1e-7 of the lowest and highest quantile for these,
    which are all values of a feature of a smaller range, and has a call for each feature.
    """
    model = copy(model)
    model.output_distribution = "uniform"
    proportions = np.asarray(model.transform(matrix), dtype=matrix.dtype)
    np.clip(proportions, _LEAST_PROPORTION, 1.0 - _LEAST_PROPORTION, out=proportions)
    return np.asarray(ndtri(proportions, out=proportions))


def _constant(scaler: Any) -> np.ndarray:
    if hasattr(scaler, "quantiles_"):
        return scaler.quantiles_[0] == scaler.quantiles_[-1]
    if hasattr(scaler, "data_range_"):
        return scaler.data_range_ == 0
    # Constant up to rounding, as in StandardScaler, which does not divide in this case.
    return (scaler.scale_ == 1) & (scaler.var_ < 0.5)
