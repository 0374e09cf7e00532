"""BagSVC and BagSVR: support vector machines with kernels between bags."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.linear_model import Ridge
from sklearn.svm import SVC, LinearSVC, NuSVR
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_memory

from .._bags import Bags
from .._bags.distinct import MergedBags, merge_bags
from .._compat import LIBSVM_STEPS, StrOptions
from .._constraints import POSITIVE, Constraints
from .._fit.threads import fit_context
from .._fit.validation import TrainingLabels, validate_labels, validate_sample_weight
from .._fit.warn import warn_user
from .._kernels.learned import LEARNED_KERNELS, compares_instances
from .._kernels.memory import require_memory
from .._solvers.common.features import BAG_LIMITS, auto_components, whitening
from ..base import BagClassifier, BagRegressor
from ._kernel_average import (
    KernelAverage,
    KernelPlan,
    as_kind,
    default_scalings,
    is_text,
    kernel_terms,
    learn_average,
)


def plan_of(bag_kernel: Any, scaling: Any, width: float, text: bool) -> KernelPlan:
    """The kernels and scalings of the parameters, which differ between texts and other data."""
    if scaling == "auto":
        scalings: tuple[Any, ...] = (None,) if text else default_scalings()
    else:
        scalings = (None,) if scaling is None else tuple(scaling)
    if not scalings:
        raise ValueError("scaling is an empty list: name a transformer, or pass None for none.")
    return KernelPlan(kernel_terms(bag_kernel, text), scalings, width, cosine=text)


@dataclass(frozen=True)
class BagRows:
    """Bags as rows: kernel values with the training bags, or features."""

    # None for a precomputed kernel.
    average: KernelAverage | None
    # The column of each training bag, of shape (n_train,), if they are not in order.
    columns: np.ndarray | None
    # Maps kernel values with the landmarks to features, of shape (n_landmarks, n_features).
    projection: np.ndarray | None
    # ``cached(average, bags)`` returns kernel values and caches them.
    cached: Any

    def __call__(self, bags: Bags, keep: bool = True) -> np.ndarray:
        """Rows of shape (n_bags, n_columns); ``keep`` tells whether to use the cache."""
        if self.average is None:
            values = np.asarray(as_kind(bags, text=False).instances)
        else:
            values = (self.cached if keep else kernel_rows)(self.average, bags)
        if self.projection is not None:
            return values @ self.projection
        return values if self.columns is None else values[:, self.columns]


def kernel_rows(average: KernelAverage, bags: Bags) -> np.ndarray:
    """Kernel of bags with the training bags of an average, as a function that can be cached."""
    return average.rows(bags)


# Of the training bags with a weight above zero: their rows, of shape (n_used, n_used) or
# (n_used, n_features), their positions and their weights, after what computes rows of others.
LearnedRows = tuple[BagRows, np.ndarray, np.ndarray, np.ndarray]


def random_landmarks(merged: MergedBags, n_components: int | None, seed: int) -> np.ndarray:
    """Positions among the merged bags of landmarks that are drawn from the distinct ones."""
    chosen = np.random.RandomState(seed).permutation(len(merged.distinct_positions))[:n_components]
    return merged.distinct_positions[np.sort(chosen)]


def bag_rows(
    average: KernelAverage, matrix: np.ndarray, merged: MergedBags, cached: Any = kernel_rows
) -> tuple[BagRows, np.ndarray]:
    """Rows of bags under an average, and those of the merged training bags.

    Parameters
    ----------
    average : KernelAverage
    matrix : ndarray
        The average between the bags that it was learnt on: the distinct ones, or landmarks.
    merged : MergedBags
    cached : callable, default=kernel_rows
        A cached version of :func:`kernel_rows`.
    """
    if len(matrix) < len(merged.distinct_positions):
        rows = BagRows(average, None, whitening(matrix)[0], cached)
        return rows, rows(merged.bags)
    if len(matrix) == len(merged.bags):
        return BagRows(average, None, None, cached), matrix
    inverse = merged.inverse
    return BagRows(average, inverse, None, cached), matrix[np.ix_(inverse, inverse)]


class BagSVM:
    """Mixin: learns the kernel of an estimator's parameters on bags."""

    bag_kernel: Any
    scaling: Any
    width: float
    n_components: int | str | None
    memory: Any
    random_state: Any
    n_jobs: int | None

    _bag_score_is_max = False
    _rows: BagRows
    _model: Any
    _parameter_constraints = Constraints(
        bag_kernel=[StrOptions({"average", "precomputed", *LEARNED_KERNELS}), callable, list],
        scaling=[StrOptions({"auto"}), list, None],
        width=[POSITIVE],
        memory=[str, object],
    )

    @property
    def _precomputed(self) -> bool:
        return isinstance(self.bag_kernel, str) and self.bag_kernel == "precomputed"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.pairwise = self._precomputed
        return tags

    def _learn(
        self, bags: Bags, targets: np.ndarray, weights: np.ndarray
    ) -> tuple[LearnedRows, dict[str, Any]]:
        """Learn the kernel, and compute the rows of the training bags.

        Parameters
        ----------
        bags : Bags
        targets : ndarray of shape (n_bags,)
            Bags that are equal in their instances and targets are merged.
        weights : ndarray of shape (n_bags,)
            Bags of weight zero are ignored.

        Returns
        -------
        learned : LearnedRows
        attributes : dict of fitted attributes
        """
        if self._precomputed:
            return self._given(bags, weights)
        merged = merge_bags(bags, targets, weights)
        text = is_text(merged.bags)
        plan = plan_of(self.bag_kernel, self.scaling, self.width, text)
        n_merged, n_distinct = len(merged.bags), len(merged.distinct_positions)
        n_components = self._components(merged.bags, plan)
        approximated = n_components is not None and n_components < n_distinct
        # Without landmarks the kernels are deterministic, so that they can be cached.
        fixed = self.random_state is None and not approximated
        seed = 0 if fixed else int(check_random_state(self.random_state).randint(2**31 - 1))
        n_columns = int(n_components or 0) if approximated else n_merged
        require_memory(
            24.0 * n_merged * n_columns,
            f"The kernel matrix of {n_merged} x {n_columns} bags",
            "give n_components= a number of landmarks",
        )
        landmarks = merged.distinct_positions
        if approximated:
            landmarks = random_landmarks(merged, n_components, seed)
        distinct = merged.bags[landmarks] if approximated else merged.distinct
        memory = check_memory(self.memory)
        average, matrix = memory.cache(learn_average, ignore=["n_jobs"])(
            plan, as_kind(distinct, text), n_jobs=self.n_jobs, seed=seed
        )
        attributes: dict[str, Any] = {
            "kernels_": [
                (kernel, scaling, weight)
                for scaling in plan.scalings
                for kernel, weight in plan.terms
            ],
            "n_components_": len(landmarks) if approximated else None,
        }
        if approximated:
            attributes["landmarks_"] = merged.positions[landmarks]
        rows, values = bag_rows(average, matrix, merged, memory.cache(kernel_rows))
        return (rows, values, merged.positions, merged.weights), attributes

    def _trained(
        self, bags: Bags, targets: np.ndarray, weights: np.ndarray, exact: Any, primal: Any
    ) -> dict[str, Any]:
        """Fitted attributes of an SVM on kernel values, or of one on explicit features."""
        (rows, values, positions, weights), attributes = self._learn(bags, targets, weights)
        dual = rows.projection is None
        model = exact.set_params(max_iter=LIBSVM_STEPS) if dual else primal
        model.fit(values, targets[positions], sample_weight=weights)
        if dual:
            attributes["support_"] = positions[model.support_]
            attributes["dual_coef_"] = model.dual_coef_
        else:
            attributes["coef_"] = model.coef_
        more = {"intercept_": model.intercept_, "_rows": rows, "_model": model}
        return {**attributes, **more}

    def _bag_scores(self, bags: Bags) -> np.ndarray:
        return self._outputs(self._rows(bags))

    def _instance_scores(self, bags: Bags) -> np.ndarray:
        if self._rows.average is None:
            raise ValueError(
                "Instances have no scores under a precomputed kernel between bags: fit with "
                "bag_kernel= the name of a kernel."
            )
        alone = Bags(bags.instances, np.arange(bags.n_instances + 1))
        return self._outputs(self._rows(alone, keep=False))

    def _outputs(self, rows: np.ndarray) -> np.ndarray:
        return getattr(self._model, "decision_function", self._model.predict)(rows)

    def _components(self, bags: Bags, plan: KernelPlan) -> int | None:
        """The number of landmarks. Kernels of one vector for each bag have only few pairs."""
        limits = BAG_LIMITS
        if all(isinstance(term, str) and not compares_instances(term) for term, _ in plan.terms):
            limits = replace(limits, instances=bags.n_instances, pairs=np.inf)
        return auto_components(self.n_components, len(bags), bags.n_instances, limits)

    def _given(self, bags: Bags, weights: np.ndarray) -> tuple[LearnedRows, dict[str, Any]]:
        if bags.n_instances != len(bags) or bags.shape[0] != bags.shape[1]:
            raise ValueError(
                "bag_kernel='precomputed' needs the square matrix of the kernel between the "
                f"training bags, and X has {bags.n_instances} row(s) in {len(bags)} bag(s) and "
                f"{bags.shape[1]} column(s): pass milearn.metrics.bag_kernel(bags), or name a "
                "kernel."
            )
        used = np.flatnonzero(weights > 0)
        rows = BagRows(None, None if len(used) == len(bags) else used, None, None)
        return (rows, rows(bags[used]), used, weights[used]), {"n_components_": None}


