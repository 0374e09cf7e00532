"""The SVM of a selection, by the dual and by passes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from milearn._bags.segments import segment_argmax
from milearn._solvers.common.cccp import SolverOptions
from milearn._solvers.common.gram import LinearGram
from milearn._solvers.svm.mi_svm_kernel import BinaryProblem
from milearn._solvers.svm.selection import SelectionSettings, _polished, solve_selection
from milearn.datasets import make_bags


@pytest.mark.parametrize("polish", [False, True])
def test_the_svm_of_a_selection_by_passes_is_that_of_the_dual(polish):
    bags, y = make_bags(16, 5, bag_size=(2, 6), flip_y=0.1, random_state=3)
    gram = LinearGram(bags.instances)
    problem = BinaryProblem(gram, bags.offsets, np.where(y == 1, 1.0, -1.0), np.ones(16))
    settings = SelectionSettings(2.0, True, polish, None, np.inf)
    seen = []
    options = SolverOptions(1e-6, 100, on_iteration=lambda *step: seen.append(step))
    dual = solve_selection(problem, settings, options)
    n_dual = len(seen)
    rows = solve_selection(problem, settings, replace(options, tol=1e-7), bags.source())
    assert rows.objective == pytest.approx(dual.objective, rel=1e-5)
    assert rows.history[0] == pytest.approx(dual.history[0], rel=1e-5)
    np.testing.assert_array_equal(rows.selected, dual.selected)
    np.testing.assert_allclose(rows.relaxation.eta, dual.relaxation.eta)
    w = bags.instances.T @ dual.svm.coef
    np.testing.assert_allclose(rows.svm.w, w, atol=1e-2)
    if polish:
        scores = bags.instances @ rows.svm.w
        assert (rows.selected == segment_argmax(scores, bags.offsets)[y == 1]).all()
    assert rows.svm.n_passes > 1
    # Each step is reported once, the first with the objective of the selection.
    assert [step for step, _ in seen[:n_dual]] == list(range(1, dual.n_iter + 1))
    assert seen[0][1] == dual.history[0]


def test_the_value_of_a_selection_has_the_weights_of_its_bags():
    """1/2 |w|^2 plus the weighted hinge losses, at its best intercept, from the scores alone."""
    bags, y = make_bags(16, 5, bag_size=(2, 6), flip_y=0.1, random_state=3)
    signs, weights = np.where(y == 1, 1.0, -1.0), np.linspace(0.2, 3.0, 16)
    problem = BinaryProblem(LinearGram(bags.instances), bags.offsets, signs, weights)
    settings = SelectionSettings(2.0, True, False, None, np.inf)
    found = solve_selection(problem, settings, SolverOptions(1e-6, 100))
    used = signs[bags.bag_index] < 0
    used[found.selected] = True
    w, owner = bags.instances.T @ found.svm.coef, bags.bag_index[used]
    scores = bags.instances[used] @ w
    intercepts = (signs[owner] - scores)[:, np.newaxis]
    losses = np.maximum(0.0, 1.0 - signs[owner] * (scores + intercepts)) @ weights[owner]
    assert found.objective == pytest.approx(0.5 * w @ w + losses.min(), rel=1e-9)


def test_a_selection_that_is_kept_stops_as_its_polish():
    """The values of both differ by rounding, which must not choose whether the run converged."""
    bags, y = make_bags(8, 2, random_state=0)
    gram, signs = LinearGram(bags.instances), np.where(y == 1, 1.0, -1.0)
    problem = BinaryProblem(gram, bags.offsets, signs, np.ones(8))
    options, settings = SolverOptions(1e-6, 1), SelectionSettings(2.0, True, False, None, np.inf)
    rounded = solve_selection(problem, settings, options)
    for factor in (1.0 - 1e-15, 1.0 + 1e-15):
        run = replace(rounded.svm, objective=factor * rounded.objective, stopped="max_iter")
        polished = _polished(rounded, lambda *_, run=run: run, options, None)
        assert polished.objective == min(run.objective, rounded.objective)
        assert polished.stopped == "max_iter"
    # A callback that stops the second start, whose end is higher.
    runs = iter(
        replace(rounded.svm, objective=factor * rounded.objective, stopped=stopped)
        for factor, stopped in ((0.9, ""), (1.0, "callback"))
    )
    polished = _polished(rounded, lambda *_: next(runs), options, rounded.selected[None])
    assert polished.objective == 0.9 * rounded.objective
    assert polished.stopped == "callback"
