"""ConceptEmbedding against loops over bags and concepts, and what it keeps of its descents."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from milearn import Bags
from milearn._solvers.baselines.diverse_density import ConceptSolution, _distinct_maxima
from milearn.baselines import DDSVM, DiverseDensity
from milearn.embedding import ConceptEmbedding
from tests.oracles import noisy_or_loss
from tests.toys import two_level_bags


def looped(bags, y, code, t, s):
    """Negative logarithm of the diverse density of a class, one instance at a time."""
    blocks = [np.exp(-np.sum((s * (bag - t)) ** 2, axis=1)) for bag in bags]
    return noisy_or_loss(blocks, y == code, np.ones(len(bags)))


def test_concepts_are_stationary_points_of_the_loop_for_each_class():
    bags, y = two_level_bags(n_bags=16)
    model = ConceptEmbedding(4, tol=1e-12, max_iter=5000).fit(bags, y)
    assert set(model.concept_codes_) == {0, 1}
    for t, s, code, value in zip(
        model.concepts_, model.scales_, model.concept_codes_, model.concept_objectives_, strict=True
    ):
        assert looped(bags, y, code, t, s) == pytest.approx(value, rel=1e-6)
        slopes = approx_fprime(t, lambda each, s=s, code=code: looped(bags, y, code, each, s), 1e-7)
        assert np.abs(slopes).max() < 1e-3


def test_rows_are_the_smallest_scaled_distances():
    bags, y = two_level_bags(n_bags=20)
    model = ConceptEmbedding(3).fit(bags, y)
    expected = [
        [
            min(np.sqrt(np.sum((s * (x - t)) ** 2)) for x in bag)
            for t, s in zip(model.concepts_, model.scales_, strict=True)
        ]
        for bag in bags
    ]
    np.testing.assert_allclose(model.transform(bags), expected, rtol=1e-8, atol=1e-8)
    assert model.get_feature_names_out()[0] == "conceptembedding0"


def test_the_best_concept_of_the_positive_class_is_that_of_diverse_density():
    bags, y = two_level_bags(n_bags=30)
    model = ConceptEmbedding(3, tol=1e-6).fit(bags, y)
    alone = DiverseDensity(3, tol=1e-6).fit(bags, y)
    best = model.concept_objectives_[model.concept_codes_ == 1].min()
    assert best == pytest.approx(alone.objective_, rel=1e-9)


def solution(t, s, objective):
    return ConceptSolution(np.array(t), np.array(s), objective, 1, True)


def test_the_better_half_is_kept_once():
    first, again = solution([1.0, 2.0], [1.0, 1.0], 3.0), solution([1.0, 2.01], [1.0, 1.0], 3.1)
    other = solution([-1.0, 2.0], [1.0, 1.0], 4.0)
    worse, worst = solution([5.0, 2.0], [1.0, 1.0], 7.0), solution([9.0, 9.0], [1.0, 1.0], 9.0)
    assert _distinct_maxima([worst, again, other, worse, first]) == [first, other]


def test_ddsvm_is_the_support_vector_svm_on_the_rows():
    from sklearn.svm import SVC

    bags, y = two_level_bags(n_bags=40, shift=4.0)
    model = DDSVM(C=3.0, n_init=4).fit(bags, y)
    embedding = ConceptEmbedding(4).fit(bags, y)
    rows = embedding.transform(bags)
    expected = SVC(C=3.0, tol=1e-6).fit(rows, y).decision_function(rows)
    np.testing.assert_allclose(model.decision_function(bags), expected, rtol=1e-3, atol=1e-4)
    test, truth = two_level_bags(n_bags=40, shift=4.0, seed=1)
    assert model.score(test, truth) > 0.8
    alone = Bags.singletons(bags.instances)
    np.testing.assert_allclose(
        model.instance_decision_function(bags), model.decision_function(alone), rtol=1e-9
    )
