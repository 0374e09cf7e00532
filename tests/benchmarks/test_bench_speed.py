"""Measured fits: objective values computed by one piece of code, ratios from rounds."""

from __future__ import annotations

import argparse

import numpy as np
import pytest
from sklearn.svm import SVC

from benchmarks import _speed_fit, peers, speed
from benchmarks.peers import hinge_objective
from milearn import Bags


@pytest.fixture
def bags():
    rng = np.random.default_rng(0)
    return Bags.from_list([rng.normal(size=(size, 3)) for size in (3, 1, 4, 2)])


y = np.array([1, 0, 0, 1])


def test_objectives_are_the_sums_that_they_are_called(bags):
    rng = np.random.default_rng(1)
    for _ in range(20):
        scores = 2 * rng.normal(size=bags.n_instances)
        blocks = np.split(scores, bags.offsets[1:-1])
        hinge = lambda value: max(0.0, 1.0 - value)  # noqa: E731
        positive = sum(hinge(block.max()) for block, label in zip(blocks, y, strict=True) if label)
        by_bag = sum(
            hinge(-block.max()) for block, label in zip(blocks, y, strict=True) if not label
        )
        by_instance = sum(
            hinge(-score)
            for block, label in zip(blocks, y, strict=True)
            if not label
            for score in block
        )
        latent = 0.0
        for block, label in zip(blocks, y, strict=True):
            if label:
                labels = np.where(block > 0, 1, -1)
                labels[np.argmax(block)] = 1
                latent += sum(hinge(s * score) for s, score in zip(labels, block, strict=True))
        expected = {
            "misvc-bag": positive + by_bag,
            "misvc-instance": positive + by_instance,
            "instancemisvc": latent + by_instance,
        }
        for problem, losses in expected.items():
            value = hinge_objective(3.0, scores, bags, y, 2.0, problem)
            assert value == pytest.approx(1.5 + 2.0 * losses)


@pytest.mark.parametrize("problem", ["misvc-bag", "misvc-instance", "instancemisvc"])
def test_our_objective_is_the_one_that_peers_are_held_to(bags, problem):
    model = _speed_fit.build(problem, "linear", 1.0, 1.0).fit(bags, y)
    scores = model.instance_decision_function(bags)
    square_norm = float(np.sum(model.coef_**2))
    value = hinge_objective(square_norm, scores, bags, y, 1.0, problem)
    assert model.objective_ == pytest.approx(value, rel=1e-6)


def test_the_solution_of_a_peer_is_read_from_its_support_vectors(bags):
    fitted = SVC(kernel="linear").fit(bags.instances, y[bags.bag_index])

    class Model:  # the attributes by which misvm keeps its solution
        _sv_X = fitted.support_vectors_
        _sv_y = np.sign(fitted.dual_coef_.T)
        _sv_alphas = np.abs(fitted.dual_coef_.T)
        _b = fitted.intercept_[0]

        def predict(self, blocks):
            return [fitted.decision_function(block).max() for block in blocks]

    square_norm, scores = peers._misvm_solution(Model(), bags.instances)
    assert square_norm == pytest.approx(float(np.sum(fitted.coef_**2)))
    np.testing.assert_allclose(scores, fitted.decision_function(bags.instances))


def test_peers_are_rows_only_where_they_are_installed(monkeypatch):
    monkeypatch.setattr(peers, "find_spec", lambda name: None)
    assert peers.installed() == {}
    monkeypatch.setattr(peers, "find_spec", lambda name: object())
    assert set(peers.installed()) == set(peers.PEERS)


def test_a_fit_is_measured_in_a_process_of_its_own():
    result = speed._fit(
        {"dataset": "concept-tiny", "kernel": "linear", "C": 1.0, "method": "misvc-bag"}, 120
    )
    assert result["seconds"] > 0
    assert result["fits"] >= 1
    assert result["peak_mb"] >= 0
    assert np.isfinite(result["objective"])


def test_a_fit_that_fails_or_takes_too_long_is_an_error_in_words():
    task = {"dataset": "concept-tiny", "kernel": "no kernel", "C": 1.0, "method": "svc"}
    assert "Error" in speed._fit(task, 120)["error"]
    assert speed._fit({**task, "kernel": "linear"}, 0.01)["error"].startswith("not finished after")


def fit_of(seconds, objective=None, peak=5.0):
    return {"seconds": seconds, "peak_mb": peak, "objective": objective, "warnings": {}}


ROUNDS = [
    {
        "svc": fit_of(floor),
        "misvc-instance": fit_of(0.9),
        "misvc-bag": fit_of(3.0, 10.0),
        "instancemisvc": {"error": "SolverError: no"},
        "misvm-MISVM": fit_of(250.0, 12.0),
    }
    for floor in (1.0, 1.5)
]


def test_the_table_shows_ratios_goals_errors_and_unsolved_problems():
    lines = speed.table(ROUNDS, "linear").splitlines()[2:]
    by_row = {line.split("  ")[0]: " ".join(line.split()) for line in lines}
    assert "0.90 0.75 [0.60, 0.90] 1 " in by_row["MISVC, instance slack"]
    assert "3.00 2.50 [2.00, 3.00] 2 missed" in by_row["MISVC, bag slack"]
    assert by_row["InstanceMISVC"].endswith("SolverError: no")
    assert by_row["misvm.MISVM"].endswith("12 NOT SOLVED (ours 10)")


def test_rounds_are_resumed_and_a_failure_shows_in_the_exit_status(tmp_path, monkeypatch, capsys):
    calls = []

    def made_up(task, methods, timeout):
        calls.append(task)
        return {**{method: fit_of(1.0) for method in methods}, **ROUNDS[0]}

    monkeypatch.setattr(speed, "run_round", made_up)
    parser = argparse.ArgumentParser()
    speed.add_arguments(parser)
    options = ["--datasets", "concept-tiny", "--rounds", "2", "--no-peers", "--out", str(tmp_path)]
    args = parser.parse_args(options)
    assert speed.main(args) == 1
    assert len(calls) == 4
    assert speed.main(args) == 1
    assert len(calls) == 4
    assert "(4 of 4 rounds)" in capsys.readouterr().out
