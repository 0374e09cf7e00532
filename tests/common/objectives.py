"""The problems that docstrings state, evaluated from fitted attributes and data alone.

One function for each estimator, written without regard to speed or to how the package computes
it, so that ``objective_`` has something to be equal to.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.metrics.pairwise import pairwise_kernels

from milearn import Bags
from milearn._fit.validation import bag_weights
from milearn.cluster import M3IC
from milearn.structured import MILSD
from milearn.survival import MICoxPH
from milearn.svm import MISVC, SDPMIL, InstanceMISVC
from tests.oracles import blocks_of, maximum_loss, partial_likelihood

# Scores are sums of products: the change of a loss by their rounding, relative to the terms.
_ROUNDING = 1e-11


def stated_objective(
    model: BaseEstimator, bags: Bags, y: np.ndarray, sample_weight: np.ndarray | None = None
) -> tuple[float, float] | None:
    """Value of the problem that the docstring states, and what rounding may change of it.

    Returns
    -------
    (value, rounding) or None
        None where there is no function for the estimator, its setting, or more than two classes.
    """
    evaluate = _EVALUATED.get(type(model))
    if evaluate is None or np.ndim(model.objective_) or getattr(model, "n_components_", None):
        return None
    return evaluate(model, bags, y, sample_weight)


def positive_class(model: BaseEstimator) -> object:
    """The class of which one instance suffices, in a problem of two classes."""
    named = getattr(model, "pos_label", None)
    return model.classes_[1] if named is None else named


def dense_instances(bags: Bags) -> np.ndarray:
    """The instances in float64."""
    X = bags.instances
    return np.asarray(X.toarray() if hasattr(X, "toarray") else X, dtype=np.float64)


def _expansion(model: BaseEstimator, bags: Bags) -> tuple[float, np.ndarray, float]:
    """||w||^2, scores of all instances, and the size of what their rounding is relative to.

    Scores are high for the positive class, as in the problem. Fitted weights belong to decision
    values, which are high for ``classes_[1]``.
    """
    X = dense_instances(bags)
    sign = 1 if positive_class(model) == model.classes_[1] else -1
    if model.kernel == "linear":
        w = sign * np.asarray(model.coef_, dtype=np.float64).ravel()
        b = sign * float(model.intercept_[0])
        return float(w @ w), X @ w + b, float((np.abs(X) @ np.abs(w)).max() + abs(b))
    gram = pairwise_kernels(X, metric=model.kernel, gamma=model.gamma_)
    dual = np.zeros(len(X))
    dual[model.support_] = sign * model.dual_coef_[0]
    b = sign * float(model.intercept_[0])
    # scikit-learn's distances lose what features far from zero leave to their differences.
    lost = 1.0 + model.gamma_ * 4 * float(np.sum(X**2, axis=1).max())
    parts = float((np.abs(gram) @ np.abs(dual)).max() * lost + abs(b))
    return float(dual @ gram @ dual), gram @ dual + b, parts


def weights_of_bags(model: BaseEstimator, y: np.ndarray, given: np.ndarray | None) -> np.ndarray:
    """Weights of the bags, times those of their classes."""
    given = np.ones(len(y)) if given is None else given
    codes = np.searchsorted(model.classes_, y)
    return bag_weights(getattr(model, "class_weight", None), model.classes_, codes, given)


def _maximum(
    model: MISVC, bags: Bags, y: np.ndarray, given: np.ndarray | None
) -> tuple[float, float] | None:
    norm2, scores, parts = _expansion(model, bags)
    weights = weights_of_bags(model, y, given)
    positive = y == positive_class(model)
    total = maximum_loss(scores, bags.offsets, positive, weights, model.slack)
    size = weights @ bags.sizes
    return 0.5 * norm2 + model.C * total, _ROUNDING * model.C * size * parts


def _labels(
    model: InstanceMISVC, bags: Bags, y: np.ndarray, given: np.ndarray | None
) -> tuple[float, float]:
    norm2, scores, parts = _expansion(model, bags)
    weights = weights_of_bags(model, y, given)
    total = 0.0
    for block, label, weight in zip(blocks_of(scores, bags.offsets), y, weights, strict=True):
        if label == positive_class(model):
            # The best label of each instance, and the highest one has to be positive.
            losses = np.minimum(np.maximum(0.0, 1 - block), np.maximum(0.0, 1 + block))
            top = block.argmax()
            losses[top] = max(0.0, 1 - block[top])
            total += weight * losses.sum()
        else:
            total += weight * np.maximum(0.0, 1 + block).sum()
    size = weights @ bags.sizes
    return 0.5 * norm2 + model.C * total, _ROUNDING * model.C * size * parts


def _selection(
    model: SDPMIL, bags: Bags, y: np.ndarray, given: np.ndarray | None
) -> tuple[float, float]:
    norm2, scores, parts = _expansion(model, bags)
    weights = weights_of_bags(model, y, given)
    total = 0.0
    for bag, (block, label) in enumerate(zip(blocks_of(scores, bags.offsets), y, strict=True)):
        if label == positive_class(model):
            total += weights[bag] * max(0.0, 1 - scores[model.selected_[bag]])
        else:
            total += weights[bag] * np.maximum(0.0, 1 + block).sum()
    size = weights @ bags.sizes
    return 0.5 * norm2 + model.C * total, _ROUNDING * model.C * size * parts


def _clusters(
    model: M3IC, bags: Bags, y: np.ndarray, given: np.ndarray | None
) -> tuple[float, float]:
    W = np.asarray(model.coef_, dtype=np.float64)
    scores = dense_instances(bags) @ W.T
    k = len(W)
    margins = k / (k - 1) * (scores.max(axis=1) - scores.mean(axis=1))
    hinges = [max(0.0, 1 - block.max()) for block in blocks_of(margins, bags.offsets)]
    parts = float((np.abs(dense_instances(bags)) @ np.abs(W).T).max())
    return 0.5 * np.sum(W**2) + model.C * np.mean(hinges), _ROUNDING * model.C * 4 * parts


def _unlinked(
    model: MILSD, bags: Bags, y: np.ndarray, given: np.ndarray | None
) -> tuple[float, float] | None:
    if bags.bag_graph is not None or bags.instance_graph is not None or model.graph != "auto":
        return None
    X = dense_instances(bags)
    sign = 1 if positive_class(model) == model.classes_[1] else -1
    w, b = sign * np.asarray(model.coef_[0], dtype=np.float64), sign * float(model.intercept_[0])
    weights = weights_of_bags(model, y, given)
    signs = np.where(y == positive_class(model), 1.0, -1.0)
    tops = np.array([block.max() for block in blocks_of(X @ w + b, bags.offsets)])
    loss = np.mean(weights * np.maximum(0.0, 1 - signs * tops))
    parts = float((np.abs(X) @ np.abs(w)).max() + abs(b))
    return 0.5 * w @ w + model.C * loss, _ROUNDING * model.C * weights.mean() * parts


def _hazards(
    model: MICoxPH, bags: Bags, y: np.ndarray, given: np.ndarray | None
) -> tuple[float, float]:
    X, w = dense_instances(bags), np.asarray(model.coef_)
    weights = np.ones(len(y)) if given is None else given
    pool = np.max if model.pooling == "max" else np.mean
    risks = np.array([pool(block) for block in blocks_of(X @ w, bags.offsets)])
    total = partial_likelihood(risks, y["event"], y["time"], weights, model.ties)
    parts = float((np.abs(X) @ np.abs(w)).max())
    return 0.5 * w @ w + model.C * total, _ROUNDING * model.C * weights.sum() * parts


_Evaluated = Callable[
    [BaseEstimator, Bags, np.ndarray, np.ndarray | None], tuple[float, float] | None
]
_EVALUATED: dict[type[BaseEstimator], _Evaluated] = {
    MISVC: _maximum,
    InstanceMISVC: _labels,
    SDPMIL: _selection,
    M3IC: _clusters,
    MILSD: _unlinked,
    MICoxPH: _hazards,
}
