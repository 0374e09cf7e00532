"""BLRT: extremely randomised trees that split bags by a proportion of their instances."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from .._bags import Bags
from .._bags.blocks import Block
from .._bags.distinct import bag_fingerprints
from .._constraints import AT_LEAST_ONE, Constraints
from .._fit.threads import fit_context
from .._solvers.baselines.bag_level_trees import (
    BagTrees,
    TreeOptions,
    TreeProblem,
    grow_trees,
    mean_leaf,
    order_statistics,
)
from ._base import BaselineClassifier

# Bags of a tree for max_samples="auto".
_AUTO_BAGS = 2000


class BLRT(BaselineClassifier):
    r"""Bag-level randomised trees (BLRT).

    The trees of this ensemble split bags. A rule :math:`(f, v, r)` at a node sends a bag
    :math:`B` to the right child if more than a proportion r of its instances have a value
    of feature f above v,

    .. math::

        \frac{1}{|B|} \bigl| \{ x \in B : x_f > v \} \bigr| > r.

    With r close to 0, one instance in the bag decides; with r close to 1, all of them do. At each
    node, ``max_features`` features are drawn, and ``n_rules`` rules for each of them: v is
    uniformly distributed between the lowest and the highest value of the feature in the bags of
    the node, and r between 0 and 1. The rule with the largest decrease of the entropy of the
    classes is used. Trees are grown until all leaves are pure. The probability of a class is its
    proportion in the leaf, averaged over trees.

    Read more in the :ref:`User Guide <methods_trees>`.

    .. versionadded:: 0.2.0

    Parameters
    ----------
    n_estimators : int, default=500
        Number of trees.
    max_features : {"sqrt", "log2"}, int, float or None, default="sqrt"
        Number of features drawn at a node: an int is the number, a float is a proportion of the
        features, and None means all features. "sqrt" and "log2" are rounded to the nearest number.
    n_rules : int, default=16
        Number of rules drawn for each of these features.
    max_depth : int, default=None
        Maximum depth of a tree. By default, it is not limited.
    min_weight_fraction_leaf : float, default=0.0
        Minimum proportion of the weight of all bags in a leaf.
    max_samples : int, float, "auto" or None, default="auto"
        Number of bags drawn for a tree without replacement, or their proportion for a float. None
        uses all bags for every tree. "auto" uses at most 2,000.
    class_weight : dict, "balanced" or None, default=None
        Factor on the weights of the bags for each class.
    random_state : int, RandomState instance or None, default=None
        Determines features and rules of each tree.
    n_jobs : int, default=None
        Number of threads over the trees. None means 1 unless in a
        :obj:`joblib.parallel_config` context; -1 means all processors.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The class labels, sorted.
    feature_importances_ : ndarray of shape (n_features,)
        Proportion of each feature in the weighted decrease of the entropy, averaged over trees.
        The sum is 1 unless all trees are single leaves.
    n_features_in_ : int
        Number of features of an instance.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if any.

    See Also
    --------
    MIForest : A random forest on instances.
    milearn.preprocessing.BagStatistics : Rows for
        :class:`~sklearn.ensemble.ExtraTreesClassifier`.

    Notes
    -----
    The parameters of [1]_ are "default settings" for all data sets. The paper was not available
    when this class was written. The rules, the entropy, ``max_features="sqrt"`` and 16 rules for
    each feature are those of the implementation by its authors (BLRT.jl), which grows 100 trees by
    default. There are two differences: more features are drawn if no rule separates any bags, where
    theirs makes a leaf; and a rule counts values above v, where theirs counts the others.

    Values are sorted once within each bag, so that a rule takes one comparison per bag, whatever
    the number of instances. The sorted values take as much memory as the instances. Rules only
    depend on the order of the values of each feature and on their range, so features do not need to
    be scaled. The score of a bag with two classes is the probability of ``classes_[1]`` minus one
    half. The score of an instance is that of a bag with only this instance.

    References
    ----------
    .. [1] T. Komarek, P. Somol. Multiple Instance Learning with Bag-Level Randomized Trees.
       ECML PKDD 2018.

    Examples
    --------
    >>> from milearn.baselines import BLRT
    >>> from milearn.datasets import make_bags
    >>> bags, y = make_bags(n_bags=80, concept_distance=8.0, random_state=0)
    >>> model = BLRT(100, random_state=0).fit(bags[:60], y[:60])
    >>> model.score(bags[60:], y[60:]) > 0.7
    True
    """

    _parameter_constraints = Constraints(n_rules=[AT_LEAST_ONE])

    _bag_score_is_max = False
    _dtypes = (np.float64, np.float32)
    _trees: BagTrees
    feature_importances_: np.ndarray

    def __init__(
        self,
        n_estimators: int = 500,
        *,
        max_features: Any = "sqrt",
        n_rules: int = 16,
        max_depth: int | None = None,
        min_weight_fraction_leaf: float = 0.0,
        max_samples: int | float | str | None = "auto",
        class_weight: Any = None,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_estimators = n_estimators
        self.max_features = max_features
        self.n_rules = n_rules
        self.max_depth = max_depth
        self.min_weight_fraction_leaf = min_weight_fraction_leaf
        self.max_samples = max_samples
        self.class_weight = class_weight
        self.random_state = random_state
        self.n_jobs = n_jobs

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> BLRT:
        """Fit on bags and their labels.

        Parameters
        ----------
        X : bags, see :class:`milearn.Bags`
            Rows of a plain matrix are bags of one instance.
        y : array-like of shape (n_bags,)
            Class of each bag.
        sample_weight : array-like of shape (n_bags,), default=None
            Weight of each bag. A weight of two is equivalent to duplicating the bag.

        Returns
        -------
        self
            The fitted estimator.
        """
        training = self._training(X, y, sample_weight)
        bags, labels = training.bags, training.labels
        seeds = check_random_state(self.random_state).randint(2**31 - 1, size=self.n_estimators)
        statistics = order_statistics(bags.instances, bags.offsets)
        n_bags = self._n_bags(len(bags))
        weight = labels.weights.sum() * n_bags / len(bags)
        options = TreeOptions(
            self._n_drawn(bags.shape[1]),
            self.n_rules,
            self.max_depth,
            self.min_weight_fraction_leaf * weight,
            n_bags,
        )
        order = np.argsort(bag_fingerprints(bags), kind="stable") if n_bags < len(bags) else None
        problem = TreeProblem(statistics, labels.codes, labels.weights, order)
        trees = grow_trees(problem, options, seeds.tolist(), self.n_jobs)
        self._replace_fitted(
            {
                **training.fitted(),
                "_trees": trees,
                "feature_importances_": trees.importances,
            }
        )
        return self

    def _n_bags(self, n_bags: int) -> int:
        """Number of bags of a tree."""
        if self.max_samples is None:
            return n_bags
        if self.max_samples == "auto":
            return min(n_bags, _AUTO_BAGS)
        if isinstance(self.max_samples, Integral):
            return min(n_bags, int(self.max_samples))
        return max(1, round(float(self.max_samples) * n_bags))

    def _n_drawn(self, n_features: int) -> int:
        """Number of features drawn at a node."""
        wanted = self.max_features
        if wanted is None:
            return n_features
        if wanted == "sqrt":
            wanted = round(np.sqrt(n_features))
        elif wanted == "log2":
            wanted = round(np.log2(n_features))
        elif not isinstance(wanted, Integral):
            wanted = wanted * n_features
        return max(1, min(n_features, int(wanted)))

    def predict_proba(self, X: Any) -> np.ndarray:
        """Proportions of the classes in the leaves of each bag, averaged over trees.

        Parameters
        ----------
        X : bags, see :class:`milearn.Bags`
            Bags to predict.

        Returns
        -------
        ndarray of shape (n_bags, n_classes)
            Rows sum to 1. They are not calibrated.
        """
        return self._of_bags(X, self._probabilities)

    def _probabilities(self, bags: Bags) -> np.ndarray:
        parts = bags.source().map(_probabilities_of_block, self._trees)
        return np.concatenate([np.empty((0, len(self.classes_))), *parts])

    def _bag_scores(self, bags: Bags) -> np.ndarray:
        probabilities = self._probabilities(bags)
        return probabilities[:, 1] - 0.5 if len(self.classes_) == 2 else probabilities


def _probabilities_of_block(block: Block, trees: BagTrees) -> np.ndarray:
    return mean_leaf(trees, order_statistics(block.instances, block.offsets))
