"""Other implementations, used when they are importable and never required.

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

__all__ = ["PEERS", "Peer", "hinge_objective", "installed"]


@dataclass(frozen=True)
class Peer:
    """Another implementation of a method.

    Attributes
    ----------
    module : str
        What has to be importable.
    title : str
        As it is printed.
    same_as : str
        The method of the ``speed`` command that solves the same problem.
    fit : callable
        ``fit(blocks, signs, kernel, gamma, C)`` returns the fitted model. ``blocks`` is a list of
        2-D arrays, ``signs`` -1 and +1.
    solution : callable
        ``solution(model, instances)`` returns |w|^2 and the score of every instance.
    """

    module: str
    title: str
    same_as: str
    fit: Callable[..., Any]
    solution: Callable[[Any, np.ndarray], tuple[float, np.ndarray]]


def _fit_misvm(name: str) -> Callable[..., Any]:
    def fit(
        blocks: list[np.ndarray], signs: np.ndarray, kernel: str, gamma: float, C: float
    ) -> Any:
        import misvm

        # scale_C divides C by the number of instances otherwise: another problem. max_iters=50 is
        # what its documentation calls the default; MISVM's own default is 0.
        model = getattr(misvm, name)(
            kernel=kernel, C=C, gamma=gamma, scale_C=False, max_iters=50, verbose=False
        )
        model.fit(blocks, signs)
        return model

    return fit


def _misvm_solution(model: Any, instances: np.ndarray) -> tuple[float, np.ndarray]:
    scores = np.asarray(model.predict(list(instances[:, None, :])), dtype=float).ravel()
    if model._sv_X is None or len(model._sv_X) == 0:
        return 0.0, scores
    # |w|^2 from the scores at the support vectors: sum_i alpha_i y_i (f(x_i) - b).
    weights = np.asarray(model._sv_alphas).ravel() * np.asarray(model._sv_y).ravel()
    support = np.asarray(model._sv_X)
    at_support = np.asarray(model.predict(list(support[:, None, :])), dtype=float).ravel()
    return float(weights @ (at_support - float(model._b))), scores


PEERS: dict[str, Peer] = {
    "misvm-MISVM": Peer("misvm", "misvm.MISVM", "misvc-bag", _fit_misvm("MISVM"), _misvm_solution),
    "misvm-miSVM": Peer(
        "misvm", "misvm.miSVM", "instancemisvc", _fit_misvm("miSVM"), _misvm_solution
    ),
}


def installed() -> dict[str, Peer]:
    """The peers that can be imported here."""
    return {name: peer for name, peer in PEERS.items() if find_spec(peer.module) is not None}


def hinge_objective(
    square_norm: float, scores: np.ndarray, bags: Bags, y: np.ndarray, C: float, problem: str
) -> float:
    """Value of a max-margin problem over bags at a solution.

    Parameters
    ----------
    square_norm : float
        |w|^2.
    scores : ndarray of shape (n_instances,)
        f(x) with the intercept.
    y : ndarray of shape (n_bags,)
        1 for positive bags, 0 for the others.
    problem : {"misvc-bag", "misvc-instance", "instancemisvc"}
        One slack a bag; one slack a positive bag and a negative instance; one slack an instance,
        where an instance of a positive bag has the label that fits its score and the highest one
        is positive.
    """
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
