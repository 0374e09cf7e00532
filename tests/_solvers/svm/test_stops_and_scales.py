"""Reasons why runs stop, and gaps where the objective vanishes."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
import qpsolvers

from milearn._bags.blocks import ArraySource
from milearn._solvers.common.cccp import SolverOptions
from milearn._solvers.common.gram import LinearGram
from milearn._solvers.common.qp import QPProblem, solve_qp
from milearn._solvers.svm.coupled.cccp import equal_subgradient, solve_coupled, top_subgradient
from milearn._solvers.svm.coupled.rows import solve_coupled_rows
from milearn._solvers.svm.losses import Coupling, Hinge, Tube
from milearn._solvers.svm.mi_svm_kernel import BinaryProblem, solve_instance_labels, solve_mi_svm
from milearn._solvers.svm.mi_svm_labels import solve_instance_labels_rows
from milearn._solvers.svm.mi_svm_rows import solve_mi_svm_rows
from milearn._solvers.svm.selection import SelectionSettings, solve_selection
from tests.bags import bag_gram

SETTINGS = SelectionSettings(
    slack_bound=2.0,
    exactly_one=True,
    polish=True,
    n_components=None,
    max_bytes=1e9,
)


def bags(seed=0, n_bags=30, d=3):
    """Bags of which the positive ones have a witness: each run takes several steps."""
    rng = np.random.default_rng(seed)
    offsets = np.r_[0, np.cumsum(rng.integers(1, 8, size=n_bags))]
    X = rng.normal(size=(offsets[-1], d))
    signs = np.where(np.arange(n_bags) % 2, 1.0, -1.0)
    X[offsets[:-1][signs > 0], 0] += 2.0
    return X, offsets, signs, np.ones(n_bags)


def problem(weights=1.0):
    X, offsets, signs, ones = bags()
    return BinaryProblem(LinearGram(X), offsets, signs, weights * ones)


def run(name, options, targets=None):
    X, offsets, signs, ones = bags()
    loss = Hinge(signs, ones) if targets is None else Tube(targets, ones, nu=0.5)
    coupling, source = Coupling("l1", 0.3 * ones), ArraySource(X, offsets)
    if name == "mi_svm":
        return solve_mi_svm(problem(), "bag", None, options)
    if name == "mi_svm_rows":
        return solve_mi_svm_rows(
            source, Hinge(signs, ones), "bag", "mean", replace(options, tol=1e-6)
        )
    labels = np.repeat(signs, np.diff(offsets))
    if name == "labels":
        return solve_instance_labels(problem(), labels, options)
    if name == "labels_rows":
        return solve_instance_labels_rows(
            source, Hinge(signs, ones), labels, replace(options, tol=1e-6)
        )
    if name == "selection":
        return solve_selection(problem(), SETTINGS, options)
    if name == "coupled":
        gram = bag_gram(LinearGram(X), offsets, ones, np.ones(len(X)))
        return solve_coupled(gram, loss, coupling, "auto", options)
    return solve_coupled_rows(source, loss, coupling, "set", "auto", replace(options, tol=1e-6))


SOLVERS = ["mi_svm", "mi_svm_rows", "labels", "labels_rows", "selection", "coupled", "coupled_rows"]


@pytest.mark.parametrize("name", SOLVERS)
def test_a_run_that_ends_by_itself_says_so(name):
    result = run(name, SolverOptions(1e-6, 100))
    assert result.stopped == ""
    assert result.converged
    assert result.n_iter == len(result.history) > 1
    assert result.dual_gap <= 1e-6 * max(result.objective, result.objective_scale)


@pytest.mark.parametrize("name", SOLVERS)
def test_a_callback_that_stops_a_run_is_its_reason(name):
    result = run(name, SolverOptions(0.0, 100, on_iteration=lambda number, objective: True))
    assert result.stopped == "callback"
    assert not result.converged
    assert result.n_iter == 1


@pytest.mark.parametrize("name", SOLVERS)
def test_the_limit_of_steps_is_a_reason_of_its_own(name):
    assert run(name, SolverOptions(0.0, 1)).stopped == "max_iter"


@pytest.mark.parametrize("constant", [0.0, 1.0, -250.0])
@pytest.mark.parametrize("name", ["coupled", "coupled_rows"])
def test_a_gap_of_an_objective_of_zero_is_measured_by_the_terms_of_the_loss(name, constant):
    result = run(name, SolverOptions(1e-6, 100), targets=np.full(30, constant))
    assert abs(result.objective) < 1e-9 * max(1.0, abs(constant))
    assert result.intercept == pytest.approx(constant)
    assert result.dual_gap <= 1e-6 * max(abs(result.objective), result.objective_scale)
    assert result.objective_scale == pytest.approx(1e-8 * 30 * max(1.0, abs(constant)))


@pytest.mark.parametrize("factor", [1e-3, 1.0, 1e3])
def test_the_scale_of_an_objective_grows_with_its_weights(factor):
    result = solve_mi_svm(problem(factor), "bag", None, SolverOptions(1e-6, 100))
    assert result.objective_scale == pytest.approx(1e-8 * 30 * factor)
    assert result.dual_gap <= 1e-6 * result.objective


def test_subgradients_of_the_maximum():
    offsets = np.array([0, 2, 5])
    assert equal_subgradient(offsets) == pytest.approx([1 / 2, 1 / 2, 1 / 3, 1 / 3, 1 / 3])
    scores = np.array([1.0, 2.0, 3.0, 0.0, 3.0 + 1e-12])
    assert top_subgradient(scores, offsets) == pytest.approx([0, 1, 1 / 2, 0, 1 / 2])


# -- warnings ------------------------------------------------------------------------------------


def filters_during(monkeypatch, owner, name):
    """The filters of warnings at each call of a function: a changed one holds for all threads."""
    original, seen = getattr(owner, name), []

    def recorded(*args, **kwargs):
        seen.append(list(warnings.filters))
        return original(*args, **kwargs)

    monkeypatch.setattr(owner, name, recorded)
    return seen


def test_backends_run_under_the_filters_of_the_process(monkeypatch):
    box = QPProblem(np.eye(3), np.array([-2.0, 0.5, -1.5]), lb=np.zeros(3), ub=np.ones(3))
    filters = filters_during(monkeypatch, qpsolvers, "solve_problem")
    solve_qp(box)
    assert filters == [warnings.filters]
