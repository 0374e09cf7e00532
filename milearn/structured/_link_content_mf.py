"""LC-MF: linear classifiers on joint factors of content and links."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC

from .._bags import Bags
from .._bags.segments import pooling_matrix
from .._compat import LIBSVM_STEPS
from .._constraints import AT_LEAST_ONE, POSITIVE, Constraints
from .._fit.threads import fit_context
from .._fit.validation import bag_weights, encode_classes, validate_labels
from .._fit.warn import warn_user
from .._solvers.structured.factorisation import FactorOptions, fit_link_content
from ..base import BagEstimator, decided
from ..model_selection._splitters import labelled_bags
from ._graphs import links_of
from ._labels import LabelledScore


class LinkContentMF(LabelledScore, ClassifierMixin, BagEstimator):
    r"""Linear classification on joint factors of content and links (LC-MF).

    This is not a multiple-instance method, but a baseline that uses links. With the matrix
    :math:`X` of the bag means and the bag graph :math:`A`, each divided by its Frobenius norm, the
    factors solve

    .. math::

        \min_{Z, U, V} \; \|A - Z U Z^T\|_F^2 + \alpha \|X - Z V^T\|_F^2
        + \rho \left( \|U\|_F^2 + \|V\|_F^2 + \|Z\|_F^2 \right),

    and a linear support vector machine separates the labelled rows of :math:`Z`. Bags without a
    label also have factors.

    Read more in the :ref:`User Guide <methods_links>`.

    .. versionadded:: 0.1.0

    Parameters
    ----------
    n_components : int, default=50
        Number of factors, at most the number of bags or features.
    C : float, default=1.0
        Cost of a bag's slack in the support vector machine. Above zero.
    content_weight : float, default=1.0
        :math:`\alpha`, the weight of the content relative to the links, both of norm 1. Above zero.
    ridge : float, default=1e-3
        :math:`\rho`, the cost of the factors' squared norms. Above zero.
    tol : float, default=1e-5
        Largest entry of the gradient at which to stop, relative to the root of the objective at
        zero.
    max_iter : int, default=500
        Maximum number of steps of L-BFGS.
    class_weight : dict, "balanced" or None, default=None
        Factor on C for each class.
    unlabeled : label, default=None
        A value of ``y`` that marks bags without a label, in addition to NaN and None.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The class labels, sorted.
    factors_ : ndarray of shape (n_bags, n_components)
        The scaled rows of Z, one for each bag of ``fit``.
    content_factors_ : ndarray of shape (n_features, n_components)
        V, in units of the content as it was given and of ``factors_``.
    link_factors_ : ndarray of shape (n_components, n_components)
        U, in units of the links as they were given and of ``factors_``.
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Weights of the means of new bags.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Constant of the support vector machine.
    transduction_ : ndarray of shape (n_bags,)
        Predicted class of every bag of ``fit``, from its factors and therefore also its links.
    objective_ : float
        Value of the factorisation problem.
    gradient_ : float
        Largest entry of its gradient in Z, in the units of ``tol``.
    n_iter_ : int
        Number of steps of L-BFGS, including the evaluation of the start.
    converged_ : bool
        Whether L-BFGS and the classifier converged.
    n_features_in_ : int
        Number of features of an instance.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if any.

    Raises
    ------
    ValueError
        If the bag graph has a negative or infinite weight, fewer than two classes occur among the
        labelled bags, or ``class_weight`` gives a class a weight of zero.

    Warns
    -----
    ConvergenceWarning
        If L-BFGS did not converge within ``max_iter`` steps, or the classifier within ten million,
        as with a very large C.

    See Also
    --------
    MILSD : A multiple-instance classifier that uses links.

    Notes
    -----
    The method follows the description of [1]_ in [2]_. The norms by which the two parts are
    divided, and the ridge on Z, are additions.

    ``predict`` computes the factors of new bags from their content. It does not use links between
    them and the bags of ``fit``. The method is intended for ``transduction_``.

    The content has no constant, so the origin matters. Centre dense instances, for example by
    ``InstanceTransformer(StandardScaler())``: a mean far from zero takes the norm of the content.

    References
    ----------
    .. [1] S. Zhu, K. Yu, Y. Chi, Y. Gong. Combining content and link for classification using
       matrix factorization. SIGIR 2007.
    .. [2] D. Zhang, Y. Liu, L. Si, J. Zhang, R. D. Lawrence. Multiple Instance Learning on
       Structured Data. NIPS 24, 2011.

    Examples
    --------
    >>> from milearn import Bags
    >>> from milearn.datasets import make_bags
    >>> from milearn.structured import LinkContentMF
    >>> bags, y = make_bags(n_bags=40, random_state=0)
    >>> linked = Bags(bags.instances, bags.offsets, bag_graph=(y[:, None] == y).astype(float))
    >>> model = LinkContentMF(n_components=5).fit(linked, y)
    >>> model.factors_.shape
    (40, 5)
    """

    _parameter_constraints = Constraints(
        n_components=[AT_LEAST_ONE], content_weight=[POSITIVE], ridge=[POSITIVE]
    )

    classes_: np.ndarray
    coef_: np.ndarray
    intercept_: np.ndarray
    _unlabeled: Any

    def __init__(
        self,
        n_components: int = 50,
        C: float = 1.0,
        *,
        content_weight: float = 1.0,
        ridge: float = 1e-3,
        tol: float = 1e-5,
        max_iter: int = 500,
        class_weight: Any = None,
        unlabeled: Any = None,
    ) -> None:
        self.n_components = n_components
        self.C = C
        self.content_weight = content_weight
        self.ridge = ridge
        self.tol = tol
        self.max_iter = max_iter
        self.class_weight = class_weight
        self.unlabeled = unlabeled

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any) -> LinkContentMF:
        """Factorise all bags, and fit a classifier to the labelled ones.

        Parameters
        ----------
        X : bags, see :class:`milearn.Bags`
            With ``bag_graph``. Without it, only the content is factorised.
        y : array-like of shape (n_bags,)
            Missing values (NaN, None) and the value of ``unlabeled`` mark bags without a label.

        Returns
        -------
        self
            The fitted estimator.
        """
        bags, noted = self._validate_fit(X)
        labelled, known = labelled_bags(validate_labels(self, y, bags), self.unlabeled)
        classes, codes, positive = encode_classes(known)
        weights = bag_weights(self.class_weight, classes, codes, np.ones(len(labelled)))
        options = FactorOptions(
            self.n_components, self.content_weight, self.ridge, self.tol, self.max_iter
        )
        links = links_of(bags.bag_graph, len(bags), "bag_graph", "bags")
        model = fit_link_content(links, _means(bags), options)
        tasks = [positive] if positive >= 0 else range(len(classes))
        svms = [
            SVC(C=self.C, kernel="linear", tol=1e-6, max_iter=LIBSVM_STEPS).fit(
                model.Z[labelled], codes == task, sample_weight=weights
            )
            for task in tasks
        ]
        directions = np.vstack([svm.coef_ for svm in svms])
        intercepts = np.concatenate([svm.intercept_ for svm in svms])
        self._replace_fitted(
            {
                **noted,
                "classes_": classes,
                "factors_": model.Z,
                "content_factors_": model.V,
                "link_factors_": model.U,
                "coef_": directions @ model.placement.T,
                "intercept_": intercepts,
                "transduction_": decided(_plain(model.Z @ directions.T + intercepts), classes),
                "objective_": model.objective,
                "gradient_": model.gradient,
                "n_iter_": model.n_iter,
                "converged_": model.converged and not any(svm.fit_status_ for svm in svms),
                "_unlabeled": self.unlabeled,
            }
        )
        if not model.converged:
            warn_user(
                f"LinkContentMF stopped after {model.n_iter} steps with a gradient of "
                f"{model.gradient:.1e} ({model.message}): raise max_iter, tol or ridge.",
                ConvergenceWarning,
            )
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        """Score of each bag from its content; positive values indicate ``classes_[1]``.

        Parameters
        ----------
        X : bags, see :class:`milearn.Bags`
            Bags to predict.

        Returns
        -------
        ndarray of shape (n_bags,), or (n_bags, n_classes) for three or more classes
            Scores of the bags.
        """
        bags = self._checked(X)
        return _plain(np.asarray(_means(bags) @ self.coef_.T) + self.intercept_)

    def predict(self, X: Any) -> np.ndarray:
        """Class of each bag, predicted from its content.

        Parameters
        ----------
        X : bags, see :class:`milearn.Bags`
            Bags to predict.

        Returns
        -------
        ndarray of shape (n_bags,)
            Values of ``classes_``.
        """
        return decided(self.decision_function(X), self.classes_)


def _plain(scores: np.ndarray) -> np.ndarray:
    return scores[:, 0] if scores.shape[1] == 1 else scores


def _means(bags: Bags) -> Any:
    """Mean of the instances of each bag; sparse for sparse instances."""
    return pooling_matrix(bags.offsets) @ bags.instances
