"""Problems of the soak run that once had no solution or no end."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
from sklearn.exceptions import ConvergenceWarning

SOAK = runpy.run_path(str(Path(__file__).resolve().parents[2] / ".ci" / "soak"))
draw, judge = SOAK["draw"], SOAK["judge"]

# M3IC on features of sizes 100,000, whose cuts cancel each other: no backend solved its programs.
CANCELLING = 720181
# BagSVR with C = 1.4e7 on features of 100,000: LIBSVM did not end, and has a limit of steps now.
ENDLESS = 411769


def test_cuts_of_unscaled_features_end_in_a_warning():
    # A list of this length draws the same problem whatever estimators there are.
    problem = draw(CANCELLING, ["M3IC"] * 29)
    converged, made_again, _ = judge(problem)
    assert made_again
    assert converged == problem.model.converged_


def test_libsvm_ends_with_a_very_large_cost(monkeypatch):
    monkeypatch.setattr("milearn.svm._bag_svm.LIBSVM_STEPS", 100_000)
    problem = draw(ENDLESS, ["BagSVR"] * 31)
    assert problem.model.C > 1e7
    with pytest.warns(ConvergenceWarning, match="Solver terminated early"):
        problem.model.fit(problem.bags, problem.y, sample_weight=problem.sample_weight)
