"""What the two boosted classifiers share."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from joblib import Parallel, delayed
from sklearn.exceptions import ConvergenceWarning

from .._bags import Bags
from .._bags.segments import gather_rows, segment_argmax, segment_max
from .._solvers.ensemble.column_generation import Limits
from .._solvers.ensemble.dpboost import DPResult, solve_disjunctive
from .._solvers.ensemble.learners import (
    Fitted,
    Stump,
    check_learner,
    make_pool,
    staged_scores,
    weak_scores,
)
from .._solvers.ensemble.points import distinct_points
from .._solvers.ensemble.problem import DisjunctiveProblem
from ..base import BagClassifier
from ..utils._sklearn import CallbackSupport, Interval
from ..utils.validation import (
    encode_classes,
    validate_bags,
    validate_labels,
    validate_sample_weight,
)

__all__ = ["BoostedBags"]

_ADVICE = {
    "time_limit": "raise time_limit, lower C, or raise tol",
    "max_learners": "raise max_learners or lower C",
    "max_nodes": "raise max_nodes",
    "callback": "a callback asked for it",
}


class BoostedBags(CallbackSupport, BagClassifier):
    """Base of the classifiers F(x) = sum_k alpha_k h_k(x) whose weights solve a linear program.

    A subclass stores its parameters and names its program in ``_problem`` and the options of the
    solver in ``_options``.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "C": [Interval(Real, 0.0, None, closed="neither")],
        # No class of its own: scikit-learn would ask a meta-estimator's questions of it.
        "learner": "no_validation",
        "max_learners": [Interval(Integral, 1, None, closed="left")],
        "n_centers": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0.0, None, closed="neither")],
        "time_limit": [Interval(Real, 0.0, None, closed="neither"), None],
        "pos_label": "no_validation",
        "n_jobs": [Integral, None],
        "verbose": ["verbose"],
    }

    def _problem(
        self, point_of: np.ndarray, offsets: np.ndarray, positive: np.ndarray, costs: np.ndarray
    ) -> DisjunctiveProblem:
        raise NotImplementedError

    def _options(self) -> dict[str, Any]:
        return {"tol": self.tol, "max_learners": self.max_learners}

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> Any:
        before = dict(self.__dict__)
        try:
            return self._fit_anew(X, y, sample_weight)
        except BaseException:
            # Whatever ends a fit, a stop from the keyboard too, leaves what was there before.
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    def _fit_anew(self, X: Any, y: Any, sample_weight: Any) -> Any:
        if isinstance(self.learner, str) and self.learner not in ("stump", "rbf"):
            raise ValueError(
                f"learner={self.learner!r} is unknown: use 'stump', 'rbf', or a scikit-learn "
                "classifier."
            )
        check_learner(self.learner)
        bags = validate_bags(self, X, dtype=np.float64)
        labels = validate_labels(self, y, bags)
        shares = validate_sample_weight(sample_weight, bags)
        classes, codes, positive = encode_classes(labels[shares > 0], self.pos_label)
        # A bag of weight zero takes no part at all, as if it had been left out.
        used = np.flatnonzero(shares > 0)
        costs = self.C * shares[used]
        rows, offsets = gather_rows(bags.offsets, used)
        instances = bags.instances[rows]
        kept, point_of = distinct_points(instances)
        pool = make_pool(self.learner, instances[kept], self.n_centers)

        tasks = [positive] if positive >= 0 else list(range(len(classes)))
        problems = [self._problem(point_of, offsets, codes == task, costs) for task in tasks]
        progress = self._start_task(len(tasks), X=bags, y=labels, sample_weight=sample_weight)
        results = self._run(problems, pool, progress)
        self.classes_ = classes
        self._positive_sign = -1 if positive == 0 else 1
        self._store(results, bags)
        self._warn(results)
        progress.end()
        return self

    def _run(self, problems: list[DisjunctiveProblem], pool: Any, progress: Any) -> list[DPResult]:
        if len(problems) > 1 and self.n_jobs not in (None, 1):
            return Parallel(n_jobs=self.n_jobs)(
                delayed(_solve)(problem, pool, self.time_limit, None, self._options())
                for problem in problems
            )
        results = []
        for number, problem in enumerate(problems):
            part = progress.part("class", max_steps=None)
            report = self._reporter(part, number, len(problems))
            results.append(_solve(problem, pool, self.time_limit, report, self._options()))
            part.end()
        return results

    def _reporter(self, part: Any, number: int, n_problems: int) -> Callable[..., bool]:
        def report(**facts: Any) -> bool:
            if self.verbose:
                shown = ", ".join(f"{name} {value:.6g}" for name, value in facts.items())
                print(f"[{type(self).__name__}] problem {number + 1}/{n_problems}: {shown}")
            return part.step()

        return report

    def _store(self, results: list[DPResult], bags: Bags) -> None:
        self._binary = len(results) == 1
        learners, weights = [], []
        for result in results:
            # Heaviest first, so that the stages of the ensemble are its best parts.
            order = np.argsort(-result.alpha, kind="stable")
            learners.append([result.learners[k] for k in order])
            weights.append(result.alpha[order])
        self.learners_ = learners[0] if self._binary else learners
        self.alpha_ = weights[0] if self._binary else weights
        scores = self._instance_scores(bags).reshape(bags.n_instances, -1)
        turn = self._positive_sign
        witnesses = segment_argmax(turn * scores, bags.offsets)
        self.witnesses_ = witnesses[:, 0] if self._binary else witnesses

        def values(name: str) -> Any:
            found = [getattr(result, name) for result in results]
            return found[0] if self._binary else np.array(found)

        def histories(name: str) -> Any:
            found = [np.array(getattr(result, name)) for result in results]
            return found[0] if self._binary else found

        for name in ("objective", "lower_bound", "n_iter", "converged"):
            setattr(self, f"{name}_", values(name))
        self.gap_ = self.objective_ - self.lower_bound_
        self.objective_history_ = histories("objective_history")
        self._store_more(values, histories)

    def _store_more(self, values: Callable[[str], Any], histories: Callable[[str], Any]) -> None:
        """What a subclass tells beyond that."""

    def _warn(self, results: list[DPResult]) -> None:
        # How many reductions there may be is a choice of the relaxation, not a stop.
        cut = [result for result in results if result.stopped not in ("", "max_rows")]
        stopped = sorted({result.stopped for result in cut})
        if stopped:
            count = len(cut)
            worst = max(result.objective - result.lower_bound for result in results)
            warnings.warn(
                f"{type(self).__name__} stopped early by {' and '.join(stopped)} in {count} of "
                f"{len(results)} problem(s), with a gap of {worst:.3g}: "
                f"{'; '.join(_ADVICE[reason] for reason in stopped)}.",
                ConvergenceWarning,
                stacklevel=6,
            )

    # -- prediction -----------------------------------------------------------------------

    def _decide(self, scores: np.ndarray) -> np.ndarray:
        if scores.ndim == 2:
            return super()._decide(scores)
        # F is a sum of few weights and often 0, which does not speak for the positive class,
        # whichever that is.
        positive = self._positive_sign * scores > 0
        return self.classes_[
            np.where(positive, self._positive_sign > 0, self._positive_sign < 0) * 1
        ]

    def _ensembles(self) -> list[tuple[list[Any], np.ndarray]]:
        if self._binary:
            return [(self.learners_, self.alpha_)]  # type: ignore[list-item]
        return list(zip(self.learners_, self.alpha_, strict=True))

    def _instance_scores(self, bags: Bags) -> np.ndarray:
        columns = [weak_scores(*each, bags.instances) for each in self._ensembles()]
        return self._positive_sign * columns[0] if self._binary else np.stack(columns, axis=1)

    def staged_decision_function(self, X: Any) -> Iterator[np.ndarray]:
        """Scores of bags by the heaviest learner alone, by the two heaviest, and so on.

        Parameters
        ----------
        X : bags, see :class:`milearn.Bags`

        Yields
        ------
        ndarray of shape (n_bags,), or (n_bags, n_classes) for three or more classes
            The last one is ``decision_function(X)``. A class with fewer learners than others
            stays as it is when they are used up.
        """
        bags = self._checked(X)
        stages = [staged_scores(*each, bags.instances) for each in self._ensembles()]
        present = [np.zeros(bags.n_instances) for _ in stages]
        for _ in range(max(len(weights) for _, weights in self._ensembles())):
            present = [next(stage, old) for stage, old in zip(stages, present, strict=True)]
            pooled = [segment_max(scores, bags.offsets) for scores in present]
            yield self._positive_sign * pooled[0] if self._binary else np.stack(pooled, axis=1)

    def _importances(self) -> np.ndarray:
        total = np.zeros(self.n_features_in_)
        for learners, weights in self._ensembles():
            mine = np.zeros(self.n_features_in_)
            for learner, weight in zip(learners, weights, strict=True):
                if isinstance(learner, Fitted):
                    mine += weight * getattr(learner.estimator, "feature_importances_", np.nan)
                elif not isinstance(learner, Stump):
                    mine += np.nan
                elif learner.feature >= 0:
                    mine[learner.feature] += weight
            total += mine / max(1e-300, mine.sum()) if mine.any() else mine
        return total / len(self._ensembles())

    @property
    def feature_importances_(self) -> np.ndarray:
        """Share of each feature in the weights, shape (n_features,); the mean over classes.

        For stumps, and for classifiers that have importances of their own.
        """
        if not hasattr(self, "classes_") or not np.isfinite(self._importances()).all():
            raise AttributeError(
                f"{type(self).__name__} has feature_importances_ when it is fitted with stumps or "
                "with a classifier that has them."
            )
        return self._importances()


def _solve(
    problem: DisjunctiveProblem,
    pool: Any,
    time_limit: float | None,
    report: Callable[..., bool] | None,
    options: dict[str, Any],
) -> DPResult:
    return solve_disjunctive(problem, pool, Limits(time_limit, report), **options)
