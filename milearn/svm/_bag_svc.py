"""BagSVC: support vector classification with kernels between bags."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.svm import SVC, LinearSVC

from .._bags import Bags
from .._compat import StrOptions
from .._fit.threads import fit_context
from .._fit.training_labels import TrainingLabels
from ..base import BagClassifier
from ._bag_svm import BAG_SVM_CONSTRAINTS, BagSVM

__all__ = ["BagSVC"]


class BagSVC(BagSVM, BagClassifier):
    r"""Support vector classification of bags with a kernel between bags, or an average of several.

    .. math::

        \min_{w, b} \; \tfrac12 \|w\|^2 + C \sum_i c_i \, [1 - y_i f(B_i)]_+,
        \qquad f(B) = \langle w, \phi(B) \rangle + b,

    where :math:`c_i` is the weight of a bag and :math:`\langle \phi(B), \phi(B') \rangle` the
    kernel. Of several kernels :math:`K_1, \dots, K_m` over several scalings of the instances the
    kernel is the average of

    .. math::

        \frac{n}{\operatorname{tr}(H K_k H)} \, H K_k H, \qquad H = I - \tfrac1n 1 1^\top,

    each centred in its feature space by the :math:`n` training bags and scaled by their trace.
    One kernel alone is taken as it is. Everything (widths, scalings, means, traces) is learnt on
    the training bags, without their labels, and bags that are there several times count once for
    that. Problems of three or more classes are solved one against one, as
    :class:`~sklearn.svm.SVC` does.

    Parameters
    ----------
    C : float, default=10.0
        Cost of a bag's slack against the norm of w. Must be positive. For texts, use 0.1 to
        1.
    bag_kernel : str, callable or list, default="average"
        The kernel between bags: "mean", "unit_mean", "minmax_laplacian", "statistics",
        "set_median", "mind", "mind_rows", "miles_rows", "emd" or "graph", which
        :func:`milearn.metrics.bag_kernel` defines; a callable that takes two
        :class:`~milearn.Bags` and returns the matrix of shape (n_left, n_right); or a list of
        these, in which a pair (kernel, weight) gives a kernel its weight. "average" is ["mean",
        "minmax_laplacian", "statistics", "set_median", "mind", "mind_rows", "miles_rows"], and
        ["mean", "minmax_laplacian"] for texts. With "precomputed" ``X`` is the matrix of the
        kernel: between the training bags in ``fit``, of shape (n_bags, n_training_bags) in
        prediction.
    scaling : "auto", list of transformers or None, default="auto"
        Scalings of the instances; every kernel is learnt over each of them. "auto" is z-scores
        clipped at 3 and at 10, minimum to maximum clipped to [0, 1], and quantiles of a normal
        distribution clipped at 3; texts are compared by cosines instead. None takes instances as
        they are.
    width : float, default=1.0
        Factor of the median distance that is the width of each kernel.
    n_components : int, default=None
        Number of training bags, drawn at random, that the kernel is learnt on; w is sought in the
        span of their images (Nystroem's approximation), with the squared hinge loss, by
        :class:`~sklearn.svm.LinearSVC`. For more than a few thousand bags.
    {class_weight: C}
    pos_label : label, default=None
        The class that ``witness`` looks for; ``classes_[1]`` when None.
    tol : float, default=1e-3
        Tolerance of the solver.
    memory : str or object with the interface of joblib.Memory, default=None
        Where kernel matrices are kept, so that a search over ``C`` computes them once per fold.
        They are not kept when None.
    random_state : int, RandomState instance or None, default=None
        Draws the landmarks, and the pairs whose median is taken where there are many; None draws
        the same pairs every time.
    {n_jobs: the scalings}

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The class labels, sorted.
    support_ : ndarray of shape (n_support,)
        Positions of the support vectors among the training bags; not set with ``n_components``.
    dual_coef_ : ndarray of shape (n_classes - 1, n_support)
        As :class:`~sklearn.svm.SVC` has them; not set with ``n_components``.
    coef_ : ndarray of shape (1, n_components) or (n_classes, n_components)
        Weights of the features, with ``n_components``.
    intercept_ : ndarray of shape (n_classes * (n_classes - 1) / 2,)
        Constants, of each pair of classes; of each class with ``n_components``.
    kernels_ : list of (kernel, scaling, weight)
        What the kernel is made of; not set with a precomputed one.
    landmarks_ : ndarray of shape (n_components,)
        Positions of the landmarks among the training bags, with ``n_components``.
    {n_features_in_}
    {feature_names_in_}

    Raises
    ------
    ImportError
        For "emd" without the library POT.
    MemoryError
        Before the fit, where kernel matrices do not fit into the available memory.
    ValueError
        For bad bags, labels or parameters.

    See Also
    --------
    BagSVR : The same for regression.
    MISVC : Looks for the one instance that decides.
    milearn.MIClassifier : Chooses between the two by inner folds.

    Notes
    -----
    Instances count as texts where at most one entry in twenty is not zero, in whatever storage.
    An instance is scored as a bag of one. Every prediction compares with all training bags.
    Kernels "mind" and "emd" are not positive semidefinite on every set of bags; libsvm then finds
    a stationary point.

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
        n_components: int | None = None,
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
            Factor on C by bag; a weight of two equals a bag that is there twice.

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
