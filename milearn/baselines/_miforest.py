"""MIForest: a random forest whose instance labels are found by deterministic annealing."""

from __future__ import annotations

from functools import partial
from numbers import Integral
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils import check_random_state

from .._bags import Bags
from .._bags.segments import segment_max
from .._compat import Interval
from .._constraints import AT_LEAST_ONE, POSITIVE, Constraints
from .._fit.threads import fit_context
from .._solvers.baselines.annealed_forest import ForestProblem, anneal_forest, positive_votes
from .._version import refuse_old
from ..base import class_scores
from ._base import BaselineClassifier

__getattr__ = refuse_old(__name__, "_Units")

# Instances up to which max_samples="auto" draws as many bags as there are, and how many are drawn
# above.
_ALL_INSTANCES, _AUTO_INSTANCES = 8192, 4096


class MIForest(BaselineClassifier):
    r"""Random forest with annealed labels of instances (MIForest).

    The labels :math:`y_{ij} \in \{0, 1\}` of instances in positive bags are unknown, but at least
    one per bag is 1. In negative bags all are 0. With the forest's probability p(x) that an
    instance is positive, the forest and the labels minimise

    .. math::

        - \sum_{ij} c_i \bigl( y_{ij} \log p(x_{ij}) + (1 - y_{ij}) \log (1 - p(x_{ij})) \bigr)
        \quad \text{s.t.} \quad \sum_j y_{ij} \ge 1 \text{ in positive bags}.

    Deterministic annealing starts with the labels of the bags [1]_. At decreasing temperatures T,
    labels are drawn for each tree with probability :math:`p^{1/T} / (p^{1/T} + (1 - p)^{1/T})`, and
    the forest is refitted. The most likely instance of each positive bag always has the label 1.

    Read more in the :ref:`User Guide <methods_trees>`.

    .. versionadded:: 0.1.0

    Parameters
    ----------
    n_estimators : int, default=100
        Number of trees.
    n_epochs : int, default=5
        Number of temperatures, each with a fit of all trees. With 0, the forest is only fitted to
        the labels of bags.
    max_temperature : float, default=1.0
        The first temperature. At 1, labels are sampled with the forest's probabilities.
    min_temperature : float, default=0.1
        The last temperature. Temperatures decrease by a constant factor.
    max_depth : int, default=None
        Maximum depth of a tree. By default, it is not limited.
    max_features : {"sqrt", "log2"}, int, float or None, default="sqrt"
        Number of features considered for a split, as in
        :class:`~sklearn.tree.DecisionTreeClassifier`.
    min_samples_leaf : int, default=1
        Minimum number of instances in a leaf.
    min_weight_fraction_leaf : float, default=0.0
        Minimum fraction of the weights of all instances in a leaf.
    max_samples : int, float, "auto" or None, default="auto"
        Number of bags drawn for a tree, or their proportion for a float. None draws as many of each
        class as there are. "auto" does so up to 8,192 instances, and above draws as many bags as
        contain about 4,096 instances.
    class_weight : dict, "balanced" or None, default=None
        Factor on the weights of the bags for each class.
    pos_label : label, default=None
        The class of which one instance makes a bag positive. By default, ``classes_[1]``, with a
        warning for strings. Scores belong to ``classes_[1]`` in both cases. Three or more classes
        are each positive in turn.
    random_state : int, RandomState instance or None, default=None
        Determines bags, labels and features of each tree.
    n_jobs : int, default=None
        Number of threads over the trees. None means 1 unless in a
        :obj:`joblib.parallel_config` context; -1 means all processors.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The class labels, sorted.
    estimators_ : list of DecisionTreeClassifier, or list of lists
        The trees, with the classes 0 and 1; one list per class for three or more classes.
    temperatures_ : ndarray of shape (n_epochs,)
        The temperatures.
    feature_importances_ : ndarray of shape (n_features,)
        Mean of the feature importances of the trees.
    n_features_in_ : int
        Number of features of an instance.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if any.

    Raises
    ------
    ValueError
        If ``min_temperature`` is above ``max_temperature``, or bags, labels or parameters are
        invalid.

    See Also
    --------
    milearn.svm.InstanceMISVC : A support vector machine with a latent label for every instance.
    SingleInstance : For a forest on the labels of bags.

    Notes
    -----
    Each tree is fitted to bags drawn with replacement within their class. The probabilities of
    training instances are computed from all trees, including those that were fitted to them. The
    score of a bag is the highest score of its instances, p(x) minus one half.

    Like scikit-learn's trees, these have single precision: centre features whose values are large
    compared with their differences.

    References
    ----------
    .. [1] C. Leistner, A. Saffari, H. Bischof. MIForests: Multiple-Instance Learning with
       Randomized Trees. ECCV 2010.

    Examples
    --------
    >>> from milearn.baselines import MIForest
    >>> from milearn.datasets import make_bags
    >>> bags, y = make_bags(n_bags=40, random_state=0)
    >>> MIForest(30, random_state=0).fit(bags, y).score(bags, y) > 0.9
    True
    """

    _parameter_constraints = Constraints(
        n_epochs=[Interval(Integral, 0, None, closed="left")],
        max_temperature=[POSITIVE],
        min_temperature=[POSITIVE],
        min_samples_leaf=[AT_LEAST_ONE],
    )

    estimators_: list[Any]

    def __init__(
        self,
        n_estimators: int = 100,
        *,
        n_epochs: int = 5,
        max_temperature: float = 1.0,
        min_temperature: float = 0.1,
        max_depth: int | None = None,
        max_features: Any = "sqrt",
        min_samples_leaf: int = 1,
        min_weight_fraction_leaf: float = 0.0,
        max_samples: int | float | str | None = "auto",
        class_weight: Any = None,
        pos_label: Any = None,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_estimators = n_estimators
        self.n_epochs = n_epochs
        self.max_temperature = max_temperature
        self.min_temperature = min_temperature
        self.max_depth = max_depth
        self.max_features = max_features
        self.min_samples_leaf = min_samples_leaf
        self.min_weight_fraction_leaf = min_weight_fraction_leaf
        self.max_samples = max_samples
        self.class_weight = class_weight
        self.pos_label = pos_label
        self.random_state = random_state
        self.n_jobs = n_jobs

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> MIForest:
        """Fit on bags and their labels.

        Parameters
        ----------
        X : bags, see :class:`milearn.Bags`
            Rows of a plain matrix are bags of one instance.
        y : array-like of shape (n_bags,)
            Class of each bag.
        sample_weight : array-like of shape (n_bags,), default=None
            Weight of the instances of each bag. A weight of two is equivalent to duplicating the
            bag.

        Returns
        -------
        self
            The fitted estimator.
        """
        training = self._training(X, y, sample_weight)
        if self.min_temperature > self.max_temperature:
            raise ValueError(
                f"min_temperature={self.min_temperature} is above max_temperature="
                f"{self.max_temperature}: labels are annealed from the maximum to the minimum."
            )
        merged = training.merged()
        temperatures = np.geomspace(self.max_temperature, self.min_temperature, self.n_epochs)
        instances = training.bags.instances[merged.kept[merged.point_of]]
        units = _units(instances)
        instances = _in_units(instances, units)
        seeds = check_random_state(self.random_state).randint(
            2**31 - 1, size=(len(training.labels.classes), self.n_estimators)
        )
        settings = "max_depth", "max_features", "min_samples_leaf", "min_weight_fraction_leaf"
        make_tree = partial(_tree, **{name: getattr(self, name) for name in settings})
        forests, schedule = [], (temperatures, self.n_jobs)
        for positive, own in zip(training.problems(merged), seeds, strict=False):
            problem = ForestProblem(instances, merged.offsets, positive, merged.weights)
            share = self._share(merged.offsets)
            forests.append(anneal_forest(problem, make_tree, own, *schedule, share=share))
        importances = [tree.feature_importances_ for trees in forests for tree in trees]
        self._replace_fitted(
            {
                **training.fitted(),
                "estimators_": forests if len(forests) > 1 else forests[0],
                "temperatures_": temperatures,
                "_units": units,
                "feature_importances_": np.mean(importances, axis=0),
            }
        )
        return self

    def _share(self, offsets: np.ndarray) -> float:
        """Bags drawn for a tree, as a proportion."""
        if self.max_samples is None:
            return 1.0
        if self.max_samples == "auto":
            n = int(offsets[-1])
            return 1.0 if n <= _ALL_INSTANCES else _AUTO_INSTANCES / n
        if isinstance(self.max_samples, Integral):
            return min(1.0, int(self.max_samples) / (len(offsets) - 1))
        return float(self.max_samples)

    def _probabilities(self, bags: Bags) -> list[np.ndarray]:
        """p of each instance, for each problem."""
        forests = [self.estimators_] if len(self.classes_) == 2 else self.estimators_
        instances = _in_units(bags.instances, self._units)
        return [
            np.mean([positive_votes(tree, instances) for tree in trees], axis=0)
            for trees in forests
        ]

    def _instance_scores(self, bags: Bags) -> np.ndarray:
        return class_scores([p - 0.5 for p in self._probabilities(bags)], self._positive_sign)

    def predict_proba(self, X: Any) -> np.ndarray:
        """Fraction of the trees' votes for each class, for the highest instance of each bag.

        Parameters
        ----------
        X : bags, see :class:`milearn.Bags`
            Bags to predict.

        Returns
        -------
        ndarray of shape (n_bags, n_classes)
            Rows sum to 1. With three or more classes, the highest votes of each class are divided
            by their sum. They are not calibrated.
        """
        return self._of_bags(X, self._votes)

    def _votes(self, bags: Bags) -> np.ndarray:
        tops = [segment_max(p, bags.offsets) for p in self._probabilities(bags)]
        if len(tops) == 1:
            columns = [1.0 - tops[0], tops[0]]
            return np.column_stack(columns if self._positive_sign > 0 else columns[::-1])
        votes = np.column_stack(tops)
        total = votes.sum(axis=1, keepdims=True)
        return np.where(total > 0, votes / np.where(total > 0, total, 1.0), 1.0 / len(tops))


def _units(instances: Any) -> tuple[np.ndarray, np.ndarray]:
    """Origin and width of each feature; the origin is 0 if this is in its range."""
    low, high = (
        each.toarray()[0] if sparse.issparse(each) else each
        for each in (instances.min(axis=0), instances.max(axis=0))
    )
    outside = (low > 0) | (high < 0)
    origin = np.where(outside & (not sparse.issparse(instances)), low, 0.0)
    width = np.maximum(high - origin, origin - low)
    return origin, np.where(width > 0, width, 1.0)


def _in_units(instances: Any, units: tuple[np.ndarray, np.ndarray]) -> Any:
    """Features in units of their range in single precision, which trees have.

    Their values would be rounded, and scikit-learn's trees do not divide values that differ by less
    than 1e-7.
    """
    origin, width = units
    if sparse.issparse(instances):
        return sparse.csr_array(instances.multiply(1.0 / width)).astype(np.float32)
    return ((instances - origin) / width).astype(np.float32)


def _tree(seed: int, **parameters: Any) -> DecisionTreeClassifier:
    return DecisionTreeClassifier(random_state=seed, **parameters)
