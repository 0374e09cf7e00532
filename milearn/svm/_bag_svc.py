"""BagSVC: support vector classification with kernels between bags."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.svm import SVC, LinearSVC

from .._bags import Bags
from .._compat import StrOptions
from .._fit.threads import fit_context
from .._fit.validation import TrainingLabels
from ..base import BagClassifier
from ._bag_svm import BAG_SVM_CONSTRAINTS, BagSVM


class BagSVC(BagSVM, BagClassifier):
    r"""Support vector classification of bags with a kernel between bags, or an average of several.

    .. math::

        \min_{w, b} \; \tfrac12 \|w\|^2 + C \sum_i c_i \, [1 - y_i f(B_i)]_+,
        \qquad f(B) = \langle w, \phi(B) \rangle + b,

    where :math:`c_i` is the weight of a bag and :math:`\langle \phi(B), \phi(B') \rangle` the
    kernel. For several kernels :math:`K_1, \dots, K_m` over several scalings of the instances, the
    kernel is the average of

    .. math::

        \frac{n}{\operatorname{tr}(H K_k H)} \, H K_k H, \qquad H = I - \tfrac1n 1 1^\top,

    each centred in its feature space on the :math:`n` training bags and scaled by the trace. A
    single kernel is used without centring and scaling. Widths, scalings, means and traces are
    learnt on the training bags without their labels; duplicate bags count once. Problems with three
    or more classes are solved one against one, as in :class:`~sklearn.svm.SVC`.

    Parameters
    ----------
    C : float, default=10.0
        Cost of a bag's slack relative to the norm of w. Must be positive. For texts, use 0.1 to 1.
    bag_kernel : str, callable or list, default="average"
        The kernel between bags: "mean", "unit_mean", "minmax_laplacian", "statistics",
        "set_median", "mind", "mind_rows", "miles_rows", "emd" or "graph", as defined in
        :func:`milearn.metrics.bag_kernel`; a callable that takes two :class:`~milearn.Bags` and
        returns the matrix of shape (n_left, n_right); or a list of these, which may contain pairs
        (kernel, weight). "average" is ["mean", "minmax_laplacian", "statistics", "set_median",
        "mind", "mind_rows", "miles_rows"], and ["mean", "minmax_laplacian"] for texts. With
        "precomputed" ``X`` is the kernel matrix: between the training bags in ``fit``, and of shape
        (n_bags, n_training_bags) in prediction.
    scaling : "auto", list of transformers or None, default="auto"
        Scalings of the instances; every kernel is learnt over each of them. "auto" uses four
        scalings: z-scores clipped at 3 and at 10, minimum to maximum clipped to [0, 1], and
        quantiles of a normal distribution clipped at 3. Texts are not scaled but compared by
        cosines. None uses instances without scaling.
    width : float, default=1.0
        The width of each kernel as a multiple of the median distance.
    n_components : int, "auto" or None, default="auto"
        Number of training bags, drawn at random, that the kernel is learnt on; w is sought in the
        span of their images (Nystroem's approximation), with the squared hinge loss, by
        :class:`~sklearn.svm.LinearSVC`. None uses all bags and the hinge loss. "auto" is None for
        up to 1,000 bags with up to 20,000 instances, or with any number of instances if the kernels
        compare only one vector for each bag. Otherwise it is 300, or fewer for large bags, down to
        30.
    {class_weight: C}
    pos_label : label, default=None
        The class of the scores for ``witness``; by default, ``classes_[1]``.
    tol : float, default=1e-3
        Tolerance of the solver.
    memory : str or object with the interface of joblib.Memory, default=None
        Used to cache kernel matrices, so that a search over ``C`` computes them once per fold. By
        default, no caching is performed.
    random_state : int, RandomState instance or None, default=None
        Determines the landmarks, and the pairs whose median distance is computed if there are many.
        With None these pairs are the same in every fit.
    {n_jobs: the scalings}

    Attributes
    ----------
    {classes_}
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
    {n_components_}
    {n_features_in_}
    {feature_names_in_}

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
    Instances are treated as texts if at most 5 % of their entries are nonzero, dense or sparse. The
    score of an instance is that of a bag with only this instance. Every prediction computes the
    kernel with all training bags. The kernels "mind" and "emd" are not positive semidefinite on
    every set of bags; libsvm then finds a stationary point.

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
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **BAG_SVM_CONSTRAINTS,
        "class_weight": [StrOptions({"balanced"}), dict, None],
        "pos_label": "no_validation",
    }

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
        learned, attributes = self._learn(bags, bag_codes, costs)
        codes = bag_codes[learned.positions]
        if learned.rows.projection is None:
            model = SVC(C=self.C, kernel="precomputed", tol=self.tol)
            model.fit(learned.values, codes, sample_weight=learned.weights)
            attributes["support_"] = learned.positions[model.support_]
            attributes["dual_coef_"] = model.dual_coef_
        else:
            model = LinearSVC(C=self.C, dual=False, tol=min(self.tol, 1e-4), max_iter=10_000)
            model.fit(learned.values, codes, sample_weight=learned.weights)
            attributes["coef_"] = model.coef_
        self._replace_fitted(
            {
                **noted,
                **attributes,
                "classes_": found.classes,
                "intercept_": model.intercept_,
                "_rows": learned.rows,
                "_model": model,
                "_positive_sign": found.sign,
            }
        )
        return self

    def _bag_scores(self, bags: Bags) -> np.ndarray:
        return self._model.decision_function(self._rows(bags))

    def _instance_scores(self, bags: Bags) -> np.ndarray:
        return self._model.decision_function(self._rows_of_instances(bags))

    _model: Any
