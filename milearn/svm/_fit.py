"""The runs of a fit from all starts, and the fitted attributes of the best ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .._bags import Bags
from .._bags.segments import segment_argmax, segment_max
from .._bags.threads import working_threads
from .._fit.multi_start import attributes_of, warn_of_stops
from .._fit.warn import warn_of_constants
from .._solvers.svm.losses import Tube
from ._data import FitData
from ._functions import BagFunction, InstanceFunction

Runs = tuple[list[Any], Any]


def best_runs(data: FitData, starts: Callable[[Any], list[Any]], solve: Callable[..., Any]) -> Runs:
    """The best run of each problem, and the task of the fit.

    ``starts(loss)`` lists the starts of a problem, and ``solve(loss, start, on_iteration)`` returns
    a stationary point.
    """
    with working_threads(data.runs.n_threads(1)):
        problems = [[(loss, start) for start in starts(loss)] for loss in data.losses]
    return data.runs.best(solve, problems, gap_tol=data.options.tol, **data.arguments)


def store(data: FitData, runs: Runs, function: BagFunction, attributes: dict[str, Any]) -> Any:
    """Store the function and attributes; warn of constants and where a run stopped early."""
    (results, task), estimator = runs, data.estimator
    fitted: dict[str, Any] = {
        **data.stored,
        **attributes_of(results, "objective", "dual_gap", "n_iter", "converged"),
        **attributes_of(results, objective_history="history"),
        "start_objectives_": data.runs.start_objectives,
        **attributes,
        "_function": function,
        "_bag_score_is_max": isinstance(function, InstanceFunction),
    }
    loss = data.losses[0]
    targets = loss.targets if isinstance(loss, Tube) else loss.signs
    if isinstance(loss, Tube):
        fitted["tube_half_width_"] = results[0].width
    # By the fitted function and not by the solver's scores, so that ties are broken as in
    # witness().
    witnesses = data.bags._mapped(_witnesses, function, data.sign, gives_rows=True)
    fitted["witnesses_"] = _with_ties(data, witnesses, results)
    estimator._replace_fitted(fitted)
    warn_of_stops(type(estimator).__name__, results, estimator.max_iter)
    used = data.bags if len(data.used) == len(data.bags) else data.bags[data.used]
    warn_of_constants(estimator, used, targets, _bag_scores, function, data.sign)
    task.end()
    return estimator


def _with_ties(data: FitData, witnesses: np.ndarray, results: list[Any]) -> np.ndarray:
    """Witnesses of which those of the last convex problems are kept, to which the gaps belong.

    They differ from the highest instances under the fitted function where instances tie.
    """
    columns = witnesses.reshape(len(witnesses), -1).T
    for column, loss, result in zip(columns, data.losses, results, strict=True):
        if result.witnesses is not None:
            linearised = data.used if isinstance(loss, Tube) else data.used[loss.signs > 0]
            column[linearised] = data.rows[result.witnesses]
    return witnesses


def _witnesses(bags: Bags, function: BagFunction, sign: int) -> np.ndarray:
    found = segment_argmax(sign * function.instance_scores(bags), bags.offsets)
    return found[:, 0] if found.shape[1] == 1 else found


def _bag_scores(bags: Bags, function: BagFunction, sign: int) -> np.ndarray:
    """Scores of bags, times the sign of the classes if they are those of instances."""
    if isinstance(function, InstanceFunction):
        return segment_max(sign * function.instance_scores(bags), bags.offsets)
    return function.bag_scores(bags)
