"""Measured fits: objective values computed by one piece of code, ratios from rounds."""

from __future__ import annotations

import argparse
import sys
import types

import numpy as np
import pytest
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC

from benchmarks.commands import _speed_fit, speed
from benchmarks.common import peers
from benchmarks.common import weka as _weka
from benchmarks.common.peers import hinge_objective
from milearn import Bags
from milearn.datasets import make_bags


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
        by_points = sum(
            hinge(score if label else -score) for score, label in zip(scores[:4], y, strict=True)
        )
        for problem in peers.BAG_PROBLEMS:
            value = hinge_objective(3.0, scores[:4], bags, y, 2.0, problem)
            assert value == pytest.approx(1.5 + 2.0 * by_points)


@pytest.mark.parametrize("problem", ["misvc-bag", "misvc-instance", "instancemisvc"])
def test_our_objective_is_the_one_that_peers_are_held_to(bags, problem):
    model = _speed_fit.OURS[problem].build("linear", 1.0, 1.0).fit(bags, y)
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

    square_norm, scores = peers._misvm_solution(Model(), bags)
    assert square_norm == pytest.approx(float(np.sum(fitted.coef_**2)))
    np.testing.assert_allclose(scores, fitted.decision_function(bags.instances))


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_svms_on_bags_minimise_what_a_precomputed_kernel_does(bags, kernel):
    pairs = (
        bags.instances @ bags.instances.T
        if kernel == "linear"
        else rbf_kernel(bags.instances, gamma=0.5)
    )
    member = (bags.bag_index[:, None] == np.arange(len(bags))).astype(float)
    sums = member.T @ pairs @ member
    norms = np.sqrt(np.diag(sums))
    for problem, gram in (("setkernel-sum", sums), ("setkernel", sums / np.outer(norms, norms))):
        svc = SVC(kernel="precomputed", C=2.0, tol=1e-9).fit(gram, y)
        weights = svc.dual_coef_[0]
        square_norm = weights @ gram[np.ix_(svc.support_, svc.support_)] @ weights
        scores = svc.decision_function(gram)
        value = hinge_objective(square_norm, scores, bags, y, 2.0, problem)
        ours = _speed_fit.OURS[problem].build(kernel, 0.5, 2.0).fit(bags, y)
        assert ours.objective_ == pytest.approx(value, rel=1e-6)


def test_milsd_without_a_graph_is_mi_svm_with_one_slack_per_bag(bags):
    by_bag, by_mean = (
        _speed_fit.OURS[name].build("linear", 1.0, 0.7).fit(bags, y)
        for name in ("misvc-bag", "milsd")
    )
    assert by_mean.objective_ == pytest.approx(by_bag.objective_, rel=1e-4)
    assert by_mean.C == 0.7


def test_the_baseline_calls_a_bag_positive_for_one_instance(bags):
    baseline = _speed_fit.OURS["svc"].build("rbf", 1.0, 10.0).fit(bags, y)
    found = [baseline.svc.predict(block).max() for block in bags]
    np.testing.assert_array_equal(baseline.predict(bags), found)


def test_peers_are_rows_only_where_they_are_installed(monkeypatch):
    monkeypatch.setattr(peers, "find_spec", lambda name: None)
    monkeypatch.setattr(_weka, "find_jar", lambda: None)
    assert peers.installed() == {}
    assert set(speed.rows_here()) == set(_speed_fit.OURS)
    monkeypatch.setattr(peers, "find_spec", lambda name: object())
    assert set(peers.installed()) == set(peers.PEERS)
    assert set(speed.rows_here()) == set(_speed_fit.OURS) | set(peers.PEERS)
    assert set(speed.rows_here(with_peers=False)) == set(_speed_fit.OURS)


