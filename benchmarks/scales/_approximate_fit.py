"""A fit with a number of landmarks: ``python -m benchmarks.scales._approximate_fit '<json>'``.

Prints one line of JSON.
"""

from __future__ import annotations

import json
import sys
import warnings
from typing import Any

import numpy as np
from sklearn.base import is_regressor
from sklearn.metrics import roc_auc_score

from ..common.memory import PeakMemory, Stopwatch, limit_cpu
from ._estimator_fit import make_estimator, noisy_bags, target_of

__all__ = ["measure"]

_WARM_UP_BAGS = 40


def measure(task: dict[str, Any]) -> dict[str, Any]:
    """Time, memory, objective and scores on as many further bags.

    The task names the ``estimator``, the sizes ``n_bags``, ``bag_size`` and ``n_features``,
    ``n_components``, and perhaps ``seconds``, a limit of CPU time.
    """
    n_bags = task["n_bags"]
    sizes = {"bag_size": task["bag_size"], "n_features": task["n_features"]}
    bags, labels = noisy_bags(n_bags=2 * n_bags, **sizes)
    model = make_estimator(task["estimator"]).set_params(n_components=task["n_components"])
    y = target_of(model, labels)
    train, test = slice(0, n_bags), slice(n_bags, None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        few = np.arange(min(n_bags, _WARM_UP_BAGS))
        make_estimator(task["estimator"]).fit(bags[few], y[few])
        limit_cpu(task.get("seconds"))
        with PeakMemory() as memory:
            watch = Stopwatch()
            model.fit(bags[train], y[train])
            fit = watch.seconds("fit_")
        watch = Stopwatch()
        score = model.score(bags[test], y[test])
        predict = watch.seconds("predict_")
        auc = None
        if not is_regressor(model):
            auc = float(roc_auc_score(y[test], model.decision_function(bags[test])))
    objective = getattr(model, "objective_", None)
    return {
        **fit,
        **predict,
        "peak_mib": memory.peak / 2**20,
        "n_components": model.n_components_,
        "objective": None if objective is None else float(objective),
        "score": float(score),
        "auc": auc,
    }


if __name__ == "__main__":
    print(json.dumps(measure(json.loads(sys.argv[1]))))
