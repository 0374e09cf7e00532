"""Base class of the displays, the model within a pipeline, and scores of its instances."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.base import is_classifier, is_clusterer
from sklearn.model_selection import cross_validate

from .._bags import Bags
from .._bags.segments import gather_rows, segment_argmax, segment_mean
from .._compat import need_module
from .._fit.validation import as_bags, check_bags, refuse_outcomes


class InstanceScores(NamedTuple):
    """Scores of all instances, and the row of the highest one of each bag."""

    scores: np.ndarray
    witnesses: np.ndarray
    name: str
    threshold: float | None
    label_name: str
    # The class, whatever the bags are: equal in folds whose scores may be joined.
    meaning: str


def final_step(estimator: Any, X: Any) -> tuple[Any, Any]:
    """Return the last step of a fitted pipeline or search, and the bags that reach it.

    A :class:`~sklearn.pipeline.Pipeline` passes on ``predict``, ``decision_function`` and
    ``predict_proba``, but no other methods of its last step. With both results you can call any
    of them.

    Read more in the :ref:`User Guide <guide_instance_scores>`.

    .. versionadded:: 0.3.0

    Parameters
    ----------
    estimator : fitted estimator
        A pipeline, a search such as :class:`~sklearn.model_selection.GridSearchCV`, a
        meta-estimator with ``estimator_``, any nesting of them, or an estimator of bags, which is
        returned as it is.
    X : bags, see :class:`milearn.Bags`
        Bags, to which the steps before the last one are applied.

    Returns
    -------
    model : fitted estimator
        The last step.
    bags : Bags
        The transformed bags, or rows if a step, such as ``BagStatistics``, makes one row of a bag.

    See Also
    --------
    instance_scores : Score all instances by any fitted estimator.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from milearn.datasets import make_bags
    >>> from milearn.inspection import final_step
    >>> from milearn.preprocessing import InstanceTransformer
    >>> from milearn.svm import MISVC
    >>> X, y = make_bags(n_bags=40, random_state=0)
    >>> model = make_pipeline(InstanceTransformer(StandardScaler()), MISVC()).fit(X, y)
    >>> last, bags = final_step(model, X)
    >>> last.witness(bags).shape
    (40,)
    """
    return _last_step(estimator, given_bags(X))


def instance_scores(
    estimator: Any, X: Any, *, class_label: Any = None, return_positions: bool = False
) -> Any:
    """Score all instances by any fitted estimator, for a class that does not depend on the fit.

    Read more in the :ref:`User Guide <guide_instance_scores>`.

    .. versionadded:: 0.3.0

    Parameters
    ----------
    estimator : fitted estimator
        A classifier, regressor, clusterer or survival model of bags, a pipeline whose transformers
        keep the instances, a linear model of the means of bags, such as
        ``make_pipeline(BagStatistics(("mean",)), StandardScaler(), LogisticRegression())``, a
        search over one of them, or a :class:`~sklearn.calibration.CalibratedClassifierCV`.
    X : bags, see :class:`milearn.Bags`
        Bags whose instances to score.
    class_label : label, default=None
        Class of the scores. By default, ``classes_[1]`` of two classes, or ``pos_label`` if it was
        set, whatever was fitted. For three or more classes, the predicted class of each bag.
    return_positions : bool, default=False
        Also return the position of each instance in its bag, counted from 0.

    Returns
    -------
    scores : ndarray of shape (n_instances,)
        In the order of ``X.instances``. For a classifier they are those of
        ``instance_decision_function``, with the opposite sign if the class is ``classes_[0]`` of
        two. They are values of a regressor, risks of :class:`~milearn.survival.MICoxPH`, and scores
        before the thresholds of :class:`~milearn.svm.OrdinalMISVC` with three or more classes.
        Scores of a calibrated classifier are means over its fitted classifiers, which are not
        calibrated. Of a linear model of means they are the decisions on bags of one instance, whose
        mean over a bag is the decision on this bag.
    positions : ndarray of int of shape (n_instances,)
        Only with ``return_positions=True``. ``positions[witness(X)]`` are those of the witnesses.

    Raises
    ------
    TypeError
        If the last step does not score instances.
    ValueError
        If a step makes one row of a bag and the decision on a bag is not the mean of those on its
        instances, or for an unknown ``class_label``.

    See Also
    --------
    cross_val_instance_scores : Scores by models that were fitted without the bag.

    Notes
    -----
    Only this function and the displays have the sign of ``pos_label``. ``decision_function``,
    ``instance_decision_function`` and ``coef_`` belong to ``classes_[1]`` whatever ``pos_label``
    is, as everywhere in scikit-learn.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from milearn.datasets import make_bags
    >>> from milearn.inspection import instance_scores
    >>> from milearn.preprocessing import InstanceTransformer
    >>> from milearn.svm import MISVC
    >>> X, y = make_bags(n_bags=40, random_state=0)
    >>> model = make_pipeline(InstanceTransformer(StandardScaler()), MISVC()).fit(X, y)
    >>> instance_scores(model, X).shape == (X.n_instances,)
    True
    """
    bags = given_bags(X)
    scores = scored_instances(estimator, bags, class_label).scores
    if not return_positions:
        return scores
    return scores, np.arange(bags.n_instances) - bags.offsets[bags.bag_index]


def cross_val_instance_scores(
    estimator: Any,
    X: Any,
    y: Any = None,
    *,
    groups: Any = None,
    cv: Any = None,
    class_label: Any = None,
    n_jobs: int | None = None,
    verbose: int = 0,
    params: Any = None,
    pre_dispatch: Any = "2*n_jobs",
) -> np.ndarray:
    """Score all instances by models that were fitted without their bag.

    Read more in the :ref:`User Guide <guide_instance_scores>`.

    .. versionadded:: 0.3.0

    Parameters
    ----------
    estimator : estimator
        It is cloned for each fold; see :func:`instance_scores` for what it may be.
    X : bags, see :class:`milearn.Bags`
        Bags whose instances to score.
    y : array-like of shape (n_bags,), default=None
        Labels, values or outcomes of the bags.
    groups : array-like of shape (n_bags,), default=None
        Passed to the splitter, such as the patient of each bag.
    cv : int, splitter or iterable, default=None
        As for :func:`~sklearn.model_selection.cross_val_predict`: each bag must be tested once. By
        default, five folds.
    class_label : label, default=None
        Class of the scores, as for :func:`instance_scores`.
    n_jobs : int, default=None
        Number of folds that are fitted in parallel. None means 1 unless in a
        :obj:`joblib.parallel_config` context; -1 means all processors.
    verbose : int, default=0
        Whether to print messages of the folds.
    params : dict, default=None
        Parameters of ``fit``, such as ``sample_weight``, or metadata that are routed.
    pre_dispatch : int or str, default="2*n_jobs"
        Number of folds that are dispatched in advance.

    Returns
    -------
    ndarray of shape (n_instances,)
        In the order of ``X.instances``.

    Raises
    ------
    TypeError
        If the estimator does not score instances.
    ValueError
        If a bag is not tested once, if instances have no scores as in :func:`instance_scores`, for
        an unknown ``class_label``, or if the folds do not score the same class because one lacks a
        class, or a search chose ``pos_label``.

    See Also
    --------
    instance_scores : Scores by one fitted model.
    sklearn.model_selection.cross_val_predict : Predictions for bags.

    Notes
    -----
    Each fold has its own model, so that scores of bags from different folds may differ in scale.

    Examples
    --------
    >>> from milearn.datasets import make_bags
    >>> from milearn.inspection import cross_val_instance_scores
    >>> from milearn.svm import MISVC
    >>> X, y = make_bags(n_bags=40, random_state=0)
    >>> cross_val_instance_scores(MISVC(), X, y, cv=4).shape == (X.n_instances,)
    True
    """
    refuse_outcomes(y, estimator)
    bags = given_bags(X)
    given = {"n_jobs": n_jobs, "verbose": verbose, "params": params, "pre_dispatch": pre_dispatch}
    given |= {"return_estimator": True, "return_indices": True, "error_score": "raise"}
    fitted: Any = cross_validate(
        estimator, bags, y, groups=groups, cv=cv, scoring=_no_score, **given
    )
    tests = fitted["indices"]["test"]
    if not np.array_equal(np.sort(np.concatenate(tests)), np.arange(len(bags))):
        raise ValueError("cross_val_instance_scores only works for partitions: test each bag once.")
    scores, meanings = np.empty(bags.n_instances), set()
    for model, test in zip(fitted["estimator"], tests, strict=True):
        found = scored_instances(model, bags[test], class_label)
        meanings.add(found.meaning)
        scores[gather_rows(bags.offsets, test)[0]] = found.scores
    if len(meanings) > 1:
        raise ValueError(
            f"The folds do not score the same class, but {' and '.join(sorted(meanings))}: "
            "name the class of the scores by class_label=."
        )
    return scores


def _no_score(model: Any, X: Any, y: Any = None) -> float:
    return 0.0


def scored_instances(estimator: Any, bags: Bags, class_label: Any = None) -> InstanceScores:
    """Scores of instances by the last step of an estimator.

    Parameters
    ----------
    estimator : fitted estimator
        As for :func:`instance_scores`.
    bags : Bags
        Bags to score.
    class_label : label, default=None
        Class of the scores. None means the class of :func:`default_column` of two classes, and
        the predicted class of each bag for more.
    """
    model, rows = _last_step(estimator, bags)
    folds = getattr(model, "calibrated_classifiers_", None)
    outer = [(each.estimator, rows) for each in folds] if folds else [(estimator, bags)]
    fitted = [_last_step(*each) for each in outer]
    if isinstance(fitted[0][1], Bags):
        name = _method_of(fitted[0][0], class_label)
        found = [np.asarray(getattr(each, name)(seen), dtype=np.float64) for each, seen in fitted]
    else:
        name = "instance_decision_function" if is_classifier(model) else "predict_instances"
        found = [_shares(*each) for each in outer]
    scores = np.mean(found, axis=0)
    threshold: float | None = 0.0
    kind = "cluster" if is_clusterer(model) else "class"
    grouped = is_classifier(model) or is_clusterer(model)
    classes = _classes_of(model) if grouped else np.empty(0)
    predicted, one = f"the predicted {kind}", ""
    if name == "predict_proba_instances" and len(classes) == 2:
        scores = scores[:, 1] - 0.5
    if name == "predict_instances":
        what, threshold = "instance value", None
    elif name == "instance_latent_function":
        first, last = (label_text(each) for each in fitted[0][0].categories_[[0, -1]])
        what, threshold = f"score from {first} to {last}", None
    elif class_label is None and scores.ndim == 2:
        columns = np.searchsorted(classes, model.predict(rows))[bags.bag_index]
        what = f"score of {predicted}"
        if len(bags) == 1:
            one = f"score of {label_text(classes[columns[0]], kind)}, {predicted}"
        scores = scores[np.arange(len(scores)), columns]
    else:
        default = default_column(fitted[0][0])
        column = default if class_label is None else class_column(model, class_label)
        what = f"score of {label_text(classes[column], kind)}"
        scores = (2 * column - 1) * scores if scores.ndim == 1 else scores[:, column]
    highest = segment_argmax(scores, bags.offsets)
    return InstanceScores(scores, highest, one or what, threshold, kind, what)


def _shares(estimator: Any, bags: Any) -> np.ndarray:
    """Scores of the instances as bags of their own, if a decision is the mean of those of its bag.

    This holds for a linear model of the means of bags, scaled or not.
    """
    method = getattr(
        estimator, "decision_function" if is_classifier(estimator) else "predict", None
    )
    if isinstance(bags, Bags) and method is not None:
        of_bags = bags.bag_data.iloc[bags.bag_index]
        alone = Bags.singletons(bags.instances, feature_names=bags.feature_names, bag_data=of_bags)
        scores = np.asarray(method(alone), dtype=np.float64)
        error = np.abs(segment_mean(scores, bags.offsets) - method(bags)).max()
        if error <= 1e-4 * np.abs(scores).max():
            return scores
    raise ValueError(
        f"A step before {type(_last_step(estimator)[0]).__name__} makes one row of a bag, and the "
        "decisions are not means over instances. Take a linear model after "
        "BagStatistics(('mean',)), or a model of instances, such as MIClassifier."
    )


def _method_of(model: Any, class_label: Any) -> str:
    """The method of a model that scores instances."""
    names = ["instance_decision_function", "predict_proba_instances"]
    if class_label is None and len(getattr(model, "classes_", ())) > 2:
        # Ordered classes: the sum over the thresholds below the lowest class is empty.
        names.insert(0, "instance_latent_function")
    if not (is_classifier(model) or is_clusterer(model)):
        names.append("predict_instances")  # values of regressors and risks of survival models
    for name in names:
        if hasattr(model, name):
            return name
    raise TypeError(
        f"{type(model).__name__} does not score instances: take an estimator that does, such as "
        "MIClassifier."
    )


def _classes_of(model: Any) -> np.ndarray:
    """Sorted classes; clusters are numbered from zero."""
    classes = getattr(model, "classes_", None)
    return np.arange(len(model.coef_)) if classes is None else np.asarray(classes)


def class_column(model: Any, class_label: Any) -> int:
    """Position of a class or cluster; None is that of :func:`default_column`."""
    if class_label is None:
        return default_column(_last_step(model)[0])
    classes = _classes_of(model)
    found = np.flatnonzero(classes == class_label)
    if len(found) == 0:
        known = ", ".join(map(str, classes))
        raise ValueError(
            f"class_label={class_label!r} is not a class of the model, which has {known}."
        )
    return int(found[0])


def default_column(model: Any) -> int:
    """Position of the class of scores of two: the second one, or ``pos_label`` if it was set."""
    return int(getattr(model, "_positive_sign", 1) > 0)


def label_text(label: Any, kind: str = "class") -> str:
    """A class in the label of an axis: names speak for themselves, numbers do not."""
    return str(label) if isinstance(label, str) else f"{kind} {label}"


def _last_step(estimator: Any, rows: Any = None) -> tuple[Any, Any]:
    """The innermost estimator of searches and pipelines, and its transformed input."""
    while True:
        if hasattr(estimator, "best_estimator_"):
            estimator = estimator.best_estimator_
        elif hasattr(estimator, "steps"):
            if rows is not None and len(estimator.steps) > 1:
                rows = estimator[:-1].transform(rows)
            estimator = estimator[-1]
        elif hasattr(estimator, "estimator_") and not (
            # The models of an ensemble, and of instances that SingleInstance pools.
            hasattr(estimator, "estimators_") or hasattr(estimator, "predict_instances")
        ):
            estimator = estimator.estimator_
        else:
            return estimator, rows


def given_bags(X: Any) -> Any:
    """The input as bags; rows of a plain matrix are bags of one instance."""
    bags = as_bags(X)
    return check_bags(X) if bags is None else bags


# Okabe and Ito's palette, which can be distinguished with any colour vision, and is dark enough to
# be visible on white.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#9A6A00", "#56B4E9")
HIGHLIGHT = "#D55E00"
NEUTRAL = "#7F8FA3"
LINE = "#333333"
PYPLOT = ("matplotlib.pyplot", "A display", "milearn[plot]")


class Display:
    """Base class of the displays, which store their artists and axes."""

    def _open(self, ax: Any, figsize: tuple[float, float] | None = (7.4, 3.8)) -> Any:
        """The given axes, or the axes of a new figure."""
        if ax is None:
            _, ax = need_module(*PYPLOT).subplots(figsize=figsize, layout="constrained")
        self.ax_, self.figure_ = ax, ax.figure
        return ax

    def _dashed(self, at: float | None, label: str, *, vertical: bool = True) -> Any:
        """A line across the axes, or None without a position."""
        if at is None:
            return None
        draw = self.ax_.axvline if vertical else self.ax_.axhline
        return draw(at, color=LINE, linestyle="--", linewidth=1.2, label=label)

    def _label(self, x: str, y: str) -> None:
        """Set labels of the axes, remove the frame, and add a legend to the right of the plot."""
        ax = self.ax_
        ax.set_xlabel(x)
        ax.set_ylabel(y)
        ax.spines[["top", "right"]].set_visible(False)
        if ax.get_legend_handles_labels()[1]:
            place = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0), "borderaxespad": 0.3}
            ax.legend(frameon=False, handlelength=1.5, **place)


def evenly_spaced(n: int, limit: int) -> np.ndarray:
    """At most ``limit`` of ``n`` positions, evenly spaced from the first to the last."""
    return np.unique(np.linspace(0, n - 1, min(n, limit)).round().astype(np.intp))


def legend_below(ax: Any) -> None:
    """A legend below the label of the axis, if there is a colour bar to the right."""
    from matplotlib.transforms import ScaledTranslation

    shift = ScaledTranslation(0.0, -0.45, ax.figure.dpi_scale_trans)
    ax.legend(
        loc="upper left",
        bbox_to_anchor=(0.0, 0.0),
        bbox_transform=ax.transAxes + shift,
        frameon=False,
        borderaxespad=0.0,
        handletextpad=0.3,
    )
