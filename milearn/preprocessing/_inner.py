"""Tags and arguments of the scikit-learn estimator inside a meta-estimator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse
from sklearn import get_config
from sklearn.base import OneToOneFeatureMixin
from sklearn.compose import ColumnTransformer
from sklearn.feature_selection import SelectorMixin
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.utils import get_tags
from sklearn.utils.metadata_routing import process_routing
from sklearn.utils.validation import has_fit_parameter

from .._bags import Bags
from .._fit.validation import validate_sample_weight

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
            if not routing and not has_fit_parameter(inner, "sample_weight"):
                raise TypeError(
                    f"sample_weight was given but {type(inner).__name__} does not take it: leave "
                    "it out, or use an estimator whose fit has it."
                )
            value = validate_sample_weight(value, bags)
        routed[name] = _per_instance(value, bags)
    return routed


def _per_instance(value: Any, bags: Bags) -> Any:
    listed = isinstance(value, (list, tuple)) or (hasattr(value, "shape") and value.shape)
    if not listed or sparse.issparse(value) or len(value) != len(bags):
        return value
    return np.asarray(value)[bags.bag_index]
