"""The list of words: what it finds, and what it leaves alone."""

from __future__ import annotations

import subprocess
import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / ".ci" / "words"


@pytest.fixture(scope="module")
def words():
    loader = SourceFileLoader("words", str(SCRIPT))
    module = module_from_spec(spec_from_loader("words", loader))
    # No .pyc file beside the script.
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = before
    return module


@pytest.mark.parametrize(
    "text",
    [
        "the machine that is returned",
        "one slack a bag",
        "# one weight vector a\n# cluster",
        "Least number of bags",
        "Most steps of the procedure",
        "what was told",
        "the plain floor",
        "dual_shares",
        "the shares of the instances",
        "model.gap_",
        "model.terms_",
        "model.tube_",
        'r"""What losses pay."""\n',
        "until the objective rests",
    ],
)
def test_finds(words, text):
    assert len(list(words.findings(text))) == 1


@pytest.mark.parametrize(
    "text",
    [
        "a support vector\n# machine",
        "Machine Learning, a virtual machine, platform.machine()",
        "np.floor(x) and a // b",
        "a slice shares memory with its bags, np.shares_memory(a, b)",
        "model.dual_gap_ and model.optimality_gap_",
        "model.loss_terms_ and model.tube_half_width_",
        "one label per bag, one row of a bag",
        'x = 1\n"""What follows is no module docstring."""',
    ],
)
def test_leaves_alone(words, text):
    assert list(words.findings(text)) == []


def test_names_the_line_and_the_replacement(words):
    text = "first\n\nthe floor"
    assert list(words.findings(text)) == [(3, "floor", "baseline")]


def test_exit_status_says_whether_something_was_found():
    clean = subprocess.run([sys.executable, str(SCRIPT), "README.md"], capture_output=True)
    assert clean.returncode == 0
    missing = subprocess.run([sys.executable, str(SCRIPT), "nowhere"], capture_output=True)
    assert missing.returncode == 1
    assert b"nowhere is not there" in missing.stderr