def test_sawmil_is_asked_for_the_same_problem(bags, monkeypatch):
    class NSK:  # the attributes by which sawmil keeps its solution
        def __init__(self, **settings):
            self.settings = settings

        def fit(self, blocks, signs):
            self.bags_, self.y_ = blocks, signs
            gram = self.bag_kernel(blocks, blocks)
            self.svc = SVC(kernel="precomputed", C=self.settings["C"], tol=1e-9).fit(gram, signs)
            self.alpha_ = np.zeros(len(blocks))
            self.alpha_[self.svc.support_] = np.abs(self.svc.dual_coef_[0])
            return self

        def bag_kernel(self, left, right):
            means = [np.array([block.mean(0) for block in blocks]) for blocks in (left, right)]
            units = [mean / np.linalg.norm(mean, axis=1, keepdims=True) for mean in means]
            return units[0] @ units[1].T

        def decision_function(self, blocks):
            return self.svc.decision_function(self.bag_kernel(blocks, self.bags_))

    module = types.ModuleType("sawmil")
    module.NSK, module.Linear = NSK, object
    monkeypatch.setitem(sys.modules, "sawmil", module)
    fit, predict, value = _speed_fit._job("sawmil-NSK", "linear", 1.0, 2.0)
    model = fit(bags, y)
    assert model.settings["normalizer"] == "featurespace"
    assert model.settings["scale_C"] is False
    assert set(predict(model, bags)) <= {0, 1}
    ours = _speed_fit.OURS["setkernel"].build("linear", 1.0, 2.0).fit(bags, y)
    assert value(model, bags, y) == pytest.approx(ours.objective_, rel=1e-6)


def test_a_row_is_measured(in_this_process, monkeypatch):
    monkeypatch.setattr(speed, "in_fresh_process", in_this_process)
    task = {"dataset": "concept-tiny", "kernel": "linear", "C": 1.0, "method": "misvc-bag"}
    result = speed._fit({**task, "accuracy": True}, 120)
    speed_times = [
        f"{prefix}{clock}_seconds" for prefix in ("", "predict_") for clock in ("cpu", "wall")
    ]
    for name in speed_times:
        assert result[name] > 0
    assert result["fits"] >= 1
    assert result["peak_mb"] >= 0
    assert result["predict_peak_mb"] >= 0
    assert np.isfinite(result["objective"])
    assert 0.5 <= result["train_accuracy"] <= 1
    assert 0 <= result["test_accuracy"] <= 1


@pytest.mark.parametrize("name", list(_speed_fit.OURS))
def test_every_row_of_ours_fits_and_predicts(name):
    kernel = _speed_fit.OURS[name].kernels[0]
    bags, y = make_bags(n_bags=24, n_features=4, bag_size=4, random_state=0)
    fit, predict, value = _speed_fit._job(name, kernel, 0.25, 1.0)
    model = fit(bags, y)
    assert np.mean(predict(model, bags) == y) > 0.6
    assert name == "svc" or np.isfinite(value(model, bags, y))


