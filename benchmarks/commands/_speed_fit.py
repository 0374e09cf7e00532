"""One measured row of ``speed``, in a process of its own."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from milearn import Bags
from milearn.ensemble import DPBoost, LPBoost
from milearn.model_selection import BagShuffleSplit
from milearn.structured import MILSD
from milearn.svm import MISVC, SDPMIL, CoupledMISVC, InstanceMISVC

from ..common.data import load
from ..common.memory import measured
from ..common.peers import PEERS, Peer, hinge_objective

BASELINE = "svc"

_ENOUGH_SECONDS = 0.5
_MAX_FITS = 20
# A fit that takes longer is not done once more for its accuracy.
_LONGEST_FOR_ACCURACY = 30.0
TRAIN_SHARE = 0.75
# What is recorded of a prediction.
PREDICTED = ("cpu_seconds", "wall_seconds", "peak_mb")


class _InstanceSVC:
    """One SVC on all instances, each with the label of its bag; the highest instance decides."""

    def __init__(self, kernel: str, gamma: float, C: float) -> None:
        self.svc = SVC(kernel=kernel, gamma=gamma, C=C)

    def fit(self, bags: Bags, y: np.ndarray) -> _InstanceSVC:
        self.svc.fit(bags.instances, y[bags.bag_index])
        return self

    def predict(self, bags: Bags) -> np.ndarray:
        return np.maximum.reduceat(self.svc.predict(bags.instances), bags.offsets[:-1])


class _CostOfMean(MILSD):
    """MILSD divides C by the number of bags: multiplied before, the problem is that of MISVC."""

    def fit(self, X: Bags, y: np.ndarray) -> _CostOfMean:
        C, self.C = self.C, self.C * len(X)
        super().fit(X, y)
        self.C = C
        return self


@dataclass(frozen=True)
class Row:
    """One of our rows.

    Attributes
    ----------
    title : str
        As it is printed.
    build : callable
        ``build(kernel, gamma, C)`` makes an estimator with ``fit`` and ``predict`` on bags.
    kernels : tuple of str
        The tables that it stands in; ``"none"`` for a method without a kernel.
    problem : str or None
        What it minimises, as :func:`benchmarks.common.peers.hinge_objective` calls it.
    goal : dict of float
        Maximum cost of a fit, in fits of the baseline, by kernel.
    """

    title: str
    build: Callable[[str, float, float], Any]
    kernels: tuple[str, ...] = ("linear", "rbf")
    problem: str | None = None
    goal: dict[str, float] = field(default_factory=dict)


def _misvc(slack: str) -> Callable[[str, float, float], Any]:
    return lambda kernel, gamma, C: MISVC(kernel=kernel, gamma=gamma, C=C, slack=slack)


def _without_coupling(bag_kernel: str, kernel: str, gamma: float, C: float) -> CoupledMISVC:
    return CoupledMISVC(kernel=kernel, gamma=gamma, C=C, coupling=0.0, bag_kernel=bag_kernel)


OURS: dict[str, Row] = {
    BASELINE: Row(
        "baseline: one SVC, inherited labels",
        lambda kernel, gamma, C: _InstanceSVC("linear" if kernel == "none" else kernel, gamma, C),
        kernels=("linear", "rbf", "none"),
    ),
    "misvc-l1": Row(
        "CoupledMISVC, coupling 0.1",
        lambda kernel, gamma, C: CoupledMISVC(kernel=kernel, gamma=gamma, C=C, coupling=0.1),
    ),
    **{
        problem: Row(
            f"CoupledMISVC, coupling 0, {bag_kernel}",
            partial(_without_coupling, bag_kernel),
            problem=problem,
        )
        for problem, bag_kernel in (("setkernel", "normalized_set"), ("setkernel-sum", "set"))
    },
    "misvc-instance": Row(
        "MISVC, instance slack",
        _misvc("instance"),
        problem="misvc-instance",
        goal={"linear": 1.0, "rbf": 2.5},
    ),
    "misvc-bag": Row(
        "MISVC, bag slack", _misvc("bag"), problem="misvc-bag", goal={"linear": 2.0, "rbf": 4.0}
    ),
    "instancemisvc": Row(
        "InstanceMISVC",
        lambda kernel, gamma, C: InstanceMISVC(kernel=kernel, gamma=gamma, C=C),
        problem="instancemisvc",
        goal={"linear": 10.0, "rbf": 10.0},
    ),
    "milsd": Row(
        "MILSD, no graph",
        lambda kernel, gamma, C: _CostOfMean(C=C),
        kernels=("linear",),
        problem="misvc-bag",
    ),
    "sdpmil": Row("SDPMIL", lambda kernel, gamma, C: SDPMIL(kernel=kernel, gamma=gamma, C=C)),
    "dpboost": Row("DPBoost", lambda kernel, gamma, C: DPBoost(C=C), kernels=("none",)),
    "lpboost": Row("LPBoost", lambda kernel, gamma, C: LPBoost(C=C), kernels=("none",)),
}


def measure(task: dict[str, Any]) -> dict[str, Any]:
    """CPU time and peak memory of a fit and of a prediction on standardised instances.

    With ``accuracy`` in the task, also the accuracies of one more fit on a part of the bags.
    """
    data = load(task["dataset"])
    bags = data.bags.with_instances(StandardScaler().fit_transform(data.bags.instances))
    split = _split(data.bags, data.y) if task.get("accuracy") else None
    return _of_python(task, bags, data.y, split)


def _split(bags: Bags, y: np.ndarray) -> tuple[Bags, np.ndarray, np.ndarray]:
    """All bags as the training bags among them ask for, and the numbers of these and the others."""
    splitter = BagShuffleSplit(1, train_size=TRAIN_SHARE, random_state=0)
    train, test = next(iter(splitter.split(bags, y)))
    scaler = StandardScaler().fit(bags[train].instances)
    return bags.with_instances(scaler.transform(bags.instances)), train, test


def _of_python(
    task: dict[str, Any],
    bags: Bags,
    y: np.ndarray,
    split: tuple[Bags, np.ndarray, np.ndarray] | None,
) -> dict[str, Any]:
    fit, predict, value = _job(task["method"], task["kernel"], 1.0 / bags.shape[1], task["C"])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        # The first fit imports solver libraries and fills their caches: a few bags take that away.
        few = np.concatenate([np.flatnonzero(y == label)[:3] for label in (0, 1)])
        predict(fit(bags[few], y[few]), bags[few])
        caught.clear()
        fitted, model = measured(lambda: fit(bags, y), enough=_ENOUGH_SECONDS, most=_MAX_FITS)
        categories = dict(Counter(item.category.__name__ for item in caught))
        predicted, _ = measured(
            lambda: predict(model, bags), enough=_ENOUGH_SECONDS, most=_MAX_FITS
        )
        result = {
            **fitted,
            **{f"predict_{name}": predicted[name] for name in PREDICTED},
            "objective": value(model, bags, y),
            "n_iter": _plain(getattr(model, "n_iter_", None)),
            "warnings": categories,
        }
        if split is not None and fitted["wall_seconds"] < _LONGEST_FOR_ACCURACY:
            scaled, train, test = split
            model = fit(scaled[train], y[train])
            for side, part in (("train", train), ("test", test)):
                right = predict(model, scaled[part]) == y[part]
                result[f"{side}_accuracy"] = float(np.mean(right))
    return result


def _job(method: str, kernel: str, gamma: float, C: float) -> tuple[Any, Any, Any]:
    """How to fit the row's model, to predict with it, and to get the value of its objective."""
    if method in PEERS:
        return _job_of_peer(PEERS[method], kernel, gamma, C)
    row = OURS[method]
    return (
        lambda bags, y: row.build(kernel, gamma, C).fit(bags, y),
        lambda model, bags: model.predict(bags),
        lambda model, bags, y: _plain(getattr(model, "objective_", None)),
    )


def _job_of_peer(peer: Peer, kernel: str, gamma: float, C: float) -> tuple[Any, Any, Any]:
    def fit(bags: Bags, y: np.ndarray) -> Any:
        return peer.fit(list(bags), 2 * y - 1, kernel, gamma, C)

    def predict(model: Any, bags: Bags) -> np.ndarray:
        return (peer.predict(model, list(bags)) > 0).astype(int)

    def value(model: Any, bags: Bags, y: np.ndarray) -> float | None:
        if peer.solution is None or peer.problem is None:
            return None
        square_norm, scores = peer.solution(model, bags)
        return hinge_objective(square_norm, scores, bags, y, C, peer.problem)

    return fit, predict, value


def _plain(value: Any) -> Any:
    return None if value is None else np.asarray(value).tolist()
