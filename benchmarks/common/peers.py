"""Other Python implementations, used when they are importable and never required.

An adapter turns a peer's result into arrays, so that the value of the objective can be computed
here, by one piece of code, for the peer and for milearn: a time is worth reporting only beside
the same objective value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np

from milearn import Bags

# Problems of one SVM on bags, whose scores are those of bags: with the set kernel of
# Gaertner et al. (2002), normalised or not.
BAG_PROBLEMS = ("setkernel", "setkernel-sum")


@dataclass(frozen=True)
class Peer:
    """Another implementation of a method.

    Attributes
    ----------
    modules : tuple of str
        What has to be importable.
    title : str
        As it is printed.
    problem : str or None
        What it minimises, as :func:`hinge_objective` calls it; None for another objective.
    fit : callable
        ``fit(blocks, signs, kernel, gamma, C)`` returns the fitted model. ``blocks`` is a list of
        2-D arrays, ``signs`` -1 and +1.
    predict : callable
        ``predict(model, blocks)`` returns a score per bag, above zero for a positive one.
    solution : callable, default=None
        ``solution(model, bags)`` returns |w|^2 and the scores that the problem is about.
    """

    modules: tuple[str, ...]
    title: str
    problem: str | None
    fit: Callable[..., Any]
    predict: Callable[[Any, list[np.ndarray]], np.ndarray]
    solution: Callable[[Any, Bags], tuple[float, np.ndarray]] | None = None


def _fit_sawmil(name: str, **settings: Any) -> Callable[..., Any]:
    def fit(
        blocks: list[np.ndarray], signs: np.ndarray, kernel: str, gamma: float, C: float
    ) -> Any:
        import sawmil

        chosen = sawmil.Linear() if kernel == "linear" else sawmil.RBF(gamma=gamma)
        # Of its solvers this one is free and was seen to reach the optimum.
        model = getattr(sawmil, name)(C=C, kernel=chosen, solver="osqp", **settings)
        return model.fit(blocks, signs.astype(float))

    return fit


def _sawmil_scores(model: Any, blocks: list[np.ndarray]) -> np.ndarray:
    return np.asarray(model.decision_function(blocks), dtype=float).ravel()


def _sawmil_solution(model: Any, bags: Bags) -> tuple[float, np.ndarray]:
    weights = np.asarray(model.alpha_) * np.asarray(model.y_)
    gram = model.bag_kernel(model.bags_, model.bags_)
    return float(weights @ gram @ weights), _sawmil_scores(model, list(bags))


PEERS: dict[str, Peer] = {
    # Its other normalisers sum over a bag in the kernel and take the mean in a linear model's
    # predictions (0.2.1).
    "sawmil-NSK": Peer(
        ("sawmil", "osqp"),
        "sawmil.NSK",
        "setkernel",
        _fit_sawmil("NSK", normalizer="featurespace", scale_C=False),
        _sawmil_scores,
        _sawmil_solution,
    ),
    "sawmil-sMIL": Peer(
        ("sawmil", "osqp"), "sawmil.sMIL", None, _fit_sawmil("sMIL"), _sawmil_scores
    ),
}


def installed() -> dict[str, Peer]:
    """The peers that can be imported here."""
    return {
        name: peer
        for name, peer in PEERS.items()
        if all(find_spec(module) is not None for module in peer.modules)
    }


def hinge_objective(
    square_norm: float, scores: np.ndarray, bags: Bags, y: np.ndarray, C: float, problem: str
) -> float:
    """Value of a max-margin problem over bags at a solution.

    Parameters
    ----------
    square_norm : float
        |w|^2.
    scores : ndarray of shape (n_instances,), or (n_bags,) for ``BAG_PROBLEMS``
        f(x) with the intercept.
    y : ndarray of shape (n_bags,)
        1 for positive bags, 0 for the others.
    problem : {"misvc-bag", "misvc-instance", "instancemisvc", "setkernel", "setkernel-sum"}
        One slack per bag; one slack per positive bag and negative instance; one slack per
        instance, where an instance of a positive bag has the label that fits its score and the
        highest one is positive; one slack per bag, which is a point.
    """
    if problem in BAG_PROBLEMS:
        losses = [np.maximum(0.0, 1.0 - np.where(y == 1, scores, -scores))]
        return 0.5 * square_norm + C * float(losses[0].sum())
    top = np.maximum.reduceat(scores, bags.offsets[:-1])
    negative = y[bags.bag_index] == 0
    positive_bags = np.maximum(0.0, 1.0 - top[y == 1])
    if problem == "misvc-bag":
        losses = [positive_bags, np.maximum(0.0, 1.0 + top[y == 0])]
    elif problem == "misvc-instance":
        losses = [positive_bags, np.maximum(0.0, 1.0 + scores[negative])]
    else:
        # A label that follows the sign of its score costs [1 - |score|]_+; the highest score of a
        # positive bag has to count as positive even where it is below zero.
        rest = np.maximum(0.0, 1.0 - np.abs(scores[~negative]))
        below = top[y == 1] < 0
        forced = positive_bags[below] - np.maximum(0.0, 1.0 - np.abs(top[y == 1][below]))
        losses = [rest, forced, np.maximum(0.0, 1.0 + scores[negative])]
    return 0.5 * square_norm + C * float(sum(loss.sum() for loss in losses))
