"""MILSD: bags that are linked, or whose instances are."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import check_random_state

from .._bags import Bags
from .._bags.blocks import ArraySource, width_of
from .._bags.segments import segment_argmax, segment_max
from .._compat import CallbackSupport, StrOptions, with_callbacks
from .._constraints import AT_LEAST_ONE, NOT_NEGATIVE, Constraints
from .._fit.multi_start import MultiStart, attributes_of, drawn_rows, judge_gaps, warn_of_stops
from .._fit.threads import fit_context
from .._fit.validation import bag_weights, encode_classes, validate_labels, warn_of_unnamed_positive
from .._solvers.common.cccp import SolverOptions, precision
from .._solvers.structured.edges import Edges, edges_of
from .._solvers.structured.milsd import LinkedSolution, solve_milsd
from .._solvers.structured.problem import LinkedProblem
from .._solvers.svm.losses import Hinge
from .._solvers.svm.mi_svm_rows import solve_mi_svm_rows
from ..base import BagClassifier
from ..model_selection._splitters import labelled_bags
from ._active import ActiveBags
from ._graphs import links_of
from ._labels import LabelledScore
from ._neighbors import knn_bag_graph, spatial_graph


class MILSD(LabelledScore, CallbackSupport, BagClassifier):
    r"""Maximum margin classification of linked bags or bags of linked instances (MILSD).

    With :math:`f(x) = w \cdot x + b` and the score of a bag :math:`f_i = \max_j f(x_{ij})`, the
    problem is [1]_

    .. math::

        \min_{w, b} \; \tfrac12 \|w\|^2
        + \frac{C}{n} \sum_{i \text{ labelled}} a_i [1 - y_i f_i]_+
        + \frac{\mu}{|E|} \sum_{(p, q) \in E} w_{pq}
          \left| \frac{f_p}{\sqrt{d_p}} - \frac{f_q}{\sqrt{d_q}} \right|,

    where :math:`n` counts the labelled bags, :math:`a_i` is the weight of a bag, :math:`d` the
    degree of a node, and the links :math:`E` join bags (B-MILSD), instances (I-MILSD) or both
    (BI-MILSD, with a sum for each). Bags without a label are used through their links only. The
    concave-convex procedure finds a stationary point.

    Read more in the :ref:`User Guide <methods_links>`.

    .. versionadded:: 0.1.0

    Parameters
    ----------
    C : float, default=100.0
        Cost of the mean hinge loss of the labelled bags. Must be positive.
    mu : float, default=10.0
        Cost of the mean difference along a link between bags.
    graph : {"auto", "bag", "instance", "both", "knn", "spatial"} or callable, default="auto"
        "bag", "instance" and "both" use graphs of ``X``, and "auto" uses those that it has. "knn"
        is :func:`knn_bag_graph`. "spatial" is :func:`spatial_graph` of
        ``X.instance_data["coords"]``. A callable takes the bags and returns a graph on them.
    mu_instance : float, default=None
        Cost of the mean difference along a link between instances; by default, ``mu``.
    n_neighbors : int, default=5
        Number of neighbours for "knn" and "spatial"; neighbours at the same distance as the last
        one are added.
    fit_intercept : bool, default=True
        Whether to fit the intercept b, which is not penalised.
    n_init : int, default=1
        Number of starts; those after the first are random. The lowest objective is kept.
    tol : float, default=1e-3
        Relative decrease of the objective at which to stop.
    max_iter : int, default=100
        Maximum number of steps.
    class_weight : dict, "balanced" or None, default=None
        Factor on C for each class.
    pos_label : label, default=None
        The class of which one instance makes a bag positive. By default, ``classes_[1]``, with a
        warning for strings. Scores belong to ``classes_[1]`` in both cases. Three or more classes
        are each positive in turn.
    unlabeled : label, default=None
        Value of ``y`` that marks bags without a label, in addition to NaN and None.
    random_state : int, RandomState instance or None, default=None
        Determines the random starts.
    n_jobs : int, default=None
        Number of parallel jobs over classes and starts. None means 1 unless in a
        :obj:`joblib.parallel_config` context; -1 means all processors.
    verbose : bool or int, default=False
        Whether to print the objective after each step.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The class labels, sorted.
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        The weights w.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        The constant b.
    transduction_ : ndarray of shape (n_bags,)
        Predicted class of every bag of ``fit``, labelled or not.
    witnesses_ : ndarray of shape (n_bags,) or (n_bags, n_classes)
        Row of the highest instance of each bag of ``fit``.
    objective_ : float or ndarray of shape (n_classes,)
        Value of the problem above.
    objective_history_ : ndarray of shape (n_iter_,), or list of ndarray
        The value after each step.
    start_objectives_ : ndarray of shape (n_init,) or (n_classes, n_init)
        The value that each start reached.
    loss_terms_ : ndarray of shape (3,) or (n_classes, 3)
        Mean hinge loss, and mean weighted differences along links of bags and of instances.
    dual_gap_ : float or ndarray of shape (n_classes,)
        Duality gap of the last convex step, in units of the objective.
    n_iter_ : int or ndarray of shape (n_classes,)
        Number of steps.
    converged_ : bool or ndarray of shape (n_classes,)
        Whether the procedure converged.
    n_features_in_ : int
        Number of features of an instance.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if any.

    Raises
    ------
    ValueError
        If a graph or positions are missing, a graph has the wrong shape or a negative weight, or
        all labelled bags have the same class.

    Warns
    -----
    ConvergenceWarning
        If the procedure or the last convex step has not converged.

    See Also
    --------
    milearn.svm.MISVC : The model without a graph, with kernels.
    link_graph, knn_bag_graph, spatial_graph : Make graphs.
    homophily : Fraction of links within a class; a graph can only help if it is high.
    milearn.model_selection.transductive_cross_val_score : Cross-validation that keeps all bags.

    Notes
    -----
    [1]_ also linearises the maxima of negative bags, so its objective can increase. Here they are
    kept. The graph only contains the bags passed to ``fit``, so cross-validation removes all links
    between training and test bags. Prediction does not use links.

    References
    ----------
    .. [1] D. Zhang, Y. Liu, L. Si, J. Zhang, R. D. Lawrence. Multiple Instance Learning on
       Structured Data. NIPS 24, 2011.

    Examples
    --------
    >>> import numpy as np
    >>> from milearn import Bags
    >>> from milearn.datasets import make_bags
    >>> from milearn.structured import MILSD
    >>> bags, y = make_bags(n_bags=40, random_state=0)
    >>> linked = Bags(bags.instances, bags.offsets, bag_graph=y[:, None] == y)
    >>> known = np.where(np.arange(40) % 4 == 0, y, np.nan)  # three labels in four are missing
    >>> model = MILSD().fit(linked, known)
    >>> model.transduction_.shape
    (40,)
    """

    _parameter_constraints = Constraints(
        mu=[NOT_NEGATIVE],
        graph=[StrOptions({"auto", "bag", "instance", "both", "knn", "spatial"}), callable],
        mu_instance=[NOT_NEGATIVE, None],
        n_neighbors=[AT_LEAST_ONE],
        fit_intercept=["boolean"],
    )

    coef_: np.ndarray
    intercept_: np.ndarray
    _unlabeled: Any

    def __init__(
        self,
        C: float = 100.0,
        mu: float = 10.0,
        *,
        graph: Any = "auto",
        mu_instance: float | None = None,
        n_neighbors: int = 5,
        fit_intercept: bool = True,
        n_init: int = 1,
        tol: float = 1e-3,
        max_iter: int = 100,
        class_weight: Any = None,
        pos_label: Any = None,
        unlabeled: Any = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: bool | int = False,
    ) -> None:
        self.C = C
        self.mu = mu
        self.graph = graph
        self.mu_instance = mu_instance
        self.n_neighbors = n_neighbors
        self.fit_intercept = fit_intercept
        self.n_init = n_init
        self.tol = tol
        self.max_iter = max_iter
        self.class_weight = class_weight
        self.pos_label = pos_label
        self.unlabeled = unlabeled
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    @with_callbacks
    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any) -> MILSD:
        """Fit on bags, their graphs, and the labels of some of them.

        Parameters
        ----------
        X : bags, see :class:`milearn.Bags`
            With ``bag_graph``, ``instance_graph`` or both. Rows of a plain matrix are bags of one
            instance.
        y : array-like of shape (n_bags,)
            Missing values (NaN, None) and the value of ``unlabeled`` mark bags without a label.

        Returns
        -------
        self
            The fitted estimator.
        """
        bags, noted = self._validate_fit(X)
        labelled, known = labelled_bags(validate_labels(self, y, bags), self.unlabeled)
        classes, codes, positive = encode_classes(known, self.pos_label)
        warn_of_unnamed_positive(self, classes)
        weights = bag_weights(self.class_weight, classes, codes, np.ones(len(labelled)))
        bag_edges, instance_edges = self._edges(bags)
        # Without links the order does not matter, so a large matrix is not copied.
        wide = bags.shape[1] > bags.n_instances
        linked = bool(len(bag_edges) or len(instance_edges))
        active = ActiveBags(bags, labelled, bag_edges, instance_edges, sort=linked or wide)
        if self.fit_intercept:
            active.center()
        problems = [
            self._problem(active, np.where(codes == task, 1.0, -1.0), weights / len(labelled))
            for task in ([positive] if positive >= 0 else range(len(classes)))
        ]
        rng = check_random_state(self.random_state)
        starts = [[(each, start) for start in self._starts(each, rng)] for each in problems]
        solve = partial(_solve, SolverOptions(self.tol, self.max_iter))
        runs = MultiStart(self, self.max_iter)
        best, task = runs.best(solve, starts, X=bags, y=y)
        sign = -1 if positive == 0 else 1
        fitted = {
            **noted,
            "classes_": classes,
            "_positive_sign": sign,
            "_unlabeled": self.unlabeled,
            "coef_": sign * active.all_features(np.stack([result.w for result in best])),
            "intercept_": sign
            * np.array([result.intercept - result.w @ active.shift for result in best]),
            **attributes_of(best, "objective", "dual_gap", "n_iter", "converged"),
            **attributes_of(best, objective_history="history", loss_terms="risks"),
            "start_objectives_": runs.start_objectives,
        }
        model = copy(self)
        model._replace_fitted(fitted)
        scores = sign * model._instance_scores(bags)
        fitted["witnesses_"] = segment_argmax(scores, bags.offsets)
        fitted["transduction_"] = model._decide(sign * segment_max(scores, bags.offsets))
        self._replace_fitted(fitted)
        warn_of_stops("MILSD", best, self.max_iter)
        task.end()
        return self

    def _edges(self, bags: Bags) -> tuple[Edges, Edges]:
        """The edges of both graphs; empty if their cost is zero."""
        costs = self._costs()[1:]
        sizes = {"bag": len(bags), "instance": bags.n_instances}
        edges = []
        for (name, n), graph, cost in zip(sizes.items(), self._graphs(bags), costs, strict=True):
            # Validate the graph even if its cost is zero.
            links = links_of(graph, n, f"{name}_graph", f"{name}s")
            edges.append(edges_of(links if cost else sparse.csr_array((n, n))))
        return edges[0], edges[1]

    def _graphs(self, bags: Bags) -> tuple[Any, Any]:
        """The graphs on bags and on instances for the parameter ``graph``."""
        if self.graph == "spatial":
            return None, spatial_graph(bags, self.n_neighbors)
        if self.graph == "knn":
            return knn_bag_graph(bags, self.n_neighbors), None
        if callable(self.graph):
            found = self.graph(bags)
            if found is None:
                raise ValueError("graph is a callable that returned None: return a graph on bags.")
            return found, None
        given = {"bag": bags.bag_graph, "instance": bags.instance_graph}
        for name, graph in given.items():
            if self.graph in (name, "both") and graph is None:
                raise ValueError(
                    f"graph={self.graph!r} but the bags have no {name}_graph: pass "
                    f"Bags(..., {name}_graph=...), or graph='auto' to use the graphs that exist."
                )
            if self.graph not in ("auto", "both", name):
                given[name] = None
        return given["bag"], given["instance"]

    def _costs(self) -> tuple[float, float, float]:
        return self.C, self.mu, self.mu if self.mu_instance is None else self.mu_instance

    def _problem(
        self, active: ActiveBags, labelled_signs: np.ndarray, labelled_weights: np.ndarray
    ) -> LinkedProblem:
        signs, weights = np.zeros(len(active)), np.zeros(len(active))
        signs[active.labelled], weights[active.labelled] = labelled_signs, labelled_weights
        return LinkedProblem(
            X=active.instances,
            offsets=active.offsets,
            signs=signs,
            weights=weights,
            costs=np.array(self._costs(), dtype=float),
            bag_edges=active.bag_edges,
            instance_edges=active.instance_edges,
            fit_intercept=bool(self.fit_intercept),
        )

    def _starts(self, problem: LinkedProblem, rng: Any) -> list[np.ndarray | None]:
        drawn = [
            drawn_rows(problem.offsets, rng, problem.linearised) for _ in range(self.n_init - 1)
        ]
        return [None, *drawn]

    def _instance_scores(self, bags: Bags) -> np.ndarray:
        scores = np.asarray(bags.instances @ self.coef_.T) + self.intercept_
        return scores[:, 0] if len(self.intercept_) == 1 else scores


def _solve(
    options: SolverOptions,
    problem: LinkedProblem,
    start: np.ndarray | None,
    on_iteration: Callable[..., bool],
) -> LinkedSolution:
    options = options.watched_by(on_iteration)
    linked = len(problem.bag_edges) or len(problem.instance_edges) or not problem.X.shape[1]
    weighted = (problem.signs != 0) & (problem.weights > 0)
    if linked or not problem.fit_intercept or not weighted.all():
        return solve_milsd(problem, options, start)
    # Without links (and with features) it is MI-SVM, which has a solver of its own.
    loss = Hinge(problem.signs, problem.costs[0] * problem.weights)
    gap_tol = precision("auto", problem.X.shape[0], width_of(problem.X))
    gap_tol = min(options.tol, max(options.tol**2, gap_tol))
    source, first = ArraySource(problem.X, problem.offsets), "auto" if start is None else start
    found = solve_mi_svm_rows(source, loss, "bag", first, replace(options, tol=gap_tol))
    judge_gaps([found], gap_tol)
    return LinkedSolution(
        w=found.w,
        intercept=found.intercept,
        risks=problem.risks(np.asarray(problem.X @ found.w) + found.intercept),
        n_passes=found.n_passes,
        **found.outcome(),
        objective_scale=found.objective_scale,
    )
