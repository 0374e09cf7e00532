"""One fit of an automatic estimator: candidates prepared and scored on inner folds.

Inner folds depend on the bags, but not on their order.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from sklearn.base import clone, is_regressor
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import GroupKFold, KFold
from sklearn.utils import check_consistent_length

from .._bags import Bags
from .._bags.blocks import Block
from .._bags.distinct import MergedBags
from .._bags.segments import offsets_of
from .._compat import FitTask
from .._fit.warn import warn_user
from ..model_selection import StratifiedBagKFold
from ..model_selection._problem import group_codes
from ..svm._bag_svm import bag_rows, plan_of, random_landmarks
from ..svm._kernel_average import (
    as_kind,
    check_range,
    combined,
    default_scalings,
    learn_average,
    learn_scaled,
)
from ._calibration import not_calibrated
from ._candidates import (
    BagCandidate,
    Candidate,
    CandidateName,
    InstanceCandidate,
    LandmarkFeatures,
    ScaledStatistics,
    Scaling,
    ScoreFunction,
    StatisticsCandidate,
    Training,
)
from ._judgement import (
    Folds,
    Judge,
    Judged,
    Scored,
    chosen_model,
    clearly_worse,
    function_of,
    judge_candidates,
)
from ._plan import N_FOLDS, require_statistics, size_plan

INSTANCE, LINEAR, TREES, RIDGE = "instance", "linear", "trees", "ridge"
# Cost of the linear model of the highest instance, per mean squared norm of the instances.
_LINEAR_COST = 10.0
_STATISTICS = ("mean", "min", "max", "std")
_SMALLEST_LEAF = 2
_PENALTIES = tuple(10.0**power for power in range(-2, 6))

# Ratio of the times of a fit on all training bags and on a subset of them.
_WHOLE_FIT = 1.5

_FEW_BAGS, _FOLDS_OF_FEW = 40, 3

Wanted = Callable[[CandidateName, Scored], bool]


class Search:
    """A fit on merged bags: candidates, time, messages of ``verbose`` and skipped steps.

    Parameters
    ----------
    estimator : MIClassifier or MIRegressor
        Its parameters ``time_limit``, ``n_jobs`` and ``verbose``, and its limits are read.
    task : FitTask
    merged : MergedBags
    targets : ndarray of shape (n_merged,)
        Class numbers or values.
    n_columns : int
        Columns of scores.
    seed : int

    Attributes
    ----------
    limits : SizeLimits
    size : SizePlan
    training : Training
    skipped : list of str
        Skipped steps and the reasons.
    dropped : set of CandidateName
        Candidates that were clearly worse than another one on their first folds.
    """

    def __init__(
        self,
        estimator: Any,
        task: FitTask,
        merged: MergedBags,
        targets: np.ndarray,
        n_columns: int,
        seed: int,
    ) -> None:
        self.name, self.task = type(estimator).__name__, task
        self.budget, self.n_jobs = estimator.time_limit, estimator.n_jobs
        self.verbose = bool(estimator.verbose)
        self.merged, self.seed = merged, seed
        self.limits = estimator._size_limits
        self.size = size_plan(merged.bags, self.limits)
        self.training = Training(
            targets, n_columns, is_regressor(estimator), merged.weights, self.size.cost
        )
        self._check_memory()
        self.skipped = list(self.size.notes)
        self.start, self.stopped = time.perf_counter(), False
        self._makers: dict[CandidateName, Callable[[], Candidate]] = {}
        self._prepared: dict[CandidateName, Candidate] = {}
        self.dropped: set[CandidateName] = set()
        # Scores of classes by kernel, see InstanceCandidate.
        self._shared: dict[str, dict[Any, np.ndarray]] = {}

    def _check_memory(self) -> None:
        """Refuse instances in blocks whose statistics do not fit, and name what is left out."""
        if not self.size.in_blocks:
            return
        n_bags, n_features = self.merged.bags.shape
        require_statistics(n_bags, n_features)
        if self.size.left_out:
            size = 8e-9 * self.merged.bags.n_instances * n_features
            warn_user(
                f"{self.name} leaves out {' and '.join(self.size.left_out)}, which need all "
                f"instances in float64 in memory, {size:.2g} GB: reduce the features, for instance "
                "by IncrementalPCA in an InstanceTransformer, to compare all.",
                UserWarning,
            )

    def fitted(self, judged: dict[str, Judged], unit: float = 1.0) -> dict[str, Any]:
        """The fitted attributes of both estimators, after fitting the models on all bags.

        Measures are multiplied by ``unit``.
        """
        chosen = chosen_model(judged)
        function = function_of(chosen, judged, self.whole)
        self._step(f"{chosen!r} fitted on all bags")
        return {
            "paradigm_": chosen,
            "scores_": {
                name: {measure: unit * value for measure, value in each.measures.items()}
                for name, each in judged.items()
                if each.measures
            },
            "_calibration": judged[chosen].calibration,
            "skipped_": self.skipped,
            "n_bags_": len(self.merged.bags),
            "_function": function,
        }

    # -- time ------------------------------------------------------------------------------

    @property
    def _elapsed(self) -> float:
        return time.perf_counter() - self.start

    def _step(self, what: str) -> None:
        """Report a completed step."""
        if self.verbose:
            print(f"[{self.name}] {self._elapsed:.1f} s: {what}", flush=True)
        self.stopped = self.task.step() or self.stopped

    def _allows(self, seconds: float) -> bool:
        """Whether at least ``seconds`` remain, and no callback requested to stop."""
        return not self.stopped and (self.budget is None or self._elapsed + seconds <= self.budget)

    def _skip(self, what: str) -> None:
        """Record a skipped step."""
        reason = "a callback asked to stop" if self.stopped else f"time_limit={self.budget} s"
        self.skipped.append(f"{what} ({reason})")
        if self.verbose:
            print(f"[{self.name}] left out: {self.skipped[-1]}", flush=True)

    # -- candidates ------------------------------------------------------------------------

    def bag_candidate(self, kernels: tuple[str, ...]) -> BagCandidate:
        """The average of kernels, learnt on the distinct bags or on landmarks among them."""
        merged, size = self.merged, self.size
        plan = plan_of(list(kernels), "auto", 1.0, size.text)
        distinct = merged.distinct
        if size.n_components is not None and size.n_components < len(merged.distinct_positions):
            distinct = merged.bags[random_landmarks(merged, size.n_components, self.seed)]
        distinct = as_kind(distinct, size.text)
        if not self._one_by_one:
            average, matrix = learn_average(plan, distinct, self.n_jobs, self.seed)
            self._step("bag kernels learnt")
            return BagCandidate(*bag_rows(average, matrix, merged), self.training)
        found: list[Any] = []
        took = 0.0
        for number, scaling in enumerate(plan.scalings):
            # Use half of the time: folds and the final fit follow.
            if found and not self._allows(took + self._elapsed):
                self._skip(f"scaling {number + 1} of {len(plan.scalings)}")
                continue
            begun = self._elapsed
            found.append(learn_scaled(plan, scaling, distinct, self.n_jobs, self.seed))
            took = self._elapsed - begun
            self._step(f"bag kernels learnt over scaling {number + 1} of {len(plan.scalings)}")
        average, matrix = combined(plan, found)
        return BagCandidate(*bag_rows(average, matrix, merged), self.training)

    @cached_property
    def _scaled(self) -> tuple[Scaling, Bags]:
        """The scaling of the candidates other than bag kernels, and the scaled training bags."""
        text = self.size.text
        distinct = as_kind(self.merged.distinct, text)
        check_range(distinct)
        scale = Scaling.of(distinct, text, clone(default_scalings()[0]))
        bags = self.merged.bags
        return scale, scale.when_read(bags) if self.size.in_blocks else scale(bags)

    @cached_property
    def _featured(self) -> tuple[LandmarkFeatures, Bags]:
        """Landmark features of the RBF kernel, and those of the training bags."""
        scale, bags = self._scaled
        assert self.size.instance_components is not None
        features = LandmarkFeatures.of(
            scale, bags, self.merged.weights, self.size.instance_components, self.seed
        )
        return features, features.of_scaled(bags)

    def instance_candidate(
        self,
        kind: type,
        *,
        positive: int | None = None,
        without: int | None = None,
        **settings: Any,
    ) -> InstanceCandidate:
        """MISVC or CoupledMISVR on scaled instances."""
        if positive is not None:
            settings["pos_label"] = positive
        given = {"C": self.size.cost, "kernel": self.size.instance_kernel, **settings}
        parts: tuple[Any, Bags] = self._scaled
        if given["kernel"] == "rbf" and self.size.instance_components is not None:
            # The features of all inner folds; the model over them is linear.
            parts, given["kernel"] = self._featured, "linear"
        model = kind(random_state=self.seed, **given)
        shared = self._shared.setdefault(given["kernel"] + type(parts[0]).__name__, {})
        if self.training.n_columns == 1:
            shared = {}
        return InstanceCandidate(model, *parts, self.training, without, shared)

    def linear_candidate(self, kind: type, **settings: Any) -> InstanceCandidate:
        """The linear model, with a cost that means the same for any number of features."""
        bags, chosen = self._scaled[1], self.merged.distinct_positions
        distinct = bags if len(chosen) == len(bags) else bags[chosen]
        norm = sum(distinct.source().map(_squares, in_parts=True)) / distinct.n_instances
        C = _LINEAR_COST / norm if norm > 0 else _LINEAR_COST
        return self.instance_candidate(kind, kernel="linear", C=C, **settings)

    def trees_candidate(self) -> StatisticsCandidate:
        """Trees on statistics of the scaled bags."""
        settings: dict[str, Any] = {
            "n_estimators": self.limits.trees,
            "min_samples_leaf": _SMALLEST_LEAF,
            "random_state": self.seed,
        }
        model: Any = ExtraTreesClassifier(**settings)
        if self.training.regression:
            n_considered = self._considered()
            model = ExtraTreesRegressor(**settings, max_features=n_considered)
        return self._statistics(model, _STATISTICS)

    def _considered(self) -> int:
        """Number of the statistics that a split of a regression tree considers: all of small data.

        Otherwise as many as ``limits.tree_values`` allows, but at least their square root, as in
        classification.
        """
        n_bags, n_features = self.merged.bags.shape
        n_columns = len(_STATISTICS) * n_features
        n_allowed = max(int(self.limits.tree_values / n_bags), int(n_columns**0.5))
        if n_allowed < n_columns:
            self.skipped.append(f"splits of trees on more than {n_allowed} of {n_columns} columns")
        return min(n_allowed, n_columns)

    def ridge_candidate(self) -> StatisticsCandidate:
        """Ridge regression on the means of the scaled bags."""
        return self._statistics(RidgeCV(_PENALTIES), ("mean",))

    def _statistics(self, model: Any, names: tuple[str, ...]) -> StatisticsCandidate:
        scale, bags = self._scaled
        rows = ScaledStatistics(scale, names)
        return StatisticsCandidate(model, rows, rows.of_scaled(bags), self.training)

    # -- scores ----------------------------------------------------------------------------

    def whole(self, name: CandidateName) -> ScoreFunction:
        """A candidate, fitted on all training bags."""
        return self.candidate(name).whole()

    @property
    def _one_by_one(self) -> bool:
        """Whether steps are in turn, so that the time and callbacks are asked between them."""
        return self.budget is not None or effective_n_jobs(self.n_jobs) == 1

    def candidate(self, name: CandidateName) -> Candidate:
        """A candidate, which is prepared when it is first asked for."""
        if name not in self._prepared:
            self._prepared[name] = self._makers[name]()
        return self._prepared[name]

    def judged(
        self,
        makers: dict[CandidateName, Callable[[], Candidate]],
        folds: Folds,
        judge: Judge,
        wanted: Wanted = lambda name, scored: True,
    ) -> dict[str, Judged]:
        """Evaluate candidates by their scores of the test bags of each fold.

        A candidate that is clearly worse than another on its first folds is ``dropped``.
        ``wanted(name, scored)`` tells whether a candidate is needed, given the scores of those
        before it. If the time is not sufficient, candidates are skipped or have fewer folds. The
        first candidate has at least one fold, if there are folds.
        """
        self._makers = makers
        # The kernel follows the linear model.
        highest = [name for name in makers if name.name == INSTANCE]
        parts = [[name for name in makers if name not in highest], highest]
        rounds = [(number, part) for part in parts for number in range(len(folds))]
        if self.budget is not None:
            # Each candidate has a fold before any has a second one.
            rounds.sort(key=lambda each: each[0])
        found: Scored = {}
        took: dict[CandidateName, float] = {}
        asked: list[CandidateName] = []
        for number, part in rounds:
            if number == 0:
                part[:] = [name for name in part if wanted(name, found)]
                asked += part
            for names in [[name] for name in part] if self._one_by_one else [part]:
                self._score(names, number, folds, found, took)
            self.dropped |= clearly_worse(found, folds, judge, self.dropped)
        self._report(asked, found, len(folds))
        if found:
            return judge_candidates(found, folds, judge, self.dropped)
        calibration = not_calibrated(self.training.n_columns)
        return {name.name: Judged(0.0, 0.0, {}, calibration, 0.0, name) for name in makers}

    def _score(
        self,
        names: list[CandidateName],
        number: int,
        folds: Folds,
        found: Scored,
        took: dict[CandidateName, float],
    ) -> None:
        """Score candidates on a fold, as far as there is time; the very first one in any case."""

        def for_all() -> float:
            """Seconds for the fits on all bags that follow."""
            return _WHOLE_FIT * sum(took[name] for name in found if name not in self.dropped)

        due = [
            name
            for name in names
            if name not in self.dropped
            and len(found.get(name, [])) == number
            and self._allows(took.get(name, 0.0) + for_all())
        ]
        due = due if found else due or names[:1]
        begun = self._elapsed
        fits = Parallel(n_jobs=1 if self._one_by_one else self.n_jobs)(
            delayed(self.candidate(name).fold)(*folds[number]) for name in due
        )
        for name, scores in zip(due, fits, strict=True):
            took[name] = (self._elapsed - begun) / len(due)
            self._step(f"{name} scored on fold {number + 1} of {len(folds)}")
            if number or not found or self._allows(_WHOLE_FIT * took[name] + for_all()):
                found.setdefault(name, []).append(scores)

    def _report(self, names: list[CandidateName], found: Scored, n_folds: int) -> None:
        """Record what the time, or a callback, left out."""
        for name, scores in found.items():
            if len(scores) < n_folds and name not in self.dropped:
                self._skip(f"inner folds {len(scores) + 1} to {n_folds} of {name}")
        missing = [str(name) for name in names if found and name not in found]
        for each in missing:
            self._skip(each)
        if missing and not self.stopped:
            warn_user(
                f"time_limit={self.budget} left out {', '.join(missing)}: raise it to compare all.",
                UserWarning,
            )


def _squares(block: Block) -> float:
    """Sum of the squares of all values."""
    rows = block.instances
    return float(np.einsum("ij,ij->", rows, rows, dtype=np.float64))


# -- inner folds ----------------------------------------------------------------------------------


def checked_groups(groups: Any, bags: Bags) -> np.ndarray | None:
    """Validated group numbers of bags, in the order of the group names."""
    if groups is None:
        return None
    check_consistent_length(bags, groups)
    codes = group_codes(groups)
    names = np.asarray(groups).ravel()[np.unique(codes, return_index=True)[1]].tolist()
    order = sorted(range(len(names)), key=lambda code: (type(names[code]).__name__, names[code]))
    return np.asarray(np.argsort(order)[codes])


def class_folds(merged: MergedBags, codes: np.ndarray, rng: Any) -> Folds:
    """Stratified folds of merged bags; empty if a class has a single bag or group.

    Parameters
    ----------
    merged : MergedBags
    codes : ndarray of shape (n_merged,), class numbers
    rng : RandomState
    """
    order = merged.order
    offsets = offsets_of(merged.bags.sizes[order])
    shapes = Bags(np.zeros((offsets[-1], 1), dtype=np.float16), offsets)
    groups = None if merged.groups is None else merged.groups[order]
    most = _most_folds(len(codes))
    fewest = min(_spread(codes == code, merged.groups) for code in np.unique(codes))
    seed = rng.randint(2**31 - 1)
    # Numbered by their first bags, so that folds do not depend on the names of the classes.
    _, first, inverse = np.unique(codes[order], return_index=True, return_inverse=True)
    classes = np.argsort(np.argsort(first))[inverse]
    for n_splits in range(min(most, fewest), 1, -1):
        splitter = StratifiedBagKFold(n_splits, shuffle=True, random_state=seed)
        try:
            found = list(splitter.split(shapes, classes, groups))
        except ValueError:
            # Groups that cannot be split into this number of folds may be split into fewer.
            if groups is None:
                raise
            continue
        return [(order[train], order[test]) for train, test in found]
    if groups is None and len(codes) < _FEW_BAGS:
        return []
    cause, remedy = "A class has a single bag, which leaves", "Pass more bags of it."
    if groups is not None:
        cause, remedy = "The groups leave", "Pass smaller groups, or none."
    warn_user(
        f"{cause} no two inner folds with bags of every class: nothing was compared or "
        f"calibrated. {remedy}",
        UserWarning,
    )
    return []


def value_folds(merged: MergedBags, rng: Any) -> Folds:
    """Folds of merged bags for regression; empty for fewer than three bags or two groups."""
    order, groups = merged.order, merged.groups
    units = len(order) if groups is None else len(np.unique(groups))
    n_splits = min(_most_folds(len(order)), units)
    if n_splits < 2 or len(order) < 3:
        return []
    shuffled = order[rng.permutation(len(order))]
    if groups is None:
        found = KFold(n_splits).split(shuffled)
    else:
        found = GroupKFold(n_splits).split(shuffled, groups=groups[shuffled])
    return [(shuffled[train], shuffled[test]) for train, test in found]


def _most_folds(n_bags: int) -> int:
    return N_FOLDS if n_bags >= _FEW_BAGS else _FOLDS_OF_FEW


def _spread(members: np.ndarray, groups: np.ndarray | None) -> int:
    return int(members.sum()) if groups is None else len(np.unique(groups[members]))
