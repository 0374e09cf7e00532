"""Validation of bags, labels, weights and scores."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from functools import partial, wraps
from inspect import signature
from numbers import Real
from typing import Any

import numpy as np
from scipy import sparse
from sklearn import get_config
from sklearn.base import is_classifier, is_regressor
from sklearn.metrics import check_scoring
from sklearn.utils import assert_all_finite, check_array
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d, validate_data

from .._bags import Bags
from .._bags.blocks import Block
from .._bags.canonical import (
    canonical_matrix,
    first_text,
    frame_like,
    frame_matrix,
    frame_names,
    is_plain,
    keys_of,
)
from .._bags.constructors import warn_of_zeros
from .._bags.kinds import (
    ENCODE,
    are_missing,
    as_labels,
    check_array_like,
    column,
    id_text,
    is_missing,
    listed,
    numbers,
    targets,
)
from .._bags.names import bag_text, check_index
from .._bags.rows_on_disk import converted, pieces_of
from .._compat import check_sample_weight
from .warn import warn_user

_FLOATS = (np.float64, np.float32)
# For estimators that read the instances in blocks, where float16 is converted.
STORED_FLOATS = (np.float64, np.float32, np.float16)
# Bits of infinity and of the sign of a float16.
_HALF_INFINITY, _HALF_SIGN = 0x7C00, 0x8000


# -- input -------------------------------------------------------------------------------------


def as_bags(X: Any) -> Any:
    """Return ``X`` as :class:`~milearn.Bags`, or None if it is a plain matrix.

    Bags are: a ``Bags``, distributed bags, a 3-D array or tensor, a ragged array of awkward, and a
    list, tuple, series or 1-D object array of 2-D blocks (arrays, nested lists, sparse matrices,
    data frames). Everything else is left to scikit-learn's validation, which takes each row as a
    bag of one instance.

    .. versionadded:: 0.1.0

    Parameters
    ----------
    X : bags or matrix
        Input of an estimator.

    Returns
    -------
    Bags, distributed bags or None
        None for input that scikit-learn validates.

    Raises
    ------
    TypeError
        For a string or bytes, or an object that is no array, data frame, sparse matrix or sequence.
    ValueError
        For blocks that do not fit together; the message names the bag.

    See Also
    --------
    check_bags : Also validates a matrix.

    Examples
    --------
    >>> from milearn.utils.validation import as_bags
    >>> as_bags([[[0.0], [1.0]], [[2.0]]])
    Bags(n_bags=2, n_instances=3, n_features=1, sizes=1..2, dtype=float64)
    >>> print(as_bags([[0.0, 1.0], [2.0, 3.0]]))
    None
    """
    if isinstance(X, Bags):
        return X
    if isinstance(X, (str, bytes)) or hasattr(X, "__fspath__"):
        kind = "path" if hasattr(X, "__fspath__") else "string"
        raise TypeError(
            f"X is a {kind} ({str(X)[:40]!r}): pass bags; to read them from a file use "
            "milearn.datasets.load_bags."
        )
    check_array_like(X, "X")
    if sparse.issparse(X) or hasattr(X, "columns"):
        return None
    if not isinstance(X, np.ndarray) and getattr(X, "ndim", 0) > 2:
        # A tensor has a shape; an array of awkward has none, as its bags may differ in size.
        X = np.asarray(X) if hasattr(X, "shape") else list(X)
    named, names = X, keys_of(X)
    if hasattr(X, "to_numpy"):
        X = X.to_numpy()
    if isinstance(X, np.ndarray) and X.ndim == 3:
        # Also with dtype=object: NumPy creates such arrays from lists of blocks of equal size.
        n_bags, size, width = X.shape
        bags = Bags(X.reshape(n_bags * size, width), np.arange(n_bags + 1) * size)
        warn_of_zeros(bags)
        return bags
    if isinstance(X, np.ndarray) and X.ndim > 3:
        return Bags.from_list(X)  # its error has advice for pictures
    if isinstance(X, np.ndarray) and X.dtype.kind not in "OU":
        return None
    sequence = isinstance(X, (list, tuple)) or (isinstance(X, np.ndarray) and X.ndim == 1)
    if sequence and not (len(X) and _are_rows(X)):
        return Bags.from_list(X if names is None else named)
    return None


def check_bags(X: Any, *, dtype: Any = _FLOATS) -> Bags:
    """Validate bags or a matrix for functions without an estimator.

    The same as :func:`validate_bags` without the checks against an estimator: rows of a matrix are
    bags of one instance, other types of instances become the first of ``dtype``, and for values
    that are not finite the error contains the position of the bag.

    .. versionadded:: 0.1.0

    Parameters
    ----------
    X : Bags, 3-D array, sequence of 2-D blocks, or matrix
        The input.
    dtype : type or tuple of types, default=(float64, float32)
        Types of instances that are kept; any other is converted to the first.

    Returns
    -------
    Bags
        Checked bags.

    Raises
    ------
    ValueError
        For bags that do not fit together, values that are not finite, or a data frame with a
        column that is not numeric.
    TypeError
        For a string.

    See Also
    --------
    validate_bags : Validate bags for an estimator.
    as_bags : Tell bags from a plain matrix.

    Examples
    --------
    >>> from milearn.utils.validation import check_bags
    >>> check_bags([[0.0, 1.0], [2.0, 3.0]])
    Bags(n_bags=2, n_instances=2, n_features=2, sizes=1..1, dtype=float64)
    """
    return validate_bags(None, X, dtype=dtype)


def _are_rows(X: Any) -> bool:
    """Whether a sequence is left to scikit-learn: numbers, or rows of equal length."""
    lengths = set()
    for block in X:
        depth = _depth(block)
        if depth > 1 or isinstance(block, (str, bytes)) or hasattr(block, "__fspath__"):
            return False
        if depth == 1:
            lengths.add(len(block))
    return len(lengths) <= 1


def _depth(block: Any) -> int:
    # Arrays of awkward have no shape, and frames of polars no ndim.
    if hasattr(block, "ndim") or hasattr(block, "shape"):
        return block.ndim if hasattr(block, "ndim") else len(block.shape)
    if isinstance(block, (list, tuple)):
        return 1 + (_depth(block[0]) if len(block) else 0)
    return 0


def validate_bags(
    estimator: Any,
    X: Any,
    *,
    reset: bool = True,
    dtype: Any = _FLOATS,
    accept_sparse: bool = True,
    ensure_all_finite: bool | str = True,
    min_bags: int = 1,
    accept_text: bool = False,
) -> Bags:
    """Validate bags or a matrix for an estimator.

    With ``reset=True`` sets ``n_features_in_`` and ``feature_names_in_`` on ``estimator``,
    otherwise checks against them. A matrix goes through scikit-learn's ``validate_data`` and each
    of its rows becomes a bag of one instance.

    .. versionadded:: 0.1.0

    Parameters
    ----------
    estimator : estimator instance or None
        The estimator that the bags are for.
    X : Bags, 3-D array, sequence of 2-D blocks, or matrix
        The input of one of its methods.
    reset : bool, default=True
        True in ``fit``, False in other methods.
    dtype : type or tuple of types, default=(float64, float32)
        Instances of another type are converted to the first, float16 to float32 if that is
        included. Estimators that read in blocks pass ``STORED_FLOATS``, which includes float16.
    accept_sparse : bool, default=True
        Whether CSR instances are allowed.
    ensure_all_finite : bool or "allow-nan", default=True
        Whether NaN and infinity are errors.
    min_bags : int, default=1
        Minimum number of bags.
    accept_text : bool, default=False
        Whether instances may be strings, see :meth:`milearn.Bags.from_list`. They are not
        converted.

    Returns
    -------
    Bags
        Checked bags.

    Raises
    ------
    ValueError
        For bags that do not fit together, too few of them, other features than in ``fit``, values
        that are not finite, text, or a data frame with a column that is not numeric.
    TypeError
        For a string, or sparse instances with ``accept_sparse=False``.

    See Also
    --------
    check_bags : Validation without an estimator.

    Examples
    --------
    >>> from milearn.svm import MISVC
    >>> from milearn.utils.validation import validate_bags
    >>> model = MISVC()
    >>> bags = validate_bags(model, [[[0.0], [1.0]], [[2.0]]])
    >>> bags.n_instances, model.n_features_in_
    (3, 1)
    """
    kinds = list(dtype) if isinstance(dtype, (tuple, list)) else [dtype]
    bags = X if isinstance(X, Bags) else as_bags(X)
    if bags is None:
        options: dict[str, Any] = {
            "dtype": kinds,
            "accept_sparse": "csr" if accept_sparse else False,
            "ensure_all_finite": ensure_all_finite,
            "ensure_min_samples": min_bags,
            "order": "C",
        }
        X = _read_columns(X)
        try:
            if estimator is None:
                matrix = check_array(X, **options)
            else:
                matrix = validate_data(estimator, X, reset=reset, **options)
        except (TypeError, ValueError) as error:
            if (text := first_text(X.to_numpy() if hasattr(X, "to_numpy") else X)) is None:
                raise
            raise ValueError(
                f"X holds {text[:40]!r}, which is not a number: {ENCODE}. A bag of texts is a list "
                "of strings without gaps."
            ) from error
        return Bags.singletons(matrix, feature_names=frame_names(X))
    name = "this function" if estimator is None else type(estimator).__name__
    n_bags, n_features = bags.shape
    if n_bags < min_bags:
        raise ValueError(
            f"Found {n_bags} bag(s) while a minimum of {min_bags} is required by {name}."
        )
    if n_features == 0:
        raise ValueError(f"The bags have 0 features while a minimum of 1 is required by {name}.")
    if bags.is_sparse and not accept_sparse:
        raise TypeError(
            f"The instances are sparse but {name} needs dense ones: convert them with "
            "bags.with_instances(bags.instances.toarray())."
        )
    if bags.dtype != object:
        if bags.dtype not in kinds:
            half = bags.dtype == np.float16 and np.float32 in kinds
            bags = converted(bags, np.float32 if half else kinds[0])
        if ensure_all_finite is True or ensure_all_finite == "allow-nan":
            check_finite(bags, allow_nan=ensure_all_finite == "allow-nan")
    elif not accept_text:
        remedy = "InstanceTransformer(TfidfVectorizer())"
        if estimator is None:
            remedy += ", or pass the step and bags of milearn.inspection.final_step(pipeline, X)"
        raise ValueError(
            f"The instances are text: {name} needs numbers; encode the text in an earlier step of "
            f"the pipeline, such as {remedy}."
        )
    names: Any = bags.feature_names
    known: Any = getattr(estimator, "feature_names_in_", None)
    if estimator is not None and reset:  # last: invalid bags do not change the estimator
        estimator.__dict__.pop("feature_names_in_", None)
        estimator.n_features_in_ = n_features
        if names is not None:
            estimator.feature_names_in_ = names
    elif estimator is not None and (names is None or known is None):
        validate_data(estimator, bags, reset=False, skip_check_array=True)
    elif estimator is not None and list(names) != list(known):
        lacking = listed([each for each in known.tolist() if each not in names], 3)
        new = listed([each for each in names.tolist() if each not in known], 3)
        raise ValueError(
            "The feature names should match those that were passed during fit: "
            + (f"{lacking} missing" if lacking else "the order differs")
            + (f", {new} new" if new else "")
            + ". Pass X[:, model.feature_names_in_]"
            + (", with these features." if lacking else ".")
        )
    return bags


def _read_columns(X: Any) -> Any:
    """A matrix whose columns are read as all others, and not converted by scikit-learn."""
    if not frame_like(X):
        kind = getattr(getattr(X, "dtype", None), "kind", "")
        return canonical_matrix(X) if kind in ("m", "M") else X
    names = list(X.columns)
    if len({*names}) < len(names) or is_plain(X, names):
        return X
    import pandas

    try:
        return pandas.DataFrame(frame_matrix(X, names), columns=names)
    except ValueError as error:
        remedy = "If a column names the bag of each row, pass Bags.from_frame(X, column)."
        raise ValueError(f"{error} {remedy}") from error


def check_order(bags: Any, **values: Any) -> None:
    """Refuse a Series whose index is not the names of the bags, see :func:`check_index`."""
    for what, given in values.items():
        check_index(given, bags.names, what)


def in_order(method: Callable) -> Callable:
    """Decorator for ``method(X, y, ...)``: y, weights and groups are in the order of the bags."""
    names = list(signature(method).parameters)[1:]

    @wraps(method)
    def with_check(estimator: Any, *args: Any, **kwargs: Any) -> Any:
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        X = given.pop("X", None)
        if isinstance(X, Bags) and X.names is not None:
            check_order(X, **given)
        return method(estimator, *args, **kwargs)

    return with_check


def check_finite(bags: Bags, allow_nan: bool) -> None:
    """Raise a ValueError for infinity, and for NaN unless it is allowed; it names the bag."""
    if get_config()["assume_finite"]:
        return
    parts = bags.source(dtype=bags.dtype).map(_first_wrong, allow_nan, in_parts=True)
    for row, value in filter(None, parts):
        bag = int(np.searchsorted(bags.offsets, row, side="right")) - 1
        what, remedy = "infinity", "remove or clip it"
        if np.isnan(value):
            what, remedy = "NaN", "impute it with milearn.preprocessing.InstanceTransformer("
            remedy += "SimpleImputer()) or remove the instance"
            if not bags.is_sparse and np.isnan(bags.source().gather(np.array([row]))).all():
                remedy = (
                    "all its features are NaN. If it is padding, leave it out, of a padded array "
                    "by Bags.from_padded(X, mask=~np.isnan(X).all(axis=2)), of Bags by "
                    f"X.select_instances(~np.isnan(X.instances).all(axis=1)). Otherwise {remedy}"
                )
        raise ValueError(
            f"B{bag_text(bags, bag)[1:]} contains {what} (instance row {row}): {remedy}."
        )


def _first_wrong(block: Block, allow_nan: bool) -> tuple[int, float] | None:
    """Row and value of the first entry that is not finite."""
    stored, entry = block.stored, 0
    is_sparse = sparse.issparse(stored)
    for values in (stored.data,) if is_sparse else pieces_of(stored, block.dtype):
        if values.size and values.dtype == np.float16:
            # A sum would overflow, and integers are compared faster: infinity is the largest
            # without a sign, and NaN is above it.
            negative = values.view(np.uint16).max() >= _HALF_INFINITY | _HALF_SIGN
            is_finite = not negative and values.view(np.int16).max() < _HALF_INFINITY
        else:
            with np.errstate(over="ignore", invalid="ignore"):
                is_finite = np.isfinite(np.sum(values))
        if not is_finite:  # or the sum of finite values is too large
            wrong = np.isinf(values) if allow_nan else ~np.isfinite(values)
            if wrong.any():
                first = int(np.argmax(wrong))
                entry += first
                row = entry // stored.shape[1]
                if is_sparse:
                    row = int(np.searchsorted(stored.indptr, entry, side="right")) - 1
                return block.first_row + row, values.flat[first]
        entry += values.size
    return None


def validate_labels(estimator: Any, y: Any, bags: Bags, *, numeric: bool = False) -> np.ndarray:
    """Validate the labels of bags for an estimator.

    .. versionadded:: 0.1.0

    Parameters
    ----------
    estimator : estimator instance
        The estimator that the labels are for; named in error messages.
    y : array-like of shape (n_bags,)
        Class or value of each bag.
    bags : Bags
        The bags that the labels belong to.
    numeric : bool, default=False
        Whether to convert to finite float64, for regression.

    Returns
    -------
    ndarray of shape (n_bags,)
        The labels, in the order of the bags.

    Raises
    ------
    ValueError
        Without labels, for another number of labels than bags, labels of mixed types, or numbers
        that are not finite if ``numeric``.

    See Also
    --------
    encode_classes : Encode labels of classes.
    validate_bags : Validate bags.

    Examples
    --------
    >>> from milearn import Bags
    >>> from milearn.svm import MISVR
    >>> from milearn.utils.validation import validate_labels
    >>> bags = Bags.from_list([[[0.0], [1.0]], [[2.0]]])
    >>> validate_labels(MISVR(), [1, 3], bags, numeric=True)
    array([1., 3.])
    """
    if y is None:
        raise ValueError(
            f"This {type(estimator).__name__} estimator requires y to be passed, but the target y "
            "is None."
        )
    if bags.names is not None:
        check_index(y, bags.names, "y")
    # NumPy would convert the numbers in a list of numbers and strings to strings.
    if isinstance(y, (list, tuple)) and not numeric and any(isinstance(v, str) for v in y):
        known = [label for label in y if not is_missing(label)]
        check_label_types(known)
        y = y if len(known) == len(y) else np.array(y, dtype=object)
    given, flat = y, getattr(y, "ndim", 1) == 1
    y = column_or_1d(y, warn=True)
    check_n_labels(y, bags)
    if numeric:
        refuse_outcomes(y)
        y = numbers(given if flat else y, "y", place=partial(bag_text, bags))
        assert_all_finite(y, input_name="y")
    elif flat and not isinstance(getattr(given, "dtype", np.dtype(object)), np.dtype):
        y = as_labels(column(given, "y"))
    return y


def values_of(y: Any) -> Any:
    """The values of a regressor as numbers, durations in days; several outputs as they are."""
    return numbers(y, "y", place="bag {}".format) if np.ndim(y) == 1 else y


def refuse_outcomes(y: Any, model: Any = None) -> None:
    """Raise a ValueError for outcomes of survival analysis if they are not what ``model`` takes."""
    if getattr(getattr(y, "dtype", None), "names", None) and (
        model is None or is_classifier(model) or is_regressor(model)
    ):
        raise ValueError(
            "y holds outcomes of survival analysis, which only survival models such as MICoxPH "
            "take: pass classes or values."
        )


def check_n_labels(y: np.ndarray, bags: Bags) -> None:
    """Raise a ValueError if there is not one label per bag."""
    if len(y) != len(bags):
        framed = bags.feature_names is not None and len(bags) == bags.n_instances
        raise ValueError(
            f"y has {len(y)} labels for {len(bags)} bags: pass one label per bag (inconsistent "
            "numbers of samples)."
            + " Each row of X is a bag: if a column names the bag of each row, pass "
            "Bags.from_frame(X, column)." * framed
        )


def validate_sample_weight(sample_weight: Any, bags: Bags) -> np.ndarray:
    """Validate the sample weights of bags; None means a weight of one.

    .. versionadded:: 0.1.0

    Parameters
    ----------
    sample_weight : array-like of shape (n_bags,) or None
        Weights of the bags.
    bags : Bags
        The bags that the weights belong to.

    Returns
    -------
    ndarray of shape (n_bags,)
        Weights as float64.

    Raises
    ------
    ValueError
        For another number of weights than bags, weights that are negative or not finite, or zero
        for every bag.

    See Also
    --------
    bag_weights : Multiply sample weights by weights of classes.

    Examples
    --------
    >>> from milearn import Bags
    >>> from milearn.utils.validation import validate_sample_weight
    >>> bags = Bags.from_list([[[0.0], [1.0]], [[2.0]]])
    >>> validate_sample_weight(None, bags)
    array([1., 1.])
    """
    if sample_weight is None:
        return np.ones(len(bags))
    check_index(sample_weight, bags.names, "sample_weight")
    if not isinstance(sample_weight, Real):
        sample_weight = numbers(sample_weight, "sample_weight", place=partial(bag_text, bags))
    weights: np.ndarray = check_sample_weight(sample_weight, bags, dtype=np.float64)
    if (weights < 0).any():
        raise ValueError(
            f"sample_weight is negative at {bag_text(bags, int(np.argmax(weights < 0)))}: weights "
            "must not be negative."
        )
    if not weights.any():
        raise ValueError("sample_weight is zero for every bag: give some bag a positive weight.")
    return weights


# -- labels ------------------------------------------------------------------------------------


def refuse_gaps(y: Any) -> None:
    """Raise a ValueError for missing labels."""
    missing = [label for label in y if is_missing(label)]
    if missing:
        raise ValueError(
            f"y holds {len(missing)} missing label(s) ({missing[0]}): leave these bags out, or "
            "fit an estimator that learns from bags without a label, such as MILSD."
        )


def check_label_types(y: Any) -> None:
    """Raise an error for missing labels, and for labels that are only partly strings."""
    refuse_gaps(y)
    texts = sum(isinstance(label, str) for label in y)
    if texts == len(y):
        return
    types = ", ".join(sorted({type(label).__name__ for label in y}))
    if texts:
        raise ValueError(
            f"y holds labels of mixed types ({types}): give every bag a label of the same type, a "
            "string or a whole number."
        )
    if all(isinstance(label, Real | Decimal) for label in y):
        raise ValueError(
            f"Unknown label type: y is an array of Python objects ({types}); convert it to an "
            "array of whole numbers, as in np.array(y.tolist())."
        )


def unknown_label(named: str, classes: np.ndarray) -> ValueError:
    """The error for a parameter that names a label which is not in y."""
    return ValueError(f"{named} not a label in y: the labels are {classes.tolist()}.")


def partial_labels(y: Any) -> np.ndarray:
    """Labels of bags, of which some may be missing, as an array."""
    # NumPy would convert NaN among the strings of a list to the class "nan".
    return column_or_1d(np.asarray(targets(y)), warn=True)


def missing_labels(y: np.ndarray, unlabeled: Any = None) -> np.ndarray:
    """Find missing labels: NaN, None, and the value of ``unlabeled``.

    .. versionadded:: 0.1.0

    Parameters
    ----------
    y : ndarray of shape (n_bags,)
        Labels.
    unlabeled : label, default=None
        Value of ``y`` that marks a missing label.

    Returns
    -------
    ndarray of bool of shape (n_bags,)
        True where the label is missing.

    See Also
    --------
    encode_classes : Encode labels.

    Examples
    --------
    >>> import numpy as np
    >>> from milearn.utils.validation import missing_labels
    >>> missing_labels(np.array([0.0, np.nan, -1.0]), unlabeled=-1.0)
    array([False,  True,  True])
    """
    missing = are_missing(y)
    if unlabeled is not None:
        there = np.flatnonzero(~missing)
        missing[there] = [label == unlabeled for label in y[there].tolist()]
    return missing


def encode_classes(y: np.ndarray, pos_label: Any = None) -> tuple[np.ndarray, np.ndarray, int]:
    """Encode labels by the positions of their classes, and find the positive class.

    The positive class of two is ``classes[1]`` or ``pos_label``. With three or more classes each is
    positive in turn, and the returned number is -1.

    .. versionadded:: 0.1.0

    Parameters
    ----------
    y : ndarray of shape (n_bags,)
        Class of each bag.
    pos_label : label, default=None
        The positive class of two.

    Returns
    -------
    classes : ndarray of shape (n_classes,)
        Sorted classes.
    codes : ndarray of shape (n_bags,)
        Position of the class of each bag in ``classes``.
    positive : int
        Position of the positive class, or -1.

    Raises
    ------
    ValueError
        For labels that are not classes, labels that are missing or of mixed types, fewer than two
        classes, an unknown ``pos_label``, or a ``pos_label`` with three or more classes.

    See Also
    --------
    validate_labels : Validate labels.

    Examples
    --------
    >>> import numpy as np
    >>> from milearn.utils.validation import encode_classes
    >>> classes, codes, positive = encode_classes(np.array([3, 1, 3]), pos_label=1)
    >>> classes, codes, positive
    (array([1, 3]), array([1, 0, 1]), 0)
    """
    refuse_outcomes(y)
    if y.dtype == object or (y != y).any():
        check_label_types(y)
    are_objects = y.dtype == object
    if y.dtype.kind in "mM" or (are_objects and any(isinstance(v, date | timedelta) for v in y)):
        raise ValueError(
            f"y holds dates or durations ({listed([*map(str, y[:2])], 2)}): a class is a number, a "
            "text or a category; pass y.astype(str) if these are classes."
        )
    # Before scikit-learn casts infinite values with a warning.
    assert_all_finite(y, input_name="y")
    check_classification_targets(y)
    classes, codes = np.unique(y, return_inverse=True)
    spelled: dict[str, str] = {}
    for label in classes.tolist() if classes.dtype.kind in "UO" else ():
        other = spelled.setdefault(id_text(label).casefold(), label)
        if other != label:
            raise ValueError(
                f"y holds {other!r} and {label!r}, which differ in blanks or upper case only: give "
                "a class one name."
            )
    if len(classes) < 2:
        held = ", ".join(repr(label) for label in classes.tolist())
        raise ValueError(
            f"y holds one class only ({held}): a classifier needs bags of at least two classes."
        )
    if pos_label is not None:
        hits = np.flatnonzero(classes == pos_label)
        if len(hits) == 0:
            raise unknown_label(f"pos_label={pos_label!r} is", classes)
        if len(classes) > 2:
            raise ValueError(
                f"pos_label={pos_label!r} was given but y has {len(classes)} classes: it names "
                "the positive one of two; leave it out."
            )
        return classes, codes, int(hits[0])
    return classes, codes, 1 if len(classes) == 2 else -1


def bag_weights(
    class_weight: Any, classes: np.ndarray, codes: np.ndarray, sample_weight: np.ndarray
) -> np.ndarray:
    """Multiply the sample weight of each bag by the weight of its class.

    With ``class_weight="balanced"`` the sums of sample weights are the same for all classes, so
    that a weight of two is equivalent to duplicating a bag.

    .. versionadded:: 0.1.0

    Parameters
    ----------
    class_weight : dict, "balanced" or None
        Weights of the classes, as in scikit-learn.
    classes : ndarray of shape (n_classes,)
        Sorted classes.
    codes : ndarray of shape (n_bags,)
        Position of the class of each bag in ``classes``.
    sample_weight : ndarray of shape (n_bags,)
        Weights of the bags.

    Returns
    -------
    ndarray of shape (n_bags,)
        Product of both weights.

    Raises
    ------
    ValueError
        If ``class_weight`` names an unknown class, has a weight that is negative or not finite, or
        leaves a class without weight.

    See Also
    --------
    validate_sample_weight : Validate sample weights.
    encode_classes : Encode labels.

    Examples
    --------
    >>> import numpy as np
    >>> from milearn.utils.validation import bag_weights
    >>> bag_weights({"tumour": 2.0}, np.array(["normal", "tumour"]), np.array([0, 1]), np.ones(2))
    array([1., 2.])
    """
    if class_weight is None:
        return sample_weight
    if isinstance(class_weight, str):
        totals = np.bincount(codes, weights=sample_weight, minlength=len(classes))
        present = totals > 0
        factors = np.zeros(len(classes))
        factors[present] = totals.sum() / (present.sum() * totals[present])
    else:
        labels = classes.tolist()
        unknown = [key for key in class_weight if key not in labels]
        if unknown:
            raise unknown_label(f"class_weight names {unknown[0]!r}, which is", classes)
        factors = np.array([float(class_weight.get(label, 1.0)) for label in labels])
        if (factors < 0).any() or not np.isfinite(factors).all():
            raise ValueError("class_weight must hold finite numbers that are not negative.")
    weights: np.ndarray = sample_weight * factors[codes]
    if len(np.unique(codes[weights > 0])) < len(np.unique(codes[sample_weight > 0])):
        raise ValueError("class_weight leaves a class without weight: a classifier needs two.")
    return weights


def warn_of_unnamed_positive(estimator: Any, classes: np.ndarray) -> None:
    """Warn if two classes have names and ``pos_label`` is None, unless they are treated alike."""
    names = classes.tolist()
    label = getattr(estimator, "pos_label", "")
    alike = getattr(estimator, "_treats_classes_alike", False)
    if not alike and label is None and [*map(type, names)] == [str, str]:
        warn_user(
            f"The positive class is {names[1]!r}, the last one in alphabetical order: an instance "
            f"of it makes a bag positive. Pass pos_label={names[1]!r}, or pos_label={names[0]!r} "
            f"if it is {names[0]!r}.",
            UserWarning,
        )


@dataclass(frozen=True)
class TrainingLabels:
    """Validated labels and weights of the bags in a fit.

    Bags of weight zero are ignored.
    """

    # Labels of all bags that were passed, of shape (n_bags,).
    all_labels: np.ndarray
    # Positions of the bags with a weight above zero, of shape (n_used,).
    used: np.ndarray
    # Positions of their classes in ``classes``, of shape (n_used,).
    codes: np.ndarray
    # Their sample weights times the weights of their classes, of shape (n_used,).
    weights: np.ndarray
    # Their sample weights, of shape (n_used,).
    sample_weights: np.ndarray
    # Sorted classes, of shape (n_classes,).
    classes: np.ndarray
    # Position of the positive class of two; -1 if each class is positive in turn.
    positive: int
    # -1 if ``classes[0]`` is the positive class of two, otherwise 1.
    sign: int
    # Classes that are positive in turn: one of two classes, otherwise all.
    tasks: list[int]

    @classmethod
    def of(cls, estimator: Any, y: Any, bags: Bags, sample_weight: Any) -> TrainingLabels:
        """Validate labels and weights by the parameters ``pos_label`` and ``class_weight``.

        An estimator does not need to have these parameters. If it has ``pos_label`` and both
        classes are not treated alike, two classes with names need one: their alphabetical order
        means nothing.

        Raises
        ------
        ValueError
            For invalid labels and weights, for fewer than two classes, and for a
            ``class_weight`` that leaves a class without weight.
        """
        labels = validate_labels(estimator, y, bags)
        sample_weights = validate_sample_weight(sample_weight, bags)
        weighted = np.flatnonzero(sample_weights > 0)
        classes, codes, positive = encode_classes(
            labels[weighted], getattr(estimator, "pos_label", None)
        )
        warn_of_unnamed_positive(estimator, classes)
        class_weight = getattr(estimator, "class_weight", None)
        if isinstance(class_weight, dict):
            # A class whose bags all have a weight of zero is ignored with them.
            ignored = set(labels.tolist()) - set(classes.tolist())
            class_weight = {key: class_weight[key] for key in class_weight if key not in ignored}
        weights = bag_weights(class_weight, classes, codes, sample_weights[weighted])
        left = weights > 0
        used = weighted[left]
        sign, tasks = -1 if positive == 0 else 1, [positive]
        if positive < 0:
            tasks = [*range(len(classes))]
        of_used = used, codes[left], weights[left], sample_weights[used]
        return cls(labels, *of_used, classes, positive, sign, tasks)


# -- scores ------------------------------------------------------------------------------------


def single_scorer(estimator: Any, scoring: Any) -> Any:
    """The callable ``scorer(estimator, X, y)`` of one score, or an error.

    Parameters
    ----------
    estimator : estimator instance
    scoring : str, callable or None
        None for the ``score`` of the estimator.

    Raises
    ------
    TypeError
        For several scores.
    ValueError
        For an unknown score, or a metric in place of a scorer.
    """
    if not (scoring is None or isinstance(scoring, str) or callable(scoring)):
        raise TypeError(
            f"scoring is a {type(scoring).__name__}: pass the name of one score or a callable, and "
            "call the function once for each of several scores."
        )
    return check_scoring(estimator, scoring)
