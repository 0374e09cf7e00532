"""Generated repertoires: associated sequences, their background, and an implanted motif."""

import re

import numpy as np
import pytest

from benchmarks.common import repertoires
from benchmarks.common.repertoires import draw_cmv, draw_needle, implant
from milearn.baselines import SequenceAbundanceClassifier


def test_people_have_the_published_share_of_associated_sequences(monkeypatch):
    monkeypatch.setattr(repertoires, "COUNTS", ((4.2, 4_000.0), (6.79, 1_000.0)))
    people = draw_cmv(60, 0, depth=5000, n_test=40)
    assert people.y_train.mean() == pytest.approx(0.45, abs=0.02)
    assert len(people.test) == 40
    model = SequenceAbundanceClassifier().fit(people.train, people.y_train)
    model.associated_ = people.associated
    count, depth = model.counts(people.train).T
    assert np.median(depth) == pytest.approx(5000, rel=0.15)
    for label, (alpha, beta) in enumerate(repertoires.COUNTS):
        own = people.y_train == label
        share = (count[own] / depth[own]).mean()
        assert share == pytest.approx(alpha / (alpha + beta), rel=0.35)
    # Some of the others are shared, and most are not.
    shared = people.train.instances.indptr[people.train.offsets]
    assert 0.02 < np.diff(shared).sum() / depth.sum() < 0.3


def test_the_motif_is_implanted_near_the_middle():
    rng = np.random.default_rng(0)
    made = {implant("C" + 14 * "A" + "W", rng) for _ in range(100)}
    assert all(re.fullmatch("CA+SFENA+W", each) and len(each) == 16 for each in made)
    assert {each.index("SFEN") for each in made} == {6, 7, 8, 9}
    assert len(implant("CAW", rng)) == 3


def test_needles_are_in_positive_repertoires_only():
    letters = np.random.default_rng(0).choice(list("ACDEFGHIKLMNPQRSTVWY"), (500, 12))
    pool = np.array(["C" + "".join(each) + "F" for each in letters])
    bags, y = draw_needle(10, 200, 0.02, pool, 0)
    found = [sum("SFEN" in each for each in bag[:, 0]) for bag in bags]
    assert found == [4 * label for label in y]