def test_the_training_part_is_scaled_by_itself(bags):
    many = Bags(np.random.default_rng(2).normal(3.0, 2.0, size=(40, 3)), np.arange(0, 41, 2))
    scaled, train, test = _speed_fit._split(many, np.arange(20) % 2)
    assert len(train) == 15
    assert sorted([*train, *test]) == list(range(20))
    np.testing.assert_allclose(scaled[train].instances.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(scaled[train].instances.std(axis=0), 1)


def test_a_fit_that_fails_or_takes_too_long_is_an_error_in_words(monkeypatch):
    def ended(module, task, timeout):
        raise TimeoutError("not finished after 9 s") if timeout == 9 else RuntimeError("ValueError")

    monkeypatch.setattr(speed, "in_fresh_process", ended)
    assert speed._fit({"method": "svc"}, 120) == {"error": "ValueError"}
    assert speed._fit({"method": "svc"}, 9) == {"error": "not finished after 9 s", "timeout": 9}


def test_what_took_too_long_is_not_tried_again(monkeypatch):
    tried = []
    monkeypatch.setattr(speed, "_fit", lambda task, timeout: tried.append(task["method"]) or {})
    late = {"error": "not finished after 9 s", "timeout": 9}
    task = speed.RoundTask("musk1", "linear", 1, 1.0, 9, ("svc", "slow"))
    result = speed.run_round(task, {"slow": late})
    assert tried == ["svc"]
    assert result["slow"] is late


def row_of(seconds, objective=None, peak=5.0):
    return {
        "cpu_seconds": seconds,
        "peak_mb": peak,
        "predict_cpu_seconds": seconds / 10,
        "predict_peak_mb": 1.0,
        "objective": objective,
        "warnings": {},
    }


ROUNDS = [
    {
        "svc": {**row_of(baseline), "train_accuracy": 0.9, "test_accuracy": 0.75},
        "misvc-instance": row_of(0.9, 7.0),
        "misvc-bag": row_of(3.0, 10.0),
        "instancemisvc": {"error": "SolverError: no"},
        "misvm-MISVM": row_of(250.0, 12.0),
        "misvm-miSVM": row_of(5.0, 4.0),
        "sawmil-NSK": row_of(4.0, 3.0),
        "setkernel": row_of(2.0, 3.001),
        "sawmil-sMIL": row_of(4.0),
        "weka-MISMO": row_of(4.0, 3.0),
        "setkernel-sum": row_of(2.0, 4.0),
        "weka-MILR": {"error": "not finished after 9 s", "timeout": 9},
    }
    for baseline in (1.0, 1.5)
]


@pytest.fixture
def rows(monkeypatch):
    monkeypatch.setattr(peers, "installed", lambda: peers.PEERS)
    there = {f"weka-{name}": item for name, item in _weka.WEKA.items()}
    monkeypatch.setattr(_weka, "installed", lambda: there)
    return speed.rows_here()


def by_title(table):
    lines = str(table).splitlines()[2:]
    return {line.split("  ")[0]: " ".join(line.split()) for line in lines}


def test_fits_show_ratios_goals_errors_and_whether_the_problem_was_the_same(rows):
    found = by_title(speed.fit_table(ROUNDS, "linear", rows))
    assert "0.90 0.75 [0.60, 0.90] 1 " in found["MISVC, instance slack"]
    assert "3.00 2.50 [2.00, 3.00] 2 missed" in found["MISVC, bag slack"]
    assert found["InstanceMISVC"].endswith("SolverError: no")
    assert found["misvm.MISVM"].endswith("12 higher than MISVC, bag slack (10)")
    assert found["misvm.miSVM"].endswith("[3.33, 5.00] 5.0 MB 4")  # ours failed
    assert found["sawmil.NSK"].endswith(
        "2.00, 2.00 [2.00, 2.00] x CoupledMISVC, coupling 0, normalized_set"
    )
    assert found["sawmil.sMIL"].endswith("another objective")
    assert found["weka MISMO"].endswith("3 lower than CoupledMISVC, coupling 0, set (4)")
    assert found["weka MILR"].endswith("not finished after 9 s")


def test_rows_stand_in_one_order_whatever_that_of_the_records(rows):
    shuffled = [dict(sorted({**each, "milsd": row_of(9.0, 10.0)}.items())) for each in ROUNDS]
    assert "milsd" < "misvc-bag"
    line = by_title(speed.fit_table(shuffled, "linear", rows))["misvm.MISVM"]
    assert line.endswith("12 higher than MISVC, bag slack (10)")
    for table in (speed.fit_table(shuffled, "linear", rows), speed.predict_table(shuffled, rows)):
        titles = [row[0] for row in table.rows]
        order = [row.text for row in rows.values()]
        assert titles == sorted(titles, key=order.index)
        assert titles[0].startswith("baseline")


def test_predictions_show_ratios_and_accuracies(rows):
    found = by_title(speed.predict_table(ROUNDS, rows))
    assert found["baseline: one SVC, inherited labels"].endswith("0.10 s 1.0 MB 90.0 75.0")
    assert "0.30 s 3.00 2.50 [2.00, 3.00] 1.0 MB" in found["MISVC, bag slack"]
    assert "InstanceMISVC" not in found
    assert "weka MILR" not in found


def test_rounds_are_resumed_and_a_failure_shows_in_the_exit_status(tmp_path, monkeypatch, capsys):
    calls = []

    def made_up(task, timed_out):
        calls.append((task, dict(timed_out)))
        found = {method: row_of(1.0, 2.0) for method in task.methods}
        late = {"error": "not finished after 9 s", "timeout": 9}
        return {**found, "instancemisvc": {"error": "SolverError: no"}, "sdpmil": late}

    monkeypatch.setattr(speed, "run_round", made_up)
    parser = argparse.ArgumentParser()
    speed.add_arguments(parser)
    options = ["--datasets", "concept-tiny", "--rounds", "2", "--no-peers", "--out", str(tmp_path)]
    args = parser.parse_args([*options, "--kernels", "linear", "rbf"])
    assert speed.main(args) == 1
    rounds = [(task.method, task.repeat, list(timed_out)) for task, timed_out in calls]
    assert rounds == [
        ("linear", 0, []),
        ("rbf", 0, []),
        ("linear", 1, ["sdpmil"]),
        ("rbf", 1, ["sdpmil"]),
    ]
    assert speed.main(args) == 1
    assert len(calls) == 4
    assert "(4 of 4 rounds)" in capsys.readouterr().out
