"""Scores of models that see only the size, the depth and covariates of bags."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils.multiclass import type_of_target

from .._bags import Bags
from .._bags.annotations import data_frame
from .._bags.blocks import Block
from .._bags.canonical import check_columns
from .._bags.kinds import covariate
from .._bags.segments import segment_sum
from .._fit.validation import as_bags, check_bags, refuse_outcomes
from .._fit.warn import warn_user
from ._compare import Comparison, compare, data_of, splits_of

_MODEL, _ALL, _AS_CLASSES = "model", "all of these", " (as categories)"
_MOST_CODES = 20  # distinct integers that may be codes


def confounder_baseline(
    X: Any,
    y: Any,
    *,
    estimator: Any = None,
    covariates: Any = None,
    depth: bool = False,
    groups: Any = None,
    cv: Any = 5,
    scoring: Any = None,
    n_jobs: int | None = None,
) -> Comparison:
    """Cross-validate models that see only the size, the depth and covariates of the bags.

    If one of them scores as high as your model, the model may have learnt how samples were taken,
    and not what you are looking for. Each column is used alone and together with the others, by
    logistic regression, or by ridge regression for values.

    Read more in the :ref:`User Guide <tutorial_cells>`.

    .. versionadded:: 0.3.0

    Parameters
    ----------
    X : bags, see :class:`milearn.Bags`
        Bags.
    y : array-like of shape (n_bags,)
        Labels or values of the bags.
    estimator : classifier or regressor, default=None
        Your model, which is scored on the same folds. It is cloned.
    covariates : list of str, mapping of str to array-like, or data frame, default=None
        Names of columns of ``bag_data``, or columns with one entry per bag, such as batch, site or
        age. Texts, booleans and ``Categorical`` are categories, dates and durations are days.
        Integers with few values are used as numbers and as categories, and the better one is
        shown, which its name says.
    depth : bool, default=False
        Whether to use the mean of the total counts of the instances of each bag, such as the depth
        of sequencing. Features have to be counts then.
    groups : array-like of shape (n_bags,), default=None
        Bags that stay in one fold, such as those of a donor. A batch or a site is a covariate
        here: as a group it would not be in the training bags of its fold.
    cv : int, splitter or iterable of (train, test), default=5
        Folds, as for :func:`compare`.
    scoring : str or callable, default=None
        One or several scores, as for :func:`compare`. By default, the area under the ROC curve for
        two classes, otherwise the ``score`` of the models: accuracy, or R2 for values.
    n_jobs : int, default=None
        Number of fits that run in parallel, as for :func:`compare`.

    Returns
    -------
    Comparison
        Scores of "model" if an estimator was given, "bag size", "depth", each covariate and, if
        there are several columns, "all of these". Printing it shows a table.

    Raises
    ------
    ValueError
        For an unknown column, a covariate of another length, a text that reads as numbers or dates
        or differs in most bags, negative numbers with ``depth=True``, or outcomes of survival
        analysis.

    Warns
    -----
    UserWarning
        For a covariate whose categories are never in training and test bags of a fold.

    See Also
    --------
    StratifiedBagKFold : Folds that keep sites together.

    Notes
    -----
    Sizes and depths are on a logarithmic scale. Missing numbers are replaced by the mean, and a
    further column marks them.

    Whether ``y`` holds classes or values is known from the estimator, or else from ``y``.

    Examples
    --------
    >>> import numpy as np
    >>> from milearn import Bags
    >>> from milearn.model_selection import confounder_baseline
    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(60) % 2
    >>> counts = [rng.poisson(2.0 if label else 1.0, size=(20, 5)) for label in y]
    >>> batch = np.array(["A", "B", "C"])[np.arange(60) % 3]
    >>> X = Bags.from_list(counts, bag_data={"batch": batch})
    >>> found = confounder_baseline(X, y, covariates=["batch"], depth=True)
    >>> found.estimators
    ('bag size', 'depth', 'batch', 'all of these')
    >>> found.table().round(1)
    array([[0.5, 1. , 0.5, 1. ]])
    """
    refuse_outcomes(y)
    bags = as_bags(X)
    bags = check_bags(X) if bags is None else bags
    columns = {"bag size": np.log(bags.sizes)}
    if depth:
        columns["depth"] = _depths(bags)
    columns |= _covariates(bags, covariates, (_MODEL, _ALL, *columns))
    data = data_of("X", (X, y, groups))
    classify = type_of_target(data[1]) in ("binary", "multiclass")
    if estimator is not None:
        classify = is_classifier(estimator)
    if scoring is None and classify and len(np.unique(data[1])) == 2:
        scoring = "roc_auc"
    read = {name: covariate(each, f"The covariate {name!r}") for name, each in columns.items()}
    for name, (kind, values) in [*read.items()]:
        # Numbers that may be codes, such as those of batches.
        codes = np.unique(values[~np.isnan(values)]) if kind == "number" else np.empty(0)
        if 2 < len(codes) <= _MOST_CODES and (codes == np.rint(codes)).all():
            read[name + _AS_CLASSES] = "category", np.nan_to_num(values, nan=-1.0)
    table = np.column_stack([values.astype(np.float64) for _, values in read.values()])
    encoder = {
        "category": OneHotEncoder(handle_unknown="ignore", sparse_output=False),
        "number": make_pipeline(SimpleImputer(add_indicator=True), StandardScaler()),
    }
    encoders = [encoder[kind] for kind, _ in read.values()]
    given = {"cv": splits_of(data, cv, classify), "scoring": scoring, "n_jobs": n_jobs}
    unseen = [
        repr(name)
        for name, (kind, values) in read.items()
        if (kind, name in columns) == ("category", True)
        and not any(np.isin(values[test], values[train]).any() for train, test in given["cv"])
    ]
    if unseen:
        warn_user(
            f"No fold has a category of {', '.join(unseen)} in its training and in its test bags, "
            "so that it cannot predict: pass donors as groups, and not the covariate.",
            UserWarning,
        )

    def scored(chosen: dict[str, list[int]]) -> Comparison:
        models = {
            name: make_pipeline(
                ColumnTransformer([(f"{n}", encoders[n], [n]) for n in numbers]),
                LogisticRegression() if classify else Ridge(),
            ).set_output(transform="default")
            for name, numbers in chosen.items()
        }
        return compare(models, {"bags": (table, *data[1:])}, **given)

    found = scored({name: [number] for number, name in enumerate(read)})
    means = dict(zip(found.estimators, found.table()[0], strict=True))
    names = [
        max((n for n in (name, name + _AS_CLASSES) if n in read), key=means.__getitem__)
        for name in columns
    ]
    records = [each for each in found.records if each["estimator"] in names]
    if len(names) > 1:
        together = scored({_ALL: [list(read).index(name) for name in names]})
        records, names = records + together.records, [*names, _ALL]
    if estimator is not None:
        of_model = compare({_MODEL: estimator}, {"bags": data}, **given)
        records, names = of_model.records + records, [_MODEL, *names]
    return replace(found, records=records, estimators=tuple(names))


def _covariates(bags: Bags, given: Any, taken: tuple[str, ...]) -> dict[str, Any]:
    """Columns with one entry per bag, with other names than those that are taken."""
    if isinstance(given, (list, tuple)):
        check_columns("bag_data", given, list(bags.bag_data))
        given = bags.bag_data[list(given)]
    frame = data_frame(given, len(bags), "covariates", "bag", bags.names)
    for name in () if frame is None else frame.columns:
        if name in taken:
            raise ValueError(f"A covariate cannot be named {name!r}: rename it.")
    return {} if frame is None else {name: frame[name] for name in frame.columns}


def _depths(bags: Bags) -> np.ndarray:
    """Logarithm of the mean total count of the instances of each bag."""
    parts = zip(*bags.source().map(_totals), strict=True)
    totals, lowest = (np.concatenate(each) for each in parts)
    if lowest.min() < 0:
        raise ValueError(f"depth=True needs counts, but X has the number {lowest.min():g}.")
    return np.log1p(totals / bags.sizes)


def _totals(block: Block) -> tuple[np.ndarray, list[float]]:
    """Sum of each bag of a block, and the lowest number."""
    rows = np.asarray(block.instances.sum(axis=1, dtype=np.float64)).ravel()
    return segment_sum(rows, block.offsets), [float(block.instances.min())]
