"""Generated repertoires: associated sequences, their background, and implanted motifs."""

import re

import numpy as np
import pytest
from sklearn.metrics import balanced_accuracy_score
from sklearn.neighbors import KNeighborsClassifier

from benchmarks.common import repertoires
from benchmarks.common.repertoires import MOTIFS, draw_cmv, draw_motifs, draw_needle, implant
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


def test_common_identities_are_in_most_repertoires():
    background = repertoires._Background.make()
    drawn = background.draw(100_000, np.random.default_rng(0))
    assert (np.diff(drawn) > 0).all()
    first = background.starts[background.first_common]
    expected = -np.expm1(-1e5 * background.probabilities) * np.diff(background.starts)
    assert (drawn < first).sum() == pytest.approx(
        expected[: background.first_common].sum(), rel=0.02
    )
    assert (drawn >= first).sum() == pytest.approx(
        expected[background.first_common :].sum(), rel=0.02
    )


def test_motifs_are_implanted_near_the_middle():
    rng = np.random.default_rng(0)
    sequence = "C" + 14 * "A" + "W"
    for motif, pattern in (("YYG", "YYG"), ("R/TD", "RA?TD")):
        made = {implant(sequence, motif, False, rng) for _ in range(100)}
        for each in made:
            assert len(each) == 16
            assert re.fullmatch(f"CA+{pattern}A+W", each)
        starts = {re.search(pattern, each).start() for each in made}
        assert starts == {6, 7, 8, 9}
    replaced = [implant(sequence, "YYG", True, rng) for _ in range(200)]
    assert np.mean(["YYG" in each for each in replaced]) == pytest.approx(0.5, abs=0.1)
    assert all(sum(a != b for a, b in zip(each, sequence, strict=True)) >= 2 for each in replaced)
    assert len(implant("CAW", "RK/Q", False, rng)) <= 4


@pytest.fixture
def pool():
    letters = np.random.default_rng(0).choice(list(repertoires.AMINO_ACIDS), (500, 12))
    return np.array(["C" + "".join(each) + "F" for each in letters])


def test_labels_of_motifs_are_balanced_and_can_be_learned(pool, monkeypatch):
    monkeypatch.setattr(repertoires, "IMPLANTED", 0.05)
    X, labels = draw_motifs(80, 1000, 3, pool, 0)
    np.testing.assert_allclose(X.sum(axis=1), 1, rtol=1e-5)
    assert (X >= 0).all()
    assert list(labels) == list(MOTIFS)
    assert {int(label.sum()) for label in labels.values()} == {40}
    y = labels["one"]
    spread = X.std(axis=0) + 1e-9
    column = X[:, [np.argmax((X[y].mean(axis=0) - X[~y].mean(axis=0)) / spread)]]
    predicted = KNeighborsClassifier(5).fit(column[:40], y[:40]).predict(column[40:])
    assert balanced_accuracy_score(y[40:], predicted) > 0.9


def test_needles_are_in_positive_repertoires_only(pool):
    bags, y = draw_needle(10, 200, 0.02, pool, 0)
    found = [sum("SFEN" in each for each in bag[:, 0]) for bag in bags]
    assert found == [4 * label for label in y]
