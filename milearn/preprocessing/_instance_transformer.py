"""Any scikit-learn transformer, applied to the instances of bags."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from sklearn import config_context
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin, clone
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, StandardScaler
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from .._bags import Bags
from .._bags.blocks import Block
from .._bags.rows_on_disk import converted, holds_text, is_read_in_blocks
from .._fit.validation import STORED_FLOATS, as_bags, validate_bags
from ._inner import (
    copy_input_tags,
    finite_of,
    inner_has,
    inner_tags,
    routed_fit_params,
    takes_texts,
)

# Transformers whose ``fit`` is one ``partial_fit``, so that calls per block are equivalent.
_FITTED_IN_BLOCKS = (MaxAbsScaler, MinMaxScaler, StandardScaler)


class _MatrixTransformer(TransformerMixin, BaseEstimator):
    # scikit-learn's set_output wraps the methods that are defined in a class itself. Methods for
    # plain matrices are in this class, and those for bags in a class that is not wrapped. So a
    # matrix can become a data frame, but Bags stay Bags.

    def transform(self, X: Any) -> Any:
        bags = validate_bags(self, X, reset=False, ensure_all_finite=self._finite())
        return self._apply(bags.instances)

    def _finite(self) -> bool | str:
        raise NotImplementedError

    def _apply(self, matrix: Any) -> Any:
        raise NotImplementedError


class _ByKind:
    def fit_transform(self, X: Any, y: Any = None, **params: Any) -> Any:
        """Fit on the instances of ``X`` and transform them; see ``fit`` and ``transform``.

        It is equivalent to ``fit(X, y).transform(X)``, even if ``fit_transform`` of the inner
        transformer differs.

        Parameters
        ----------
        X : Bags, 3-D array, sequence of 2-D blocks, or matrix
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
        X : Bags, 3-D array, sequence of 2-D blocks, or matrix
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

    Parameters
    ----------
    transformer : transformer, default=None
        Any scikit-learn transformer with ``fit`` and ``transform`` that returns one row for each
        row. It is cloned. By default, it is :class:`~sklearn.preprocessing.StandardScaler`.

    Attributes
    ----------
    transformer_ : transformer
        The fitted clone.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Only when the bags have feature names that are all strings.

    Notes
    -----
    Bags of any kind become :class:`~milearn.Bags` with their graphs, and a plain matrix (its rows
    are bags of one instance) stays a matrix. Sparse instances are passed to the inner transformer
    as CSR. ``set_output`` only applies to matrices. A ``FeatureUnion`` or ``ColumnTransformer``
    that concatenates Bags would wrap them itself, so set the output of the following steps instead
    of the whole pipeline.

    For supervised transformers (for example ``SelectKBest``) each instance has the label of its
    bag. Other arguments of ``fit`` with one entry per bag, such as ``sample_weight``, are also
    repeated for the instances of the bag; with metadata routing they are passed where they are
    requested. NaN is passed through if the inner transformer accepts it.

    Instances in float16 or in a memory map are transformed in blocks, and the result is in memory,
    in float32 for float16 instances. MaxAbsScaler, MinMaxScaler and StandardScaler are also fitted
    in blocks; for other transformers all instances are converted to float32.

    The texts of :meth:`milearn.Bags.from_documents` are passed to vectorisers, and to pipelines and
    feature unions that begin with one, as a list of strings, and to other transformers as a matrix
    of one column.

    Distributed bags (:class:`~milearn.distributed.DistributedBags`) stay distributed. The inner
    transformer needs ``partial_fit``, which is called for the partitions in their order, without
    labels.

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

    def __init__(self, transformer: Any = None) -> None:
        self.transformer = transformer

    def fit(self, X: Any, y: Any = None, **params: Any) -> InstanceTransformer:
        """Fit the transformer on the instances.

        Parameters
        ----------
        X : Bags, 3-D array, sequence of 2-D blocks, or matrix
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
                "transform, such as StandardScaler()."
            )
        bags = validate_bags(
            self, X, dtype=STORED_FLOATS, ensure_all_finite=self._finite(), accept_text=True
        )
        name = type(inner).__name__
        if takes_texts(inner) and not holds_text(bags):
            raise ValueError(
                f"{name} needs text, and the instances are numbers: create bags of text by "
                "Bags.from_documents."
            )
        if bags.is_remote:
            if not hasattr(inner, "partial_fit"):
                raise TypeError(
                    f"{name} has no partial_fit, so that it cannot be fitted on distributed bags: "
                    "fit it on some of them, as in fit(bags[:1000].compute()), or take one that "
                    "has, such as StandardScaler or IncrementalPCA."
                )
            given = [key for key, value in params.items() if value is not None]
            if given:
                raise ValueError(
                    f"{name} on distributed bags takes no {given[0]}: leave it out, or fit on "
                    "bags.compute()."
                )
            self.transformer_ = bags.source().fold(fit_block, clone(inner))
            return self
        labels = None
        if y is not None:
            labels = np.asarray(y)
            if labels.ndim == 0 or len(labels) != len(bags):
                raise ValueError(
                    f"y has {labels.size if labels.ndim == 0 else len(labels)} labels for "
                    f"{len(bags)} bags: pass one label per bag (inconsistent numbers of samples)."
                )
            labels = labels[bags.bag_index]
        routed = routed_fit_params(self, "transformer", inner, params, bags)
        fitted = clone(inner)
        if _reads_blocks(bags) and type(inner) in _FITTED_IN_BLOCKS and not routed:
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
        X : Bags, 3-D array, sequence of 2-D blocks, or matrix
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
        input_features : array-like of str, default=None
            Names of the input features. By default, ``feature_names_in_`` if it is set, otherwise
            ``x0, x1, ...``.

        Returns
        -------
        ndarray of str
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

    def _takes_remote_bags(self) -> bool:
        return True

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
        return StandardScaler() if self.transformer is None else self.transformer

    def _finite(self) -> bool | str:
        return finite_of(self._inner())

    def _apply(self, matrix: Any) -> Any:
        # The outer transformer decides whether the output is a data frame.
        with config_context(transform_output="default"):
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
        if bags.is_remote:
            return bags.transformed(_transformed, self)
        named = hasattr(self, "feature_names_in_") and hasattr(self, "get_feature_names_out")
        return bags.with_instances(
            self._in_blocks(bags) if _reads_blocks(bags) else self._apply(bags.instances),
            feature_names=self.get_feature_names_out() if named else None,
        )

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


def _transformed(bags: Bags, transformer: InstanceTransformer) -> Bags:
    return transformer.transform(bags)


def fit_block(transformer: Any, block: Block) -> Any:
    """The transformer after one more block."""
    return transformer.partial_fit(block.instances)


def _reads_blocks(bags: Bags) -> bool:
    return bags.n_instances > 0 and is_read_in_blocks(bags)


def _input_of(inner: Any, matrix: Any) -> Any:
    """The instances, or their texts as a list for vectorisers."""
    return matrix[:, 0].tolist() if matrix.dtype == object and takes_texts(inner) else matrix
