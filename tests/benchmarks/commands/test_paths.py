"""Both sides of automatic choices: the switches exist, and a wrong rule is an exit status of 1."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import pytest

from benchmarks.commands import paths
from benchmarks.commands.paths import RULE, Measured
from benchmarks.common.switches import switched

CHOICES = paths.choices()


def run(*words):
    parser = argparse.ArgumentParser()
    paths.add_arguments(parser)
    return paths.main(parser.parse_args(list(words)))


def test_names_are_their_own_and_each_choice_has_a_fast_case():
    assert len({each.name for each in CHOICES}) == len(CHOICES)
    assert all(any(case.fast for case in each.cases) for each in CHOICES)


@pytest.mark.parametrize("choice", CHOICES, ids=lambda each: each.switch)
def test_the_switch_exists(choice):
    for value in choice.sides.values():
        with switched(choice.switch, value):
            pass


threshold = 3


def above(x, limit=3):
    return x > limit


def above_keyword(x, *, limit=3):
    return x > limit


@dataclass(frozen=True)
class Options:
    first: int = 1
    limit: int = 3


def test_a_switch_is_a_constant_a_function_a_keyword_or_a_field():
    with switched(f"{__name__}:threshold", 5):
        assert threshold == 5
    with switched(f"{__name__}:above", lambda x: "replaced"):
        assert above(4) == "replaced"
    with switched(f"{__name__}:above(limit)", 5):
        assert not above(4)
    with switched(f"{__name__}:above_keyword(limit)", 5):
        assert not above_keyword(4)
    with switched(f"{__name__}:Options(limit)", 5):
        assert Options() == Options(1, 5)
    assert threshold == 3
    assert above(4)
    assert above_keyword(4)
    assert Options() == Options(1, 3)


def measured(rule, left, right, objectives=(1.0, 1.0, 1.0)):
    names = (RULE, "left", "right")
    seconds = dict(zip(names, (rule, left, right), strict=True))
    return Measured(seconds, dict(zip(names, objectives, strict=True)))


@pytest.mark.parametrize(
    ("found", "passes"),
    [
        (measured(1.4, 1.0, 9.0), True),
        (measured(1.6, 9.0, 1.0), False),
        (measured(0.004, 0.001, 0.001), True),
        (measured(1.0, 1.0, 1.0, (1.005, 2.0, 1.0)), True),
        (measured(1.0, 1.0, 1.0, (1.02, 1.0, 2.0)), False),
    ],
)
def test_a_rule_is_wrong_when_it_is_slow_or_high(found, passes):
    assert found.passes() == passes
    assert found.passes(100.0) == (found.slower <= paths.SLOWER)


@pytest.fixture
def sequence(monkeypatch):
    """Makes the next measurements return what a test says."""

    def prepare(*results):
        chosen = CHOICES[0]
        monkeypatch.setattr(paths, "choices", lambda: [chosen])
        left, right = chosen.sides
        results = iter(
            Measured({RULE: rule, left: 1.0, right: 1.0}, dict.fromkeys((RULE, left, right), 1.0))
            for rule in results
        )
        monkeypatch.setattr(paths, "measured", lambda *given: next(results))

    return prepare


def test_a_wrong_rule_fails_when_it_fails_twice(sequence, capsys):
    sequence(3.0, 3.0)
    assert run("--fast") == 1
    assert "WRONG" in capsys.readouterr().out
    sequence(3.0, 1.0)
    assert run("--fast") == 0
    assert "WRONG" not in capsys.readouterr().out


def test_a_fit_is_measured_by_the_rule_and_by_both_sides():
    choice = next(each for each in CHOICES if "quadratic" in each.name)
    found = paths.measured(choice, choice.cases[0], 1)
    assert set(found.seconds) == {RULE, *choice.sides}
    assert min(found.seconds.values()) > 0
