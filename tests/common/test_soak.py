"""The soak run finds what is planted, and a few of its problems pass."""

from __future__ import annotations

import signal
from dataclasses import replace

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from milearn.svm import MISVC
from tests.common import certificates, soak

# A problem whose objective is made again, and some of other kinds.
MAXIMUM = 6
SEEDS = (4, 9, 24)
# M3IC on features of sizes 100,000, whose cuts cancel each other: no backend solved its programs.
CANCELLING = 720181
# BagSVR with C = 1.4e7 on features of 100,000: LIBSVM did not end, and has a limit of steps now.
ENDLESS = 411769
# WellSVC with C = 2e7, whose second-order terms vanish: the length of a step was infinite.
VANISHING = 433576


class Raises(MISVC):
    def fit(self, X, y, sample_weight=None):
        raise ZeroDivisionError("planted")


class NotFinite(MISVC):
    def decision_function(self, X):
        return np.full(len(X), np.nan)


class OtherObjective(MISVC):
    def fit(self, X, y, sample_weight=None):
        super().fit(X, y, sample_weight)
        self.objective_ *= 1.001
        return self


class Overflows(MISVC):
    def fit(self, X, y, sample_weight=None):
        np.exp(np.array([1e4]))
        return super().fit(X, y, sample_weight)


class Forgets(MISVC):
    def fit(self, X, y, sample_weight=None):
        super().fit(X, y, sample_weight)
        self.kept = 1.0
        return self

    def decision_function(self, X):
        return super().decision_function(X) + getattr(self, "kept", 0.0)

    def __getstate__(self):
        return {name: value for name, value in super().__getstate__().items() if name != "kept"}


class NeverEnds(MISVC):
    def fit(self, X, y, sample_weight=None):
        while True:
            pass


class StatesTooSmallAGap(MISVC):
    def fit(self, X, y, sample_weight=None):
        super().fit(X, y, sample_weight)
        self.dual_gap_ = -1e-3 * self.objective_
        return self


PLANTED = {
    Raises: "planted",
    NotFinite: "is not finite",
    OtherObjective: "the stated problem has",
    Overflows: "RuntimeWarning",
    Forgets: "differs after pickling",
    StatesTooSmallAGap: "a feasible point has",
}
if hasattr(signal, "SIGALRM"):
    PLANTED[NeverEnds] = "has not ended after"


@pytest.mark.parametrize("Model", PLANTED, ids=lambda each: each.__name__)
def test_a_planted_fault_is_found(Model, monkeypatch, capsys):
    monkeypatch.setitem(soak_objectives(), Model, soak_objectives()[MISVC])
    monkeypatch.setitem(certificates._PAIRS, Model, certificates._PAIRS[MISVC])

    def drawn(seed, names):
        problem = soak.draw(seed, ["MISVC"])
        model = Model(kernel="linear", C=problem.model.C)
        return replace(problem, model=model)

    limit = 0.1 if Model is NeverEnds else 120.0
    report = soak.soak([MAXIMUM], drawn=drawn, limit=limit)
    assert report.failed[Model.__name__] == 1
    assert PLANTED[Model] in report.failures[0]
    assert f"seed {MAXIMUM}" in capsys.readouterr().out


def soak_objectives():
    from tests.common import objectives

    return objectives._EVALUATED


@pytest.mark.parametrize("refusal", ["NaN", "class"])
def test_input_that_has_to_be_refused_is_judged(refusal):
    problem = replace(soak.draw(MAXIMUM, ["MISVC"]), refusal=refusal, traits=(refusal,))
    with pytest.raises(AssertionError, match="was accepted"):
        soak.judge(problem)


def test_the_command_judges_and_counts(capsys):
    assert soak.main(["--only", *map(str, SEEDS)]) == 0
    last = capsys.readouterr().out.splitlines()
    assert any(line.startswith("all") and f" {len(SEEDS)} " in line for line in last)


def test_cuts_of_unscaled_features_end_in_a_warning():
    # A list of this length draws the same problem whatever estimators there are.
    problem = soak.draw(CANCELLING, ["M3IC"] * 29)
    converged, made_again, _ = soak.judge(problem)
    assert made_again
    assert converged == problem.model.converged_


def test_libsvm_ends_with_a_very_large_cost(monkeypatch):
    monkeypatch.setattr("milearn.svm._bag_svm.LIBSVM_STEPS", 100_000)
    problem = soak.draw(ENDLESS, ["BagSVR"] * 31)
    assert problem.model.C > 1e7
    with pytest.warns(ConvergenceWarning, match="Solver terminated early"):
        problem.model.fit(problem.bags, problem.y, sample_weight=problem.sample_weight)


def test_a_step_of_a_mixture_without_second_order_terms_is_finite():
    problem = soak.draw(VANISHING, ["WellSVC"] * 31)
    assert problem.model.C > 1e7
    assert not soak.judge(problem)[0]  # it ends in a warning of its gap


def test_a_seed_makes_the_same_problem():
    one, two = soak.draw(7), soak.draw(7)
    assert str(one) == str(two)
    np.testing.assert_array_equal(one.y, two.y)