class BagSVC(BagSVM, BagClassifier):
    r"""Support vector classification of bags with a kernel between bags, or an average of several.

    The problem is

    .. math::

        \min_{w, b} \; \tfrac12 \|w\|^2 + C \sum_i c_i \, [1 - y_i f(B_i)]_+,
        \qquad f(B) = \langle w, \phi(B) \rangle + b,

    where :math:`c_i` is the weight of a bag and :math:`\langle \phi(B), \phi(B') \rangle` the
    kernel. Several kernels over several scalings of the instances are averaged, each centred on the
    training bags and scaled by its trace. Labels are not used for the kernel. Three or more classes
    are fitted one against one, as in :class:`~sklearn.svm.SVC`.

    Read more in the :ref:`User Guide <methods_kernels>`.

    .. versionadded:: 0.1.0

    Parameters
    ----------
    C : float, default=10.0
        Cost of a bag's slack relative to the norm of w. Must be positive. For texts, use 0.1 to 1.
    bag_kernel : str, callable or list, default="average"
        Kernel between bags: a name of :func:`milearn.metrics.bag_kernel`, a callable that takes two
        :class:`~milearn.Bags` and returns the matrix, or a list of these or of pairs (kernel,
        weight). "average" is ["mean", "minmax_laplacian", "statistics", "set_median", "mind",
        "mind_rows", "miles_rows"], and ["mean", "minmax_laplacian"] for texts. With "precomputed"
        ``X`` is the kernel matrix, in prediction of shape (n_bags, n_training_bags).
    scaling : "auto", list of transformers or None, default="auto"
        Scalings of the instances; every kernel is learnt over each of them. "auto" uses four:
        z-scores clipped at 3 and at 10, minimum to maximum, and normal quantiles. Texts are not
        scaled. None uses instances without scaling.
    width : float, default=1.0
        The width of each kernel as a multiple of the median distance.
    n_components : int, "auto" or None, default="auto"
        Number of training bags that approximate the kernel (Nystroem's landmarks, with the squared
        hinge loss). None uses all bags. "auto" is None for up to 1,000 bags with up to 20,000
        instances, or if the kernels compare one vector per bag, and at most 300 otherwise.
    class_weight : dict, "balanced" or None, default=None
        Factor on C for each class.
    pos_label : label, default=None
        The class of the scores for ``witness``; by default, ``classes_[1]``.
    tol : float, default=1e-3
        Tolerance of the solver.
    memory : str or object with the interface of joblib.Memory, default=None
        Caches kernel matrices, so that a search over ``C`` computes them once per fold. By default,
        there is no cache.
    random_state : int, RandomState instance or None, default=None
        Determines the landmarks, and the pairs whose median distance is computed if there are many.
    n_jobs : int, default=None
        Number of parallel jobs over the scalings. None means 1 unless in a
        :obj:`joblib.parallel_config` context; -1 means all processors.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The class labels, sorted.
    support_ : ndarray of shape (n_support,)
        Positions of the support vectors among the training bags; not set with landmarks.
    dual_coef_ : ndarray of shape (n_classes - 1, n_support)
        Coefficients as in :class:`~sklearn.svm.SVC`; not set with landmarks.
    coef_ : ndarray of shape (1, n_components_) or (n_classes, n_components_)
        Weights of the features, with landmarks.
    intercept_ : ndarray of shape (n_classes * (n_classes - 1) / 2,)
        Constants for each pair of classes, or for each class with landmarks.
    kernels_ : list of (kernel, scaling, weight)
        The terms of the average; not set for a precomputed kernel.
    landmarks_ : ndarray of shape (n_components_,)
        Positions of the landmarks among the training bags; not set if the kernel is exact.
    n_components_ : int or None
        Number of landmarks; None if the kernel is exact.
    n_features_in_ : int
        Number of features of an instance.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if any.

    Raises
    ------
    ImportError
        For "emd" without the library POT.
    MemoryError
        Before the fit, if kernel matrices do not fit into the available memory.
    ValueError
        For invalid bags, labels or parameters.

    See Also
    --------
    BagSVR : The regressor.
    MISVC : The score of a bag is its highest instance score.
    milearn.MIClassifier : Chooses between the two by cross-validation.

    Notes
    -----
    Instances are treated as texts if at most 5 % of their entries are nonzero. The score of an
    instance is that of a bag with only this instance. Every prediction computes the kernel with all
    training bags. The kernels "mind" and "emd" can be indefinite; libsvm then finds a stationary
    point.

    References
    ----------
    M. Goenen, E. Alpaydin. Multiple Kernel Learning Algorithms. JMLR 12, 2011.
    T. Gaertner, P. A. Flach, A. Kowalczyk, A. J. Smola. Multi-instance kernels. ICML 2002.
    V. Cheplygina, D. M. J. Tax, M. Loog. Multiple Instance Learning with Bag Dissimilarities.
    Pattern Recognition 48, 2015.

    Examples
    --------
    >>> from milearn.datasets import make_bags
    >>> from milearn.svm import BagSVC
    >>> bags, y = make_bags(n_bags=40, random_state=0)
    >>> model = BagSVC().fit(bags, y)
    >>> model.score(bags, y)
    1.0
    """

    _treats_classes_alike = True
    _parameter_constraints = Constraints()

    def __init__(
        self,
        C: float = 10.0,
        *,
        bag_kernel: Any = "average",
        scaling: Any = "auto",
        width: float = 1.0,
        n_components: int | str | None = "auto",
        class_weight: Any = None,
        pos_label: Any = None,
        tol: float = 1e-3,
        memory: Any = None,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.C = C
        self.bag_kernel = bag_kernel
        self.scaling = scaling
        self.width = width
        self.n_components = n_components
        self.class_weight = class_weight
        self.pos_label = pos_label
        self.tol = tol
        self.memory = memory
        self.random_state = random_state
        self.n_jobs = n_jobs

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> BagSVC:
        """Fit on bags and their labels.

        Parameters
        ----------
        X : bags, see :class:`milearn.Bags`
            Rows of a plain matrix are bags of one instance; with ``bag_kernel="precomputed"`` it
            is the kernel matrix.
        y : array-like of shape (n_bags,)
            Class of each bag.
        sample_weight : array-like of shape (n_bags,), default=None
            Factor on C for each bag. A weight of two is equivalent to duplicating the bag.

        Returns
        -------
        self
            The fitted estimator.
        """
        bags, noted = self._validate_fit(X)
        found = TrainingLabels.of(self, y, bags, sample_weight)
        bag_codes, costs = np.zeros(len(bags), dtype=np.intp), np.zeros(len(bags))
        bag_codes[found.used], costs[found.used] = found.codes, found.weights
        exact = SVC(C=self.C, kernel="precomputed", tol=self.tol)
        primal = LinearSVC(C=self.C, dual=False, tol=min(self.tol, 1e-4), max_iter=10_000)
        trained = self._trained(bags, bag_codes, costs, exact, primal)
        if "dual_coef_" in trained and np.ptp(found.weights / found.sample_weights) > 0:
            duals = np.abs(trained["dual_coef_"]).max(axis=0)
            if (duals < (1 - 1e-9) * self.C * costs[trained["support_"]]).all():
                warn_user(
                    f"class_weight has no effect on BagSVC with C={self.C:g}: no bag is within the "
                    "margin, where weights count. Lower C.",
                    UserWarning,
                )
        classes = {"classes_": found.classes, "_positive_sign": found.sign}
        self._replace_fitted({**noted, **trained, **classes})
        return self


class BagSVR(BagSVM, BagRegressor):
    r"""Support vector regression of bags with a kernel between bags, or an average of several.

    .. math::

        \min_{w, b, \epsilon \ge 0} \; \tfrac12 \|w\|^2
        + C \sum_i c_i \bigl( \nu \epsilon + [|y_i - f(B_i)| - \epsilon]_+ \bigr),
        \qquad f(B) = \langle w, \phi(B) \rangle + b,

    where :math:`c_i` is the weight of a bag. The kernel and its average are those of
    :class:`BagSVC`, learnt on the training bags without their values.

    Read more in the :ref:`User Guide <methods_kernels>`.

    .. versionadded:: 0.1.0

    Parameters
    ----------
    nu : float in (0, 1], default=0.5
        Upper bound on the fraction of bags outside the tube, and lower bound on the fraction of
        support vectors.
    C : float, default=10.0
        Cost of deviations relative to the norm of w, in inverse units of y. Must be positive.
    bag_kernel : str, callable or list, default="average"
        The kernel between bags, see :class:`BagSVC`.
    scaling : "auto", list of transformers or None, default="auto"
        Scalings of the instances, see :class:`BagSVC`.
    width : float, default=1.0
        The width of each kernel as a multiple of the median distance.
    n_components : int, "auto" or None, default="auto"
        Number of training bags, drawn at random, that the kernel is learnt on; w is sought in the
        span of their images (Nystroem's approximation), with the squared loss, by
        :class:`~sklearn.linear_model.Ridge` with the penalty 1 / (2 C). None uses all bags and the
        first problem. "auto" depends on the size as in :class:`BagSVC`.
    tol : float, default=1e-3
        Tolerance of the solver.
    memory : str or object with the interface of joblib.Memory, default=None
        Used to cache kernel matrices, see :class:`BagSVC`.
    random_state : int, RandomState instance or None, default=None
        Determines the landmarks and sampled pairs, see :class:`BagSVC`.
    n_jobs : int, default=None
        Number of parallel jobs over the scalings. None means 1 unless in a
        :obj:`joblib.parallel_config` context; -1 means all processors.

    Attributes
    ----------
    support_ : ndarray of shape (n_support,)
        Positions of the support vectors among the training bags; not set with landmarks.
    dual_coef_ : ndarray of shape (1, n_support)
        Coefficients of the support vectors; not set with landmarks.
    coef_ : ndarray of shape (n_components_,)
        Weights of the features, with landmarks.
    intercept_ : ndarray of shape (1,) or float
        The constant b.
    kernels_ : list of (kernel, scaling, weight)
        The terms of the average; not set for a precomputed kernel.
    landmarks_ : ndarray of shape (n_components_,)
        Positions of the landmarks among the training bags; not set if the kernel is exact.
    n_components_ : int or None
        Number of landmarks; None if the kernel is exact.
    n_features_in_ : int
        Number of features of an instance.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if any.

    Raises
    ------
    ImportError
        For "emd" without the library POT.
    MemoryError
        Before the fit, if kernel matrices do not fit into the available memory.
    ValueError
        For invalid bags, values or parameters.

    See Also
    --------
    BagSVC : The classifier.
    MISVR : The value of a bag is its highest instance value.
    milearn.MIRegressor : Chooses between the two by cross-validation.

    References
    ----------
    B. Schoelkopf, A. J. Smola, R. C. Williamson, P. L. Bartlett. New Support Vector Algorithms.
    Neural Computation 12, 2000.

    Examples
    --------
    >>> from milearn.datasets import make_affinity
    >>> from milearn.svm import BagSVR
    >>> X, y = make_affinity(n_bags=60, random_state=0)
    >>> model = BagSVR().fit(X[:40], y[:40])
    >>> model.predict(X[40:]).shape
    (20,)
    """

    _parameter_constraints = Constraints()

    def __init__(
        self,
        *,
        nu: float = 0.5,
        C: float = 10.0,
        bag_kernel: Any = "average",
        scaling: Any = "auto",
        width: float = 1.0,
        n_components: int | str | None = "auto",
        tol: float = 1e-3,
        memory: Any = None,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.nu = nu
        self.C = C
        self.bag_kernel = bag_kernel
        self.scaling = scaling
        self.width = width
        self.n_components = n_components
        self.tol = tol
        self.memory = memory
        self.random_state = random_state
        self.n_jobs = n_jobs

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> BagSVR:
        """Fit on bags and their values.

        Parameters
        ----------
        X : bags, see :class:`milearn.Bags`
            Rows of a plain matrix are bags of one instance; with ``bag_kernel="precomputed"`` it
            is the kernel matrix.
        y : array-like of shape (n_bags,)
            Value of each bag.
        sample_weight : array-like of shape (n_bags,), default=None
            Factor on C for each bag. A weight of two is equivalent to duplicating the bag.

        Returns
        -------
        self
            The fitted estimator.
        """
        bags, noted = self._validate_fit(X)
        targets = validate_labels(self, y, bags, numeric=True)
        weights = validate_sample_weight(sample_weight, bags)
        exact = NuSVR(nu=self.nu, C=self.C, kernel="precomputed", tol=self.tol)
        trained = self._trained(bags, targets, weights, exact, Ridge(alpha=0.5 / self.C))
        self._replace_fitted({**noted, **trained})
        return self
