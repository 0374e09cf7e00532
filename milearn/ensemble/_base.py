"""Base class of the boosted classifiers."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from .._bags import Bags
from .._bags.segments import gather_rows, segment_argmax, segment_max
from .._compat import CallbackSupport, StrOptions, with_callbacks
from .._constraints import AT_LEAST_ONE, Constraints
from .._fit.multi_start import MultiStart, attributes_of
from .._fit.threads import fit_context
from .._fit.validation import TrainingLabels
from .._fit.warn import warn_user
from .._solvers.ensemble import dpboost
from .._solvers.ensemble.dpboost import BoostingOptions, DPResult
from .._solvers.ensemble.learners import (
    WeakLearner,
    ensemble_importances,
    ensemble_scores,
    staged_scores,
)
from .._solvers.ensemble.pools import check_learner, make_pool
from .._solvers.ensemble.problem import disjunctive_problem, ordered_points
from ..base import BagClassifier, class_scores

_REMEDIES = {
    "time_limit": "raise time_limit, lower C, or raise tol",
    "n_estimators": "raise n_estimators or lower C",
    "max_nodes": "raise max_nodes",
    "callback": "a callback asked for it",
    "size": "lower n_estimators or fit fewer bags, as no reductions were tried for the bound",
    "rounding": "scale the features, lower C, or raise tol, as rounding ended the linear program",
    "work": "lower C or n_estimators, or fit fewer bags, to end before the limit of work",
}


class BoostedBags(CallbackSupport, BagClassifier):
    """Base class of classifiers F(x) = sum_k alpha_k h_k(x) whose weights solve a linear program.

    Subclasses store their parameters. ``_options`` are those of the solver.
    """

    _parameter_constraints = Constraints(
        n_estimators=[AT_LEAST_ONE, StrOptions({"auto"})], n_prototypes=[AT_LEAST_ONE]
    )

    # Whether every instance has the class of its bag.
    _inherited = False
    learners_: list[WeakLearner] | list[list[WeakLearner]]
    alpha_: np.ndarray | list[np.ndarray]

    # What a fit stores of the results, with an underscore.
    _stored: tuple[str, ...] = (
        "objective",
        "lower_bound",
        "optimality_gap",
        "objective_history",
        "n_iter",
        "converged",
    )

    def _options(self, n_estimators: int) -> BoostingOptions:
        return BoostingOptions(tol=self.tol, n_estimators=n_estimators, time_limit=self.time_limit)

    @with_callbacks
    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit on bags and their labels.

        Parameters
        ----------
        X : bags, see :class:`milearn.Bags`
            Rows of a plain matrix are bags of one instance.
        y : array-like of shape (n_bags,)
            Class of each bag.
        sample_weight : array-like of shape (n_bags,), default=None
            Factor on C for each bag. A weight of two is equivalent to duplicating the bag.

        Returns
        -------
        self
            The fitted estimator.
        """
        check_learner(self.estimator)
        bags, noted = self._validate_fit(X)
        found = TrainingLabels.of(self, y, bags, sample_weight)
        rows, offsets = gather_rows(bags.offsets, found.used)
        instances = bags.instances[rows]
        kept, point_of = ordered_points(instances)
        pool = make_pool(self.estimator, instances[kept], self.n_prototypes, self.max_bins)

        given = point_of, offsets, self.C * found.weights, self._inherited
        problems = [disjunctive_problem(found.codes == task, *given) for task in found.tasks]
        n_rows = max(len(each.points) + len(each.members) for each in problems)
        auto = self.n_estimators == "auto"
        options = self._options(dpboost.auto_learners(n_rows) if auto else self.n_estimators)
        solve = partial(dpboost.solve_disjunctive, pool=pool, options=options)
        data = {"X": bags, "y": found.all_labels, "sample_weight": sample_weight}
        runs = [[(problem,)] for problem in problems]
        results, task = MultiStart(self, None).best(solve, runs, **data)
        self._replace_fitted(
            {
                **noted,
                "classes_": found.classes,
                "_positive_sign": found.sign,
                **_ensemble_attributes(results, bags),
                **attributes_of(results, *self._stored),
            }
        )
        if reasons := sorted({each.stopped for each in results} - {""}):
            n_stopped = sum(not each.converged for each in results)
            largest = max(each.optimality_gap for each in results)
            warn_user(
                f"{type(self).__name__} stopped early by {' and '.join(reasons)} in {n_stopped} of "
                f"{len(results)} problem(s), with an optimality gap of {largest:.3g}: "
                f"{'; '.join(_REMEDIES[reason] for reason in reasons)}.",
                ConvergenceWarning,
            )
        task.end()
        return self

    # -- prediction -----------------------------------------------------------------------

    def _decide(self, scores: np.ndarray) -> np.ndarray:
        if scores.ndim == 2:
            return super()._decide(scores)
        # F is a sum of few weights and is often exactly 0, which is not a positive prediction,
        # regardless of which class is positive.
        positive = self._positive_sign * scores > 0
        return self.classes_[(positive == (self._positive_sign > 0)).astype(np.intp)]

    def _ensembles(self) -> list[tuple[list[WeakLearner], np.ndarray]]:
        """Learners and weights: one pair for two classes, otherwise one per class."""
        if len(self.classes_) == 2:
            return [(self.learners_, self.alpha_)]  # type: ignore[list-item]
        return list(zip(self.learners_, self.alpha_, strict=True))  # type: ignore[arg-type]

    def _instance_scores(self, bags: Bags) -> np.ndarray:
        columns = [ensemble_scores(*each, bags.instances) for each in self._ensembles()]
        return class_scores(columns, self._positive_sign)

    def staged_decision_function(self, X: Any) -> Iterator[np.ndarray]:
        """Scores of bags after each learner, in descending order of the weights.

        Parameters
        ----------
        X : bags, see :class:`milearn.Bags`
            Bags to score.

        Yields
        ------
        ndarray of shape (n_bags,), or (n_bags, n_classes) for three or more classes
            The last one is ``decision_function(X)``. If a class has fewer learners than others,
            its scores do not change after its last learner.
        """
        bags = self._checked(X)
        ensembles = self._ensembles()
        stages = [staged_scores(*each, bags.instances) for each in ensembles]
        present = [np.zeros(bags.n_instances) for _ in stages]
        for _ in range(max(len(alpha) for _, alpha in ensembles)):
            present = [next(stage, old) for stage, old in zip(stages, present, strict=True)]
            pooled = [segment_max(scores, bags.offsets) for scores in present]
            yield class_scores(pooled, self._positive_sign)

    @property
    def feature_importances_(self) -> np.ndarray:
        """Fraction of the weights that belongs to each feature, shape (n_features,).

        It is averaged over classes, and available for stumps and for classifiers with feature
        importances.
        """
        if self.__sklearn_is_fitted__():
            n = self.n_features_in_
            shares = [ensemble_importances(*each, n) for each in self._ensembles()]
            if np.isfinite(shares).all():
                return np.mean(shares, axis=0)
        raise AttributeError(
            f"{type(self).__name__} has feature_importances_ only if it is fitted with stumps or "
            "with a classifier that has them."
        )


def _ensemble_attributes(results: list[DPResult], bags: Bags) -> dict[str, Any]:
    """Learners, weights and witnesses, as lists with one entry per class for several problems."""
    learners, weights, scores = [], [], []
    for result in results:
        # Sort by descending weight for staged predictions.
        order = np.argsort(-result.alpha, kind="stable")
        learners.append([result.learners[k] for k in order])
        weights.append(result.alpha[order])
        scores.append(ensemble_scores(learners[-1], weights[-1], bags.instances))
    witnesses = segment_argmax(np.stack(scores, axis=1), bags.offsets)
    several = len(results) > 1
    return {
        "learners_": learners if several else learners[0],
        "alpha_": weights if several else weights[0],
        "witnesses_": witnesses if several else witnesses[:, 0],
    }
