"""A fit and a prediction with defaults: ``python -m benchmarks.scales._estimator_fit '<json>'``.

Prints one line of JSON. What is known so far is also written to the file ``progress`` of the task,
so that a process that was ended by its limits leaves it behind.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import is_regressor

from milearn import Bags
from milearn.datasets import make_bags
from milearn.survival import survival_outcomes
from milearn.utils import all_estimators

from ..common.memory import PeakMemory, Stopwatch, limit_cpu, limit_memory

__all__ = ["compare", "make_estimator", "measure", "noisy_bags", "target_of"]

# Bags that are predicted to compare settings.
_FRESH_BAGS = 1000
# Bags of a first fit, which imports the libraries of the solvers, and instances of a bag: more
# might be refused there.
_WARM_UP_BAGS, _WARM_UP_SIZE = 40, 10


def noisy_bags(*, n_bags: int, bag_size: int, n_features: int) -> tuple[Bags, np.ndarray]:
    """Bags with one concept at distance 3, a fifth of witnesses, and a tenth of labels flipped."""
    return make_bags(
        n_bags,
        n_features,
        bag_size=bag_size,
        concept_distance=3.0,
        flip_y=0.1,
        random_state=0,
    )


def make_estimator(name: str) -> Any:
    """A public estimator with its defaults and, where it has one, the seed 0."""
    made = dict(all_estimators())[name]()
    seeds = {key: 0 for key in made.get_params(deep=False) if key == "random_state"}
    return made.set_params(**seeds)


def target_of(estimator: Any, labels: np.ndarray) -> np.ndarray:
    """Classes, three grades, noisy numbers or survival times, as the estimator needs."""
    rng = np.random.default_rng(0)
    if hasattr(estimator, "predict_survival_function"):
        times = rng.exponential(np.where(labels == 1, 1.0, 3.0))
        return survival_outcomes(rng.random(len(labels)) < 0.7, times)
    if is_regressor(estimator):
        return labels + 0.3 * rng.normal(size=len(labels))
    if type(estimator).__name__ == "OrdinalMISVC":
        return labels + (rng.random(len(labels)) < 0.3)
    return labels


def measure(task: dict[str, Any]) -> dict[str, Any]:
    """CPU time and peak memory of a fit and of a prediction for the same bags.

    The task names the ``estimator``, the sizes ``n_bags``, ``bag_size`` and ``n_features``, and
    perhaps the limits ``seconds`` (CPU time of the fit, and of the prediction), ``memory`` (MiB of
    memory that is not backed by files) and the file ``progress``.
    """
    known: dict[str, Any] = {"stage": "data"}
    sizes = {name: task[name] for name in ("n_bags", "bag_size", "n_features")}
    bags, labels = noisy_bags(**sizes)
    model = make_estimator(task["estimator"])
    y = target_of(model, labels)
    known["data_mib"] = bags.instances.nbytes / 2**20
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        _warm_up(task["estimator"], bags, y)
        caught.clear()
        limit_memory(task.get("memory"))
        work: list[tuple[str, Callable[[], Any]]] = [("fit", lambda: model.fit(bags, y))]
        apply = getattr(model, "predict", None) or getattr(model, "transform", None)
        if apply is not None:
            work.append(("predict", lambda: apply(bags)))
        for stage, call in work:
            _report(task, known, stage)
            limit_cpu(task.get("seconds"))
            if not _timed(stage, call, known):
                break
        else:
            known["stage"] = "done"
    known["warnings"] = dict(Counter(item.category.__name__ for item in caught))
    return known


def compare(task: dict[str, Any]) -> dict[str, Any]:
    """A classifier with the ``settings`` of the task: fit, objective and accuracy on fresh bags."""
    sizes = {name: task[name] for name in ("bag_size", "n_features")}
    # Another seed would be another concept.
    every, y = noisy_bags(n_bags=task["n_bags"] + _FRESH_BAGS, **sizes)
    order = np.random.default_rng(0).permutation(len(every))
    new, old = order[:_FRESH_BAGS], np.sort(order[_FRESH_BAGS:])
    bags, labels, fresh, truth = every[old], y[old], every[new], y[new]
    model = make_estimator(task["estimator"]).set_params(**task["settings"])
    known: dict[str, Any] = {"stage": "fit"}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        _warm_up(task["estimator"], bags, labels)
        caught.clear()
        limit_cpu(task.get("seconds"))
        _report(task, known, "fit")
        if _timed("fit", lambda: model.fit(bags, labels), known):
            known["accuracy"] = float(np.mean(model.predict(fresh) == truth))
            for name in ("objective_", "lower_bound_"):
                if hasattr(model, name):
                    known[name] = float(getattr(model, name))
    known["warnings"] = dict(Counter(item.category.__name__ for item in caught))
    return known


def _warm_up(name: str, bags: Bags, y: np.ndarray) -> None:
    """A fit on the first instances of the first bags."""
    few = [bag[:_WARM_UP_SIZE] for bag in bags[:_WARM_UP_BAGS]]
    make_estimator(name).fit(Bags.from_list(few), y[: len(few)])


def _timed(stage: str, call: Callable[[], Any], known: dict[str, Any]) -> bool:
    """Measure a call; whether it was not refused."""
    with PeakMemory() as memory:
        watch = Stopwatch()
        try:
            call()
        except (MemoryError, ValueError) as error:
            known["refusal"] = f"{type(error).__name__}: {error}"
        spent = watch.seconds()["cpu_seconds"]
    known[f"{stage}_seconds"] = spent
    known[f"{stage}_peak_mib"] = memory.peak / 2**20
    return "refusal" not in known


def _report(task: dict[str, Any], known: dict[str, Any], stage: str) -> None:
    known["stage"] = stage
    if "progress" in task:
        Path(task["progress"]).write_text(json.dumps(known))


if __name__ == "__main__":
    stated = json.loads(sys.argv[1])
    print(json.dumps(compare(stated) if "settings" in stated else measure(stated)))
