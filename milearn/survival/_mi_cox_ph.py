"""Proportional hazards of bags, by the concave-convex procedure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from .._bags import Bags
from .._bags.blocks import width_of
from .._bags.segments import segment_mean
from .._compat import CallbackSupport, StrOptions, with_callbacks
from .._constraints import AUTO_OR_POSITIVE, Constraints
from .._fit.multi_start import (
    MultiStart,
    attributes_of,
    drawn_rows,
    given_rows,
    warn_of_stops,
)
from .._fit.outcomes import validate_outcomes
from .._fit.threads import fit_context
from .._fit.validation import STORED_FLOATS, in_order, validate_sample_weight
from .._kernels.centring import centred
from .._solvers.common.cccp import SolverOptions, precision
from .._solvers.common.passes import highest, instance_scores
from .._solvers.survival.likelihood import PartialLikelihood
from .._solvers.survival.passes import (
    CoxProblem,
    CoxStart,
    screened_starts,
    solve_cox_maximum,
)
from ..base import BagValues
from ..metrics import concordance_index

# Gap of a step for many instances: a hundredth of what a model gains on the constant one.
_COARSE = 5e-5


class MICoxPH(CallbackSupport, BagValues):
    r"""Cox model whose bag risk is the risk of its highest-scoring instance.

    The hazard of a bag at time t is :math:`h_0(t) \exp f(B_i)`, with the highest score of its
    instances, :math:`f(B_i) = \max_k \langle w, x_{ik} \rangle`. The problem is Cox's partial
    likelihood [1]_ with a ridge penalty,

    .. math::

        \min_w \; \tfrac12 \|w\|^2 + C \sum_{i: \text{event}} c_i \Bigl( \log \sum_{j: t_j \ge t_i}
        c_j e^{f(B_j)} - f(B_i) \Bigr),

    where :math:`c_i` is the weight of a bag. The :term:`CCCP` finds a stationary point, which
    depends on ``init`` [2]_. With ``pooling="mean"`` the score is the mean instance score,
    and the problem is convex.

    Read more in the :ref:`User Guide <tutorial_survival>`.

    .. versionadded:: 0.2.0

    Parameters
    ----------
    C : float, default=1.0
        Cost of the losses relative to the norm of w. Must be positive. It is 1 / ``alpha`` of
        scikit-survival's ``CoxPHSurvivalAnalysis``.
    pooling : {"max", "mean"}, default="max"
        Whether the score of a bag is the highest or the mean score of its instances.
    ties : {"breslow", "efron"}, default="breslow"
        Approximation for events at the same time [3]_.
    init : {"auto", "mean", "random"} or array-like of shape (n_bags,), default="auto"
        Instance that represents each bag in the first step: the highest one under the model of the
        means, or of random instances, or a given row of ``X.instances``. "auto" compares several
        starts.
    n_init : int, default=1
        Number of starts; those after the first are random. The lowest objective is kept.
    tol : float or "auto", default="auto"
        Relative duality gap at which to stop. "auto" is 1e-6, and 5e-5 if instances times features
        exceed two million.
    max_iter : int, default=100
        Maximum number of steps.
    random_state : int, RandomState instance or None, default=None
        Determines random starts.
    n_jobs : int, default=None
        Number of parallel jobs over starts. None means 1 unless in a :obj:`joblib.parallel_config`
        context; -1 means all processors.
    verbose : bool or int, default=False
        Whether to print the objective after each step.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        The weights w: log hazard ratios for one unit of a feature of the highest instance.
    unique_times_ : ndarray of shape (n_times,)
        Times of the training bags, increasing, in the unit of ``y``.
    cum_baseline_hazard_ : ndarray of shape (n_times,)
        Cumulative baseline hazard at ``unique_times_``, by Breslow's estimator.
    baseline_survival_ : ndarray of shape (n_times,)
        Survival function of a bag with the score zero at ``unique_times_``.
    witnesses_ : ndarray of shape (n_bags,)
        Row of the highest instance of each training bag.
    objective_ : float
        Value of the problem above.
    objective_history_ : ndarray of shape (n_iter_,)
        The value after each step; it never increases.
    start_objectives_ : ndarray of shape (n_starts,)
        The value that each start reached.
    dual_gap_ : float
        Duality gap of the last convex step, in units of the objective.
    n_iter_ : int
        Number of steps.
    converged_ : bool
        Whether the procedure converged.
    n_passes_ : int
        Number of passes over the instances.
    n_features_in_ : int
        Number of features of an instance.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if any.

    Raises
    ------
    ValueError
        If no bag has an event.

    Warns
    -----
    ConvergenceWarning
        If and only if ``converged_`` is False.

    See Also
    --------
    milearn.svm.MISVR : Regression of uncensored values by the highest instance.
    milearn.metrics.concordance_index : The score of the estimator.
    survival_outcomes : Makes the targets.

    Notes
    -----
    Times can have any unit; predictions have the same unit. Targets of scikit-survival are
    accepted.

    Scale the features first. For a kernel, put explicit features before the model, such as
    ``InstanceTransformer(Nystroem())``. Instances can be a memory map or distributed.

    Where few instances decide, a fit from the means ends in a poor minimum. ``init="auto"``
    therefore also starts from instances, as in :class:`milearn.svm.MISVC`.

    References
    ----------
    .. [1] D. R. Cox. Regression models and life-tables. Journal of the Royal Statistical Society B
       34(2), 1972.
    .. [2] P.-M. Cheung, J. T. Kwok. A Regularization Framework for Multiple-Instance Learning.
       ICML 2006.
    .. [3] B. Efron. The efficiency of Cox's likelihood function for censored data. Journal of the
       American Statistical Association 72, 1977.

    Examples
    --------
    >>> import numpy as np
    >>> from milearn import Bags
    >>> from milearn.survival import MICoxPH, survival_outcomes
    >>> rng = np.random.default_rng(0)
    >>> X = Bags(rng.normal(size=(1000, 4)), np.arange(0, 1001, 5))
    >>> risk = np.maximum.reduceat(2 * X.instances[:, 0], X.offsets[:-1])
    >>> time, end = rng.exponential(np.exp(-risk)), rng.exponential(0.2, size=200)
    >>> y = survival_outcomes(time <= end, np.minimum(time, end))
    >>> model = MICoxPH().fit(X[:100], y[:100])
    >>> model.score(X[100:], y[100:]) > 0.7
    True
    >>> model.predict_survival_function(X[100:]).shape == (100, len(model.unique_times_))
    True
    """

    _parameter_constraints = Constraints(
        pooling=[StrOptions({"max", "mean"})],
        ties=[StrOptions({"breslow", "efron"})],
        tol=AUTO_OR_POSITIVE,
    )
    _dtypes = STORED_FLOATS

    def __init__(
        self,
        C: float = 1.0,
        *,
        pooling: str = "max",
        ties: str = "breslow",
        init: Any = "auto",
        n_init: int = 1,
        tol: float | str = "auto",
        max_iter: int = 100,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: bool | int = False,
    ) -> None:
        self.C = C
        self.pooling = pooling
        self.ties = ties
        self.init = init
        self.n_init = n_init
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    @with_callbacks
    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> MICoxPH:
        """Fit on bags and their outcomes.

        Parameters
        ----------
        X : bags, see :class:`milearn.Bags`
            Rows of a plain matrix are bags of one instance.
        y : structured array of shape (n_bags,)
            Whether the event of each bag was observed, and when, see :func:`survival_outcomes`.
        sample_weight : array-like of shape (n_bags,), default=None
            Weights of the bags; a weight of two equals a bag that is there twice.

        Returns
        -------
        self
            The fitted estimator.
        """
        bags, noted = self._validate_fit(X)
        events, times = validate_outcomes(self, y, bags)
        weights = validate_sample_weight(sample_weight, bags)
        if not weights[events].any():
            raise ValueError("y holds no event: every bag is censored, or its weight is zero.")
        likelihood = PartialLikelihood(events, times, weights, self.ties)
        runs = MultiStart(self, self.max_iter)
        # Scores may have any origin, as only their differences count.
        training, _ = centred(bags)
        problem = CoxProblem(training.source(n_jobs=runs.n_threads(1)), likelihood, self.C)
        starts = self._starts(bags, problem, weights)
        n_threads = runs.n_threads(len(starts))
        problem = replace(problem, source=training.source(n_jobs=n_threads))
        width = width_of(bags.instance_rows)
        gap_tol = precision(self.tol, bags.n_instances, width, _COARSE)
        options = SolverOptions(gap_tol, self.max_iter)
        problems = [[(problem, start, options) for start in starts]]
        data = {"X": bags, "y": y, "sample_weight": sample_weight}
        results, task = runs.best(solve_cox_maximum, problems, gap_tol=gap_tol, **data)
        [result] = results
        witnesses, _, scores = highest(bags.source(n_jobs=n_threads), result.w[None])
        if self.pooling == "mean":
            scores = bags._mapped(_mean_scores, result.w)
        attained = "objective", "dual_gap", "n_iter", "converged", "n_passes"
        self._replace_fitted(
            {
                **noted,
                **_baseline(likelihood, scores, np.unique(times[weights > 0])),
                **attributes_of(results, *attained, objective_history="history"),
                "start_objectives_": runs.start_objectives,
                "coef_": result.w,
                "witnesses_": witnesses,
                "_bag_score_is_max": self.pooling == "max",
            }
        )
        warn_of_stops(type(self).__name__, results, self.max_iter)
        task.end()
        return self

    def _starts(
        self, bags: Bags, problem: CoxProblem, weights: np.ndarray
    ) -> Sequence[CoxStart | None]:
        """Where the procedure begins; None for the problem of means, which is convex."""
        if self.pooling == "mean":
            return [None]
        rng = check_random_state(self.random_state)
        drawn = [CoxStart(drawn_rows(bags.offsets, rng)) for _ in range(self.n_init)]
        if not isinstance(self.init, str):
            return [CoxStart(given_rows(self.init, bags), held=True), *drawn[1:]]
        if self.init == "auto":
            return [*screened_starts(problem, weights), *drawn[1:]]
        return drawn if self.init == "random" else [CoxStart(), *drawn[1:]]

    def _instance_scores(self, bags: Bags) -> np.ndarray:
        return _scores(bags, self.coef_)

    def _bag_scores(self, bags: Bags) -> np.ndarray:
        if self._bag_score_is_max:
            return super()._bag_scores(bags)
        return _mean_scores(bags, self.coef_)

    # -- functions of time ---------------------------------------------------------------------

    def predict_cumulative_hazard_function(self, X: Any) -> np.ndarray:
        """Cumulative hazard of each bag.

        Parameters
        ----------
        X : bags, see :class:`milearn.Bags`
            Bags to predict.

        Returns
        -------
        ndarray of shape (n_bags, n_times)
            Values at ``unique_times_``, which hold up to the next time.
        """
        risks = self.predict(X)
        with np.errstate(over="ignore"):
            return np.asarray(np.exp(risks[:, None] + self._log_hazard))

    def predict_survival_function(self, X: Any) -> np.ndarray:
        """Probability that a bag is without an event up to a time.

        Parameters
        ----------
        X : bags, see :class:`milearn.Bags`
            Bags to predict.

        Returns
        -------
        ndarray of shape (n_bags, n_times)
            Values at ``unique_times_``, which hold up to the next time.
        """
        return np.asarray(np.exp(-self.predict_cumulative_hazard_function(X)))

    @in_order
    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Concordance index of the risks, see :func:`milearn.metrics.concordance_index`.

        Parameters
        ----------
        X : bags, see :class:`milearn.Bags`
            Test bags.
        y : structured array of shape (n_bags,)
            Their outcomes.
        sample_weight : array-like of shape (n_bags,), default=None
            Weights of the bags.

        Returns
        -------
        float
            Fraction of comparable pairs in the right order.
        """
        return concordance_index(y, self.predict(X), sample_weight=sample_weight)


def _scores(bags: Bags, w: np.ndarray) -> np.ndarray:
    return instance_scores(bags.source(), w[None])[:, 0]


def _mean_scores(bags: Bags, w: np.ndarray) -> np.ndarray:
    return segment_mean(_scores(bags, w), bags.offsets)


def _baseline(
    likelihood: PartialLikelihood, scores: np.ndarray, times: np.ndarray
) -> dict[str, Any]:
    """The fitted attributes of the baseline; hazards are summed by their logarithms."""
    at, logs = likelihood.log_baseline(scores)
    total = np.append(-np.inf, np.logaddexp.accumulate(logs))
    log_hazard = total[np.searchsorted(at, times, side="right")]
    with np.errstate(over="ignore"):
        hazard = np.exp(log_hazard)
    return {
        "unique_times_": times,
        "cum_baseline_hazard_": hazard,
        "baseline_survival_": np.exp(-hazard),
        "_log_hazard": log_hazard,
    }
