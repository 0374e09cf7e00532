"""Columns of bags, such as age or site, as rows or as features of the instances."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import TransformerMixin, clone
from sklearn.utils.validation import check_is_fitted

from .._bags import Bags
from .._bags.annotations import bag_columns
from .._bags.canonical import check_columns
from .._bags.kinds import column, conversion, kind_of, numbers
from .._bags.names import bag_text
from .._bags.rows_on_disk import row_blocks
from .._bags.threads import inner_matrices
from .._compat import need_module, output_container
from .._fit.validation import STORED_FLOATS, as_bags, in_order, validate_bags
from .._version import VersionedEstimator


class _Columns(VersionedEstimator):
    """Base class: which columns of ``bag_data`` are used, and their kinds."""

    columns: Any
    columns_: tuple[str, ...]
    _kinds: tuple[str, ...]

    def _table(self, bags: Bags, *, learn: bool = False) -> Any:
        """A frame of the columns: numbers as floats, categories as texts.

        ``learn`` stores their names and kinds.
        """
        import pandas

        frame = bags.bag_data
        names = self.columns_ if not learn else tuple(bag_columns(self.columns)) or ()
        if learn and self.columns is None:
            names = tuple(frame.columns)
        check_columns("bag_data", names, list(frame.columns))
        who = type(self).__name__
        found = {name: _column(frame[name], f"{who}: bag_data[{name!r}]") for name in names}
        kinds = tuple(kind for kind, _ in found.values())
        if learn:
            self.columns_, self._kinds = names, kinds
        for name, kind, known in zip(self.columns_, kinds, self._kinds, strict=True):
            if kind != known:
                raise ValueError(
                    f"bag_data[{name!r}] is a {kind}, but {who} was fitted on a {known}."
                )
        values = {name: each for name, (_, each) in found.items()}
        return pandas.DataFrame(values, index=range(len(bags)))

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "columns_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.three_d_array = True
        return tags


class BagData(TransformerMixin, _Columns):
    """Represent each bag by columns of its ``bag_data``.

    Columns of the bags, such as age, stain or hospital, become rows for any estimator of
    scikit-learn. In a :class:`~sklearn.pipeline.FeatureUnion` they are placed next to an embedding
    of the instances.

    Read more in the :ref:`User Guide <guide_data>`.

    .. versionadded:: 0.2.0

    Parameters
    ----------
    columns : sequence of str, default=None
        Names of columns of one dimension. By default, all columns of the training bags; bags
        without columns then give rows of length zero.

    Attributes
    ----------
    columns_ : tuple of str
        The columns, in the order of the output.
    n_features_in_ : int
        Number of features of an instance.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Only when the bags have feature names that are all strings.

    Raises
    ------
    ValueError
        If the bags have no column of a name, in ``fit`` or ``transform``, or it has two dimensions,
        or holds texts in place of numbers.

    See Also
    --------
    AppendBagData : The columns as features of the instances, for models of instances.

    Notes
    -----
    The output is float64, or an array of objects if a column holds texts; data frames, by
    ``set_output``, have numbers and texts in columns of their own types. Dates and durations become
    days, since 1970 for dates. Encode texts by
    :class:`~sklearn.preprocessing.OneHotEncoder`, and fill missing numbers (NaN) by
    :class:`~sklearn.impute.SimpleImputer`, in the pipeline, so that they are fitted on training
    bags. The instances are not used, and may contain NaN.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline, make_union
    >>> from sklearn.preprocessing import OneHotEncoder
    >>> from milearn import Bags
    >>> from milearn.preprocessing import BagData, BagStatistics
    >>> columns = {"age": [71, 64], "stain": ["HE", "IHC"]}
    >>> bags = Bags.from_list([[[0.0], [2.0]], [[4.0]]], bag_data=columns)
    >>> union = make_union(
    ...     BagStatistics("mean"),
    ...     BagData(["age"]),
    ...     make_pipeline(BagData(["stain"]), OneHotEncoder(sparse_output=False)),
    ... )
    >>> union.fit_transform(bags)
    array([[ 1., 71.,  1.,  0.],
           [ 4., 64.,  0.,  1.]])
    """

    def __init__(self, columns: Sequence[str] | None = None) -> None:
        self.columns = columns

    @in_order
    def fit(self, X: Any, y: Any = None) -> BagData:
        """Store the names and kinds of the columns.

        Parameters
        ----------
        X : Bags
            Bags with ``bag_data``.
        y : ignored
            Present for consistency with other estimators.

        Returns
        -------
        self
            The fitted estimator.
        """
        self._table(self._validated(X, reset=True), learn=True)
        return self

    def transform(self, X: Any) -> Any:
        """One row of ``bag_data`` per bag.

        Parameters
        ----------
        X : Bags
            Bags with the columns of ``fit``.

        Returns
        -------
        ndarray or data frame of shape (n_bags, n_columns)
            The columns, in the order of ``columns_``; arrays are float64 or object.
        """
        check_is_fitted(self)
        bags = self._validated(X, reset=False)
        table, container = self._table(bags), output_container(self)
        has_texts = "category" in self._kinds
        if container == "default" or not has_texts:
            return table.to_numpy(dtype=object if has_texts else np.float64)
        # scikit-learn would make columns of objects from an array of objects.
        frame = need_module(container, f"set_output(transform={container!r})").DataFrame
        return frame({name: table[name].to_numpy() for name in self.columns_})

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the columns.

        Parameters
        ----------
        input_features : ignored
            Present for consistency with other transformers.

        Returns
        -------
        ndarray of str of shape (n_features_out,)
            One name per column.
        """
        check_is_fitted(self)
        return np.array(self.columns_, dtype=object)

    def _validated(self, X: Any, reset: bool) -> Bags:
        # The instances are not read, so that NaN among them do no harm.
        return validate_bags(
            self, X, reset=reset, dtype=STORED_FLOATS, ensure_all_finite="allow-nan"
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


class AppendBagData(TransformerMixin, _Columns, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    r"""Append columns of ``bag_data`` to the features of every instance.

    Models of instances then use the columns of the bags. For linear models whose bag score is the
    highest instance score this is exactly a fixed effect with a ridge penalty: the columns
    :math:`z` are equal in all instances :math:`x_k` of a bag, so that

    .. math:: \max_k (w \cdot x_k + a \cdot z) = \max_k w \cdot x_k + a \cdot z .

    Read more in the :ref:`User Guide <guide_data>`.

    .. versionadded:: 0.2.0

    Parameters
    ----------
    columns : sequence of str, default=None
        Names of columns of one dimension. By default, all columns of the training bags; bags
        without columns are not changed.
    transformer : transformer, default=None
        Applied to the columns, with one row per bag; it is cloned and fitted on the training bags.
        It can encode texts and impute or scale numbers. By default, the columns must hold numbers
        without gaps.

    Attributes
    ----------
    columns_ : tuple of str
        The columns.
    transformer_ : transformer or None
        The fitted clone.
    n_features_in_ : int
        Number of features of an instance.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Only when the bags have feature names that are all strings.

    Raises
    ------
    ValueError
        As for :class:`BagData`, or if a column holds texts or NaN without a transformer; the error
        names the bag.

    See Also
    --------
    BagData : The columns as rows.

    Notes
    -----
    The penalty of a fixed effect depends on the scale of its column: scale the columns as the
    features. The result is in memory, also for memory-mapped bags. It has feature names only if the
    bags have them and there is no transformer.

    Examples
    --------
    >>> from milearn import Bags
    >>> from milearn.preprocessing import AppendBagData
    >>> bags = Bags.from_list([[[0.0], [2.0]], [[4.0]]], bag_data={"age": [71, 64]})
    >>> AppendBagData().fit_transform(bags).instances
    array([[ 0., 71.],
           [ 2., 71.],
           [ 4., 64.]])
    """

    transformer_: Any

    def __init__(self, columns: Sequence[str] | None = None, transformer: Any = None) -> None:
        self.columns = columns
        self.transformer = transformer

    @in_order
    @inner_matrices()
    def fit(self, X: Any, y: Any = None) -> AppendBagData:
        """Store the names and kinds of the columns, and fit the transformer.

        Parameters
        ----------
        X : Bags
            Bags with ``bag_data``.
        y : array-like of shape (n_bags,), default=None
            Labels of the bags, for supervised transformers.

        Returns
        -------
        self
            The fitted estimator.
        """
        bags = validate_bags(self, X, dtype=STORED_FLOATS)
        table = self._table(bags, learn=True)
        self.transformer_ = None
        if self.columns_ and not (self.transformer is None or self.transformer == "passthrough"):
            self.transformer_ = clone(self.transformer).fit(table, y)
        return self

    @inner_matrices()
    def transform(self, X: Any) -> Any:
        """Append the columns.

        Parameters
        ----------
        X : Bags
            Bags with the columns of ``fit``.

        Returns
        -------
        Bags or matrix
            :class:`~milearn.Bags` of the same sizes with more features; a matrix, which has no
            columns of bags, is not changed.
        """
        check_is_fitted(self)
        bags = validate_bags(self, X, reset=False, dtype=STORED_FLOATS)
        if not self.columns_:
            return bags.instances if as_bags(X) is None else bags
        table: Any = self._table(bags)
        if self.transformer_ is not None:
            table = self.transformer_.transform(table)
        rows = table.toarray() if sparse.issparse(table) else np.asarray(table)
        if self.transformer_ is None and "category" in self._kinds:
            name = self.columns_[self._kinds.index("category")]
            raise ValueError(
                f"AppendBagData: bag_data[{name!r}] is a category: pass "
                "transformer=OneHotEncoder()."
            )
        rows = rows.astype(np.float64 if bags.dtype == np.float64 else np.float32)
        for bag, at in np.argwhere(~np.isfinite(rows))[:1].tolist():
            known = self.transformer_ is None
            what = f"bag_data[{self.columns_[at]!r}]" if known else f"column {at}"
            raise ValueError(
                f"AppendBagData: {what} of {bag_text(bags, bag)} is not finite: impute it by "
                "transformer=."
            )
        names = None
        if bags.feature_names is not None and self.transformer_ is None:
            names = [*bags.feature_names.tolist(), *self.columns_]
        return bags.with_instances(_appended(bags, rows), feature_names=names)


def _appended(bags: Bags, rows: np.ndarray) -> Any:
    if bags.is_sparse:
        further = sparse.csr_array(rows[bags.bag_index])
        return sparse.hstack([bags.instances, further], format="csr")
    blocks = row_blocks(bags)
    out = np.empty((bags.n_instances, bags.shape[1] + rows.shape[1]), dtype=rows.dtype)
    for start, stop, block in blocks:
        out[start:stop, : bags.shape[1]] = block
        out[start:stop, bags.shape[1] :] = rows[bags.bag_index[start:stop]]
    return out


def _column(values: Any, what: str) -> tuple[str, np.ndarray]:
    """A category as objects, or numbers; durations are days, and dates days since 1970."""
    import pandas

    found = column(values, what)
    kind = kind_of(found)
    if kind == "time":
        found, kind = found - pandas.Timestamp(0, tz=found.dt.tz), "duration"
    if kind in ("number", "duration") or pandas.api.types.is_bool_dtype(found.dtype):
        return "number", numbers(found, what)
    if kind == "text" and (remedy := conversion(found)) is not None:
        raise ValueError(f"{what} holds text that reads as numbers or dates: {remedy}.")
    return "category", found.to_numpy(dtype=object, na_value=np.nan)
