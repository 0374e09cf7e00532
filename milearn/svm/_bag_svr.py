"""BagSVR: support vector regression with kernels between bags."""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.linear_model import Ridge
from sklearn.svm import NuSVR

from .._bags import Bags
from .._compat import Interval
from .._fit.threads import fit_context
from .._fit.validation import validate_labels, validate_sample_weight
from ..base import BagRegressor
from ._bag_svm import BAG_SVM_CONSTRAINTS, BagSVM


class BagSVR(BagSVM, BagRegressor):
    r"""Support vector regression of bags with a kernel between bags, or an average of several.

    .. math::

        \min_{w, b, \epsilon \ge 0} \; \tfrac12 \|w\|^2
        + C \sum_i c_i \bigl( \nu \epsilon + [|y_i - f(B_i)| - \epsilon]_+ \bigr),
        \qquad f(B) = \langle w, \phi(B) \rangle + b,

    where :math:`c_i` is the weight of a bag. The kernel and its average are those of
    :class:`BagSVC`, learnt on the training bags without their values.

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
    {n_jobs: the scalings}

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

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "nu": [Interval(Real, 0.0, 1.0, closed="right")],
        **BAG_SVM_CONSTRAINTS,
    }

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
        learned, attributes = self._learn(bags, targets, weights)
        if learned.rows.projection is None:
            model = NuSVR(nu=self.nu, C=self.C, kernel="precomputed", tol=self.tol)
        else:
            model = Ridge(alpha=0.5 / self.C)
        model.fit(learned.values, targets[learned.positions], sample_weight=learned.weights)
        if learned.rows.projection is None:
            attributes["support_"] = learned.positions[model.support_]
            attributes["dual_coef_"] = model.dual_coef_
        else:
            attributes["coef_"] = model.coef_
        self._replace_fitted(
            {
                **noted,
                **attributes,
                "intercept_": model.intercept_,
                "_rows": learned.rows,
                "_model": model,
            }
        )
        return self

    def _bag_scores(self, bags: Bags) -> np.ndarray:
        return self._model.predict(self._rows(bags))

    def _instance_scores(self, bags: Bags) -> np.ndarray:
        return self._model.predict(self._rows_of_instances(bags))

    _model: Any
