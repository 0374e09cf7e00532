"""What the support vector machines with a hard maximum share."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from joblib import Parallel, delayed
from sklearn.utils import check_random_state

from .._bags import Bags
from .._bags.segments import gather_rows, segment_argmax
from .._kernels.instance import KERNELS, instance_kernel, resolve_gamma
from .._solvers.common.gram import BLOCK_BYTES
from .._solvers.common.qp import check_qp_solver
from ..base import BagClassifier
from ..utils._sklearn import (
    CallbackSupport,
    FitTask,
    Interval,
    StrOptions,
)
from ..utils.validation import (
    bag_weights,
    encode_classes,
    validate_bags,
    validate_labels,
    validate_sample_weight,
)
from ._runs import Runs, training_gram

__all__ = ["HardMaxSVC"]


class HardMaxSVC(Runs, CallbackSupport, BagClassifier):
    """Base of the machines whose bag score is the maximum of its instance scores.

    A subclass stores its parameters, names its solver in ``_solve`` and its starts in
    ``_starts``. This class turns bags and labels into binary problems of arrays, runs them (each
    class, each restart), keeps the best of each and stores what was fitted.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "C": [Interval(Real, 0.0, None, closed="neither")],
        "kernel": [StrOptions(set(KERNELS)), callable],
        "degree": [Interval(Real, 0.0, None, closed="left")],
        "gamma": [StrOptions({"scale", "auto"}), Interval(Real, 0.0, None, closed="neither")],
        "coef0": [Interval(Real, None, None, closed="neither")],
        "n_init": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0.0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "cache_size": [Interval(Real, 0.0, None, closed="neither")],
        "class_weight": [StrOptions({"balanced"}), dict, None],
        "pos_label": "no_validation",
        "qp_solver": [str, None],
        "random_state": ["random_state"],
        "n_jobs": [Integral, None],
        "verbose": ["verbose"],
    }

    def __sklearn_is_fitted__(self) -> bool:
        # A fit that failed leaves n_features_in_ behind, which alone would count as fitted.
        return hasattr(self, "converged_")

    def _solve(
        self,
        gram: Any,
        offsets: np.ndarray,
        signs: np.ndarray,
        weights: np.ndarray,
        start: np.ndarray | None,
        on_iteration: Any,
    ) -> Any:
        raise NotImplementedError

    def _starts(self, bags: Bags, used: np.ndarray, signs: np.ndarray, rng: Any) -> list[Any]:
        raise NotImplementedError

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> HardMaxSVC:
        check_qp_solver(self.qp_solver)
        bags = validate_bags(self, X, dtype=np.float64)
        labels = validate_labels(self, y, bags)
        shares = validate_sample_weight(sample_weight, bags)
        classes, codes, positive = encode_classes(labels[shares > 0], self.pos_label)
        costs = bag_weights(self.class_weight, classes, codes, shares[shares > 0])
        # A bag of weight zero takes no part at all, as if it had been left out.
        used = np.flatnonzero(shares > 0)[costs > 0]
        codes, costs = codes[costs > 0], costs[costs > 0]
        if len(np.unique(codes)) < len(classes):
            raise ValueError("class_weight leaves a class without weight: a classifier needs two.")
        rows, offsets = gather_rows(bags.offsets, used)
        instances = bags.instances if len(used) == len(bags) else bags.instances[rows]
        spread = np.repeat(shares[used], np.diff(offsets))
        gamma = resolve_gamma(self.gamma, instances, spread)
        rng = check_random_state(self.random_state)
        gram = self._problem(instances, offsets, gamma, rng)

        tasks = [positive] if positive >= 0 else list(range(len(classes)))
        runs = []
        for number, task in enumerate(tasks):
            signs = np.where(codes == task, 1.0, -1.0)
            starts = self._starts(bags, used, signs, rng)
            runs += [(number, signs, start) for start in starts]
        progress = self._start_task(len(runs), X=bags, y=labels, sample_weight=sample_weight)
        results = self._run(runs, gram, offsets, self.C * costs, progress)
        best = [
            min(
                (result for run, result in zip(runs, results, strict=True) if run[0] == number),
                key=lambda result: result.objective,
            )
            for number in range(len(tasks))
        ]
        self.classes_ = classes
        self._positive_sign = -1 if positive == 0 else 1
        self.gamma_ = gamma
        self._store(best, gram, bags, rows)
        self._warn(best)
        progress.end()
        return self

    @property
    def _gap_tol(self) -> float:
        """Relative duality gap that a convex step may end with."""
        return self.tol

    def _problem(self, instances: Any, offsets: np.ndarray, gamma: float, rng: Any) -> Any:
        """What the solver works on."""
        return self._gram(instances, gamma)

    def _gram(self, instances: Any, gamma: float) -> Any:
        kernel, semidefinite = instance_kernel(
            self.kernel, gamma=gamma, degree=self.degree, coef0=self.coef0
        )
        return training_gram(
            instances,
            self.kernel,
            kernel,
            semidefinite,
            self.cache_size * 2**20,
            stacklevel=5,
        )

    def _run(
        self,
        runs: list[tuple[int, np.ndarray, np.ndarray | None]],
        gram: Any,
        offsets: np.ndarray,
        weights: np.ndarray,
        progress: FitTask,
    ) -> list[Any]:
        if len(runs) > 1 and self.n_jobs not in (None, 1):
            # Each worker fills a cache of kernel rows of its own.
            results = Parallel(n_jobs=self.n_jobs)(
                delayed(self._solve)(gram, offsets, signs, weights, start, None)
                for _, signs, start in runs
            )
        else:
            results = []
            for number, (_, signs, start) in enumerate(runs):
                part = progress.part("run", max_steps=self.max_iter)
                report = self._reporter(part, number, len(runs))
                results.append(self._solve(gram, offsets, signs, weights, start, report))
                part.end()
        return results

    def _store(self, best: list[Any], gram: Any, bags: Bags, rows: np.ndarray) -> None:
        binary, turn = len(best) == 1, self._positive_sign
        expansions = [gram.expansion(result.rows, result.coef) for result in best]
        dense = np.stack(
            [np.bincount(index, weights=coef, minlength=gram.n) for index, coef in expansions]
        )
        support = np.flatnonzero(dense.any(axis=0))
        self.dual_coef_ = turn * dense[:, support]
        self.support_ = rows[support]
        self.support_vectors_ = bags.instances[self.support_]
        self.intercept_ = turn * np.array([result.intercept for result in best])
        if self.kernel == "linear":
            self.coef_ = np.asarray((self.support_vectors_.T @ self.dual_coef_.T).T)
        # From the attributes, not from the solver: ties are then broken as in witness().
        scores = self._instance_scores(bags).reshape(bags.n_instances, -1)
        witnesses = segment_argmax(turn * scores, bags.offsets)
        self.witnesses_ = witnesses[:, 0] if binary else witnesses
        self._store_run(best)

    def _warn(self, best: list[Any]) -> None:
        self._warn_of(best, self._gap_tol, stacklevel=5)

    def _instance_scores(self, bags: Bags) -> np.ndarray:
        if self.kernel == "linear":
            scores = np.asarray(bags.instances @ self.coef_.T)
        else:
            kernel, _ = instance_kernel(
                self.kernel, gamma=self.gamma_, degree=self.degree, coef0=self.coef0
            )
            step = max(1, BLOCK_BYTES // (8 * max(1, len(self.support_))))
            scores = np.concatenate(
                [
                    kernel(bags.instances[first : first + step], self.support_vectors_)
                    @ self.dual_coef_.T
                    for first in range(0, bags.n_instances, step)
                ]
            )
        scores = scores + self.intercept_
        return scores[:, 0] if len(self.intercept_) == 1 else scores
