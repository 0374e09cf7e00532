"""The outer loop on problems whose steps are scripted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from milearn._solvers.common.cccp import SolverOptions, cccp


@dataclass
class Scripted:
    objective: float
    dual_gap: float
    linearisation: np.ndarray


def run(objectives, *, states=None, tol=1e-6, max_iter=50, gaps=None, certified=False):
    """Steps that return the given objectives; each call consumes one."""
    calls = []

    def step(linearisation, before, inner_tol):
        number = len(calls)
        calls.append(inner_tol)
        state = number + 1 if states is None else states[number]
        gap = 0.0 if gaps is None else gaps[number]
        return Scripted(objectives[number], gap, np.array([state]))

    result = cccp(step, np.array([0]), SolverOptions(tol, max_iter), 1e-7, certified=certified)
    return result, calls


def test_stops_at_a_fixed_point():
    result, calls = run([5.0, 4.0, 3.0], states=[1, 2, 2])
    assert result.converged
    assert result.n_iter == len(calls) == 3
    assert result.history == [5.0, 4.0, 3.0]


def test_stops_when_the_decrease_is_small():
    result, _ = run([5.0, 4.0, 4.0 - 1e-9, 3.0])
    assert result.converged
    assert result.history == [5.0, 4.0, 4.0 - 1e-9]


def test_a_certified_run_stops_before_a_step_that_lowers_the_objective_by_little():
    gaps = [1e-3, 1e-3, 1e-8, 0.0]
    result, _ = run([5.0, 4.0, 4.0 - 1e-9, 3.0], gaps=gaps, certified=True)
    assert result.converged
    assert result.history == [5.0, 4.0, 4.0]
    # The gap belongs to the step that the point states, which is not the one it came from.
    assert result.point.objective == 4.0
    assert result.dual_gap == pytest.approx(1.1e-8)


def test_an_inexact_step_that_lowers_the_objective_by_little_is_no_end():
    script = {"states": [1, 2, 3, 3], "gaps": [0.0, 0.0, 1e-3, 0.0]}
    result, _ = run([5.0, 4.0, 4.0 - 1e-9, 3.0], **script, certified=True)
    assert result.history == [5.0, 4.0, 4.0 - 1e-9, 3.0]


def test_a_rise_tightens_the_precision_and_repeats_the_step():
    # The second step rises because it is inexact; the tighter one is lower.
    result, calls = run([5.0, 5.1, 4.0, 3.9], states=[1, 2, 2, 2], gaps=[0, 0.2, 0, 0])
    assert calls[:3] == [1e-7, 1e-7, 1e-9]
    assert result.history == [5.0, 4.0, 3.9]


def test_a_rise_by_rounding_does_not_tighten_the_precision():
    result, calls = run([5.0, 5.0 + 1e-14, 4.0], states=[1, 2, 3], gaps=[0.0, 0.2, 0.0])
    assert calls == [1e-7, 1e-7]
    assert result.converged
    assert result.history == [5.0, 5.0]


def test_a_rise_that_stays_keeps_the_point_before():
    result, _ = run([5.0, 5.1], states=[1, 2], gaps=[0.0, 0.0])
    assert result.converged
    assert result.point.objective == 5.0
    assert result.history == [5.0, 5.0]


def test_no_step_is_refused():
    # Its result once had no point, or an infinite gap after one step that was not made.
    with pytest.raises(ValueError, match="no solution without a step"):
        SolverOptions(tol=1e-6, max_iter=0)
