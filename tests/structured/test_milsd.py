"""MILSD: the objective it states, its convex steps by cvxpy, and what a user asks of it."""

from __future__ import annotations

import dataclasses
import tracemalloc

import cvxpy as cp
import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from milearn import Bags
from milearn._solvers.common.cccp import SolverOptions
from milearn._solvers.common.newton import engine
from milearn._solvers.common.newton.engine import solve
from milearn._solvers.structured.edges import edges_of
from milearn._solvers.structured.milsd import solve_milsd
from milearn._solvers.structured.problem import LinkedProblem
from milearn._solvers.structured.step import LinkedStep, LinkedTerms
from milearn.datasets import make_bags
from milearn.model_selection import StratifiedBagKFold, transductive_grid_search
from milearn.structured import MILSD, homophily, knn_bag_graph, spatial_graph
from milearn.svm import MISVC
from tests.bags import random_bags
from tests.oracles import highest_of

GRAPHS = ["bag", "instance", "both"]
NONE = np.zeros((0, 0))


def random_graph(rng, n, *, directed, weighted, density=0.3):
    """Links with isolated nodes, sinks and loops among them."""
    graph = (rng.random((n, n)) < density).astype(float)
    if weighted:
        graph *= rng.uniform(0.2, 3.0, size=(n, n))
    if not directed:
        graph = np.maximum(graph, graph.T)
    graph[:, 1] = graph[1, :] = 0.0  # isolated
    graph[2, :] = 0.0  # links lead to it, none away
    if not directed:
        graph[:, 2] = 0.0
    graph[3, 3] = 1.0
    return graph


def case(seed, *, graph="bag", directed=False, weighted=False, unlabelled=True):
    """Few small bags, without structure, with graphs on bags and instances."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 4, size=12)
    instances = rng.normal(size=(sizes.sum(), 3))
    kind = {"directed": directed, "weighted": weighted}
    bags = Bags(
        instances,
        np.r_[0, np.cumsum(sizes)],
        bag_graph=random_graph(rng, 12, **kind) if graph in ("bag", "both") else None,
        instance_graph=random_graph(rng, sizes.sum(), density=0.1, **kind)
        if graph in ("instance", "both")
        else None,
    )
    y = (np.arange(12) % 2).astype(float)
    if unlabelled:
        y[6:] = np.nan
    return bags, y


# -- the problem, written down once more, without cleverness --------------------------------------


def naive_degrees(graph):
    n = len(graph)
    degrees = np.zeros(n)
    for p in range(n):
        out = sum(graph[p, q] for q in range(n) if q != p)
        into = sum(graph[q, p] for q in range(n) if q != p)
        degrees[p] = out if out > 0 else into
    return degrees


def naive_links(graph):
    n = len(graph)
    return [(p, q) for p in range(n) for q in range(n) if p != q and graph[p, q] > 0]


def naive_variation(graph, scores):
    links, degrees = naive_links(graph), naive_degrees(graph)
    total = 0.0
    for p, q in links:
        total += graph[p, q] * abs(scores[p] / degrees[p] ** 0.5 - scores[q] / degrees[q] ** 0.5)
    return total / len(links) if links else 0.0


def dense(graph):
    return NONE if graph is None else graph.toarray()


def naive_objective(model, bags, y, mu, mu_instance, class_weights=(1.0, 1.0)):
    """J from fitted attributes and data alone."""
    w, b = model.coef_[0], model.intercept_[0]
    scores = bags.instances @ w + b
    best = np.array(
        [scores[i:j].max() for i, j in zip(bags.offsets, bags.offsets[1:], strict=False)]
    )
    hinges = [
        class_weights[int(label)] * max(0.0, 1 - (1 if label == 1 else -1) * value)
        for label, value in zip(y, best, strict=True)
        if label == label
    ]
    return (
        0.5 * w @ w
        + model.C * np.mean(hinges)
        + mu * naive_variation(dense(bags.bag_graph), best)
        + mu_instance * naive_variation(dense(bags.instance_graph), scores)
    )


def naive_convex_step(problem, bags, y, witnesses, C, mu, mu_instance, weights):
    """The least value of the convex problem at given witnesses (bag -> row; None: means)."""
    w, b = cp.Variable(bags.shape[1]), cp.Variable()
    blocks = list(bags)
    rows = [
        block.mean(axis=0) if witnesses is None else bags.instances[witnesses[bag]]
        for bag, block in enumerate(blocks)
    ]
    # Of all bags and links at once: cvxpy is slow where each of them has an expression of its own.
    lines = np.array(rows) @ w + b
    scores = bags.instances @ w + b
    highest = highest_of(scores, bags.offsets)

    cost = 0.5 * cp.sum_squares(w)
    positive, negative = np.flatnonzero(y == 1), np.flatnonzero(y == 0)
    hinges = (
        weights[1] * cp.sum(cp.pos(1 - lines[positive])),
        weights[0] * cp.sum(cp.pos(1 + highest[negative])),
    )
    cost += C * sum(hinges) / (len(positive) + len(negative))
    p, q, links, a, c = scaled_links(dense(bags.bag_graph))
    if len(p):
        left, right = cp.multiply(a, highest[p]), cp.multiply(c, highest[q])
        worst = cp.maximum(left - cp.multiply(c, lines[q]), right - cp.multiply(a, lines[p]))
        cost += mu * links @ worst / len(p)
    p, q, links, a, c = scaled_links(dense(bags.instance_graph))
    if len(p):
        difference = cp.multiply(a, scores[p]) - cp.multiply(c, scores[q])
        cost += mu_instance * links @ cp.abs(difference) / len(p)
    stated = cp.Problem(cp.Minimize(cost))
    return stated.solve(solver=cp.CLARABEL, tol_gap_rel=1e-11, tol_gap_abs=1e-11, tol_feas=1e-11)


def scaled_links(graph):
    """Ends of the links, their weights, and the factors of the scores at either end."""
    pairs, degrees = naive_links(graph), naive_degrees(graph)
    p, q = (np.array([pair[end] for pair in pairs], dtype=int) for end in (0, 1))
    return p, q, graph[p, q], degrees[p] ** -0.5, degrees[q] ** -0.5


def structured(bags, y, C, mu, mu_instance, weights=(1.0, 1.0)):
    labelled = ~np.isnan(y)
    empty = sparse.csr_array
    return LinkedProblem(
        X=bags.instances,
        offsets=bags.offsets,
        signs=np.where(labelled, np.where(y == 1, 1.0, -1.0), 0.0),
        weights=np.where(y == 1, weights[1], weights[0]) / labelled.sum(),
        costs=np.array([C, mu, mu_instance], dtype=float),
        bag_edges=edges_of(empty((len(bags),) * 2) if bags.bag_graph is None else bags.bag_graph),
        instance_edges=edges_of(
            empty((bags.n_instances,) * 2) if bags.instance_graph is None else bags.instance_graph
        ),
        fit_intercept=True,
    )


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize(
    ("directed", "weighted", "unlabelled"),
    [(False, True, True), (True, False, False)],
)
def test_convex_step_is_that_of_cvxpy(graph, directed, weighted, unlabelled):
    seed = int(directed)
    bags, y = case(seed, graph=graph, directed=directed, weighted=weighted, unlabelled=unlabelled)
    weights = (1.0, 2.5) if weighted else (1.0, 1.0)
    problem = structured(bags, y, 20.0, 3.0, 5.0, weights)
    rng = np.random.default_rng(seed)
    drawn = bags.offsets[:-1] + rng.integers(0, bags.sizes)
    for witnesses in (None, drawn):
        given = np.zeros(0, int) if witnesses is None else drawn[problem.linearised]
        expected = naive_convex_step(problem, bags, y, witnesses, 20.0, 3.0, 5.0, weights)
        for storage in (np.asarray, sparse.csr_array):
            stored = dataclasses.replace(problem, X=storage(problem.X))
            terms = LinkedTerms(stored)
            found = solve(
                LinkedStep(terms, terms.linear(given, problem.linearised)),
                *(np.zeros(3), np.zeros(1), terms.first),
                lambda solution: solution.gap <= 1e-9 * solution.objective,
            )
            assert found.objective == pytest.approx(expected, rel=1e-6), storage
            assert found.lower_bound == pytest.approx(expected, rel=1e-6), storage


# -- the whole fit -------------------------------------------------------------------------------


@pytest.mark.parametrize("graph", [*GRAPHS, "auto"])
@pytest.mark.parametrize("C", [1.0, 1000.0])
def test_objective_is_the_stated_one_and_never_rises(C, graph):
    for seed in range(3):
        # Of both graphs only those that are asked for are used.
        bags, y = case(seed, graph="both", directed=seed == 1, weighted=seed == 2)
        model = MILSD(C=C, mu=2.0, mu_instance=3.0, graph=graph, tol=1e-4, n_init=2).fit(bags, y)
        mu, mu_instance = 2.0 * (graph != "instance"), 3.0 * (graph != "bag")
        value = naive_objective(model, bags, y, mu, mu_instance)
        assert model.objective_ == pytest.approx(value, rel=1e-8)
        assert (np.diff(model.objective_history_) <= 0).all()
        assert model.objective_history_[-1] == model.objective_
        assert len(model.objective_history_) == model.n_iter_
        assert model.converged_
        assert model.dual_gap_ <= 1e-7 * model.objective_


def test_terms_and_class_weights_make_up_the_objective():
    bags, y = case(0, graph="both", weighted=True)
    model = MILSD(C=10.0, mu=2.0, class_weight={0.0: 1.0, 1.0: 3.0}).fit(bags, y)
    w = model.coef_[0]
    assert 0.5 * w @ w + np.array([10.0, 2.0, 2.0]) @ model.loss_terms_ == pytest.approx(
        model.objective_, rel=1e-12
    )
    naive = naive_objective(model, bags, y, 2.0, 2.0, (1.0, 3.0))
    assert model.objective_ == pytest.approx(naive, rel=1e-10)
    balanced = MILSD(C=10.0, class_weight="balanced").fit(bags[:5], y[:5])
    assert balanced.objective_ > 0


@pytest.mark.parametrize("C", [1.0, 100.0, 4000.0])
def test_without_a_graph_it_is_the_linear_misvc(C):
    bags, y = make_bags(n_bags=24, witness_rate=0.3, concept_distance=2.0, random_state=0)
    weights = {0: 1.0, 1: 2.0}
    expected = MISVC(C=C / 24, kernel="linear", class_weight=weights).fit(bags, y)
    linked = Bags(bags.instances, bags.offsets, bag_graph=np.ones((24, 24)))
    for X, mu in ((bags, 5.0), (linked, 0.0)):
        model = MILSD(C=C, mu=mu, class_weight=weights).fit(X, y)
        assert model.objective_ == pytest.approx(expected.objective_, rel=1e-8)
        np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(model.intercept_, expected.intercept_, rtol=1e-8)
        value = 0.5 * (model.coef_**2).sum() + C * model.loss_terms_[0]
        assert model.objective_ == pytest.approx(value, rel=1e-9)
        assert 0 <= model.dual_gap_ <= 1e-5 * model.objective_


@pytest.mark.parametrize("links", ["none", "loops", "zeros"])
def test_an_empty_graph_is_no_graph(links):
    bags, y = case(0)
    graph = {"none": sparse.csr_array((12, 12)), "loops": np.eye(12), "zeros": np.zeros((12, 12))}
    empty = Bags(bags.instances, bags.offsets, bag_graph=graph[links])
    bare = Bags(bags.instances, bags.offsets)
    model = MILSD(graph="bag", mu=7.0).fit(empty, y)
    for other in (MILSD().fit(bare, y), MILSD(mu=0.0).fit(bags, y)):
        np.testing.assert_array_equal(model.coef_, other.coef_)
        assert model.objective_ == other.objective_


def test_links_to_unlabelled_bags_count():
    """One labelled bag per side; links alone speak for the unlabelled ones."""
    rng = np.random.default_rng(0)
    y = np.arange(30) % 2
    instances = rng.normal(size=(30, 2)) * [2.0, 0.1]
    instances[:, 1] += np.where(y == 1, 1.0, -1.0)  # tells the class
    instances[:2, 0] = [-3.0, 3.0]  # tells the two labelled bags apart, and nothing else
    known = np.where(np.arange(30) < 2, y, np.nan)
    graph = (y[:, None] == y).astype(float)
    X = Bags(instances, np.arange(31), bag_graph=graph)
    without, linked = MILSD(mu=0.0).fit(X, known), MILSD(mu=300.0).fit(X, known)
    assert np.mean(linked.transduction_ == y) > np.mean(without.transduction_ == y) + 0.02
    assert np.mean(linked.transduction_ == y) == 1.0
    ratio = abs(linked.coef_[0, 1] / linked.coef_[0, 0])
    assert ratio > abs(without.coef_[0, 1] / without.coef_[0, 0])


def test_graphs_made_in_fit(linked):
    X, y = linked
    for options, made in (
        ({"graph": "knn"}, {"bag_graph": knn_bag_graph(X)}),
        ({"graph": lambda X: knn_bag_graph(X, 2)}, {"bag_graph": knn_bag_graph(X, 2)}),
        ({"graph": "spatial", "n_neighbors": 2}, {"instance_graph": spatial_graph(X, 2)}),
    ):
        expected = MILSD(mu=4.0).fit(Bags(X.instances, X.offsets, **made), y)
        np.testing.assert_array_equal(MILSD(mu=4.0, **options).fit(X, y).coef_, expected.coef_)
        assert (expected.loss_terms_[1:] > 0).tolist() == [
            "bag_graph" in made,
            "bag_graph" not in made,
        ]


# -- labels --------------------------------------------------------------------------------------


def test_ways_to_leave_a_bag_without_a_label():
    bags, y = case(0)
    named = np.array(["no", "yes"])[np.nan_to_num(y).astype(int)].astype(object)
    named[np.isnan(y)] = None
    coded = np.where(np.isnan(y), -1, np.nan_to_num(y)).astype(int)
    mixed = np.array([None if np.isnan(v) else int(v) for v in y], dtype=object)
    models = [
        MILSD().fit(bags, y),
        MILSD().fit(bags, named),
        MILSD(unlabeled=-1).fit(bags, coded),
        MILSD().fit(bags, mixed),
        MILSD(unlabeled="?").fit(bags, np.where(np.isnan(y), "?", named.astype(str))),
    ]
    for model in models[1:]:
        np.testing.assert_array_equal(model.coef_, models[0].coef_)
        assert len(model.classes_) == 2
    assert models[1].classes_.tolist() == ["no", "yes"]
    assert models[2].classes_.tolist() == [0, 1]
    assert models[3].classes_.tolist() == [0, 1]
    labelled = ~np.isnan(y)
    for model, labels in zip(models, (y, named, coded, mixed), strict=False):
        expected = np.mean(model.predict(bags)[labelled] == labels[labelled])
        assert model.score(bags, labels) == expected


@pytest.mark.parametrize("gap", [None, np.nan], ids=str)
def test_a_list_of_words_may_have_gaps(gap):
    """None among words was refused; NaN was the class "nan" in scores and splits."""
    bags, y = case(0)
    words = [gap if np.isnan(v) else ("no", "yes")[int(v)] for v in y]
    column = np.array([None if np.isnan(v) else word for v, word in zip(y, words, strict=True)])
    model = MILSD(pos_label="yes").fit(bags, words)
    expected = MILSD(pos_label="yes").fit(bags, column)
    np.testing.assert_array_equal(model.coef_, expected.coef_)
    assert model.classes_.tolist() == ["no", "yes"]
    assert model.score(bags, words) == expected.score(bags, column)
    graph = sparse.csr_array(bags.bag_graph)
    assert homophily(graph, words) == homophily(graph, column)
    for got, known in zip(
        StratifiedBagKFold(2).split(bags, words),
        StratifiedBagKFold(2).split(bags, column),
        strict=True,
    ):
        np.testing.assert_array_equal(got[1], known[1])
    grid = {"mu": [0.0, 1.0]}
    first, second = (
        transductive_grid_search(MILSD(pos_label="yes"), grid, bags, each, cv=2)
        for each in (words, column)
    )
    np.testing.assert_array_equal(first.scores, second.scores)
    with pytest.raises(ValueError, match="missing label"):
        MISVC().fit(bags, words)


def test_one_against_the_rest_with_unlabelled_bags():
    bags, _ = case(0, graph="both")
    y = np.array([0, 1, 2] * 4, dtype=float)
    y[9:] = np.nan
    model = MILSD(mu=2.0).fit(bags, y)
    assert model.coef_.shape == (3, 3)
    assert model.loss_terms_.shape == (3, 3)
    for k in range(3):
        single = MILSD(mu=2.0).fit(bags, np.where(np.isnan(y), np.nan, y == k))
        np.testing.assert_allclose(model.coef_[k], single.coef_[0], atol=1e-12)
    assert model.transduction_.tolist() == model.predict(bags).tolist()
    assert model.transduction_.shape == (12,)


# -- what is refused -----------------------------------------------------------------------------


def weighted(kind, weight):
    """Bags with a link of this weight."""
    bags, _ = case(0, graph=kind)
    graph = getattr(bags, f"{kind}_graph").toarray()
    graph[4, 5] = weight
    return Bags(bags.instances, bags.offsets, **{f"{kind}_graph": graph})


BAGS, Y = case(0)
BARE = Bags(BAGS.instances, BAGS.offsets)


@pytest.mark.parametrize(
    ("settings", "bags", "y", "message"),
    [
        ({}, BAGS, np.full(12, np.nan), "y contains no labels"),
        # It fitted a constant without a word, because some bags had a weight.
        ({"class_weight": {1: 0.0}}, BARE, Y, "class_weight leaves a class without weight"),
        ({"mu": 0.0}, weighted("bag", -0.5), Y, r"bag_graph has the weight -0\.5"),
        ({}, weighted("instance", -0.5), Y, r"instance_graph has the weight -0\.5"),
        ({"mu": 0.0}, weighted("instance", np.inf), Y, "be finite"),
        ({"graph": lambda X: np.eye(3)}, BAGS, Y, r"bag_graph has shape \(3, 3\) but there are 12"),
        ({"graph": lambda X: None}, BAGS, Y, "callable that returned None"),
        ({"graph": "bag"}, BARE, Y, "graph='bag' but the bags have no bag_graph"),
        ({"graph": "spatial"}, BARE, Y, "The instance_data has no column 'coords'"),
    ],
)
def test_what_is_refused(settings, bags, y, message):
    model = MILSD(**settings)
    with pytest.raises(ValueError, match=message):
        model.fit(bags, y)
    assert not hasattr(model, "classes_")


# -- around it -----------------------------------------------------------------------------------


def test_a_sparse_fit_forms_nothing_dense_of_the_size_of_the_data():
    """Far less memory at once than the matrix would take."""
    n_bags, width = 100, 20_000
    X = sparse.random(3 * n_bags, width, density=5e-4, format="csr", random_state=0)
    y = np.arange(n_bags) % 2
    X = sparse.csr_array(sparse.hstack([X, sparse.csr_array(np.repeat(y, 3)[:, None] * 1.0)]))
    graph = sparse.random(n_bags, n_bags, density=0.01, random_state=0)
    bags = Bags(X, np.arange(0, 3 * n_bags + 1, 3), bag_graph=graph)
    known = np.where(np.arange(n_bags) < 50, y, np.nan)
    MILSD(tol=0.1).fit(bags[:10], known[:10])  # what is loaded at the first fit does not count
    tracemalloc.start()
    model = MILSD(C=10.0, mu=10.0, tol=0.1).fit(bags, known)
    model.decision_function(bags)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 8 * X.shape[0] * X.shape[1] / 10


def test_without_intercept():
    bags, y = case(0, graph="both")
    model = MILSD(fit_intercept=False, mu=2.0).fit(bags, y)
    assert model.intercept_.tolist() == [0.0]
    assert model.objective_ == pytest.approx(naive_objective(model, bags, y, 2.0, 2.0), rel=1e-8)
    # Never below the model that may shift, at the same cost.
    assert model.objective_ >= MILSD(mu=2.0, n_init=5).fit(bags, y).objective_ - 1e-6


def test_an_objective_near_zero_is_no_reason_to_go_on():
    # Features of a size of 1e6: an objective of 1e-13 where each loss is 1 at w = 0.
    bags, y = make_bags(n_bags=24, random_state=0)
    rng = np.random.default_rng(0)
    instances = 1e6 * (np.where(y == 1, 1.0, -1.0)[bags.bag_index][:, None] + np.zeros((1, 3)))
    instances += 1e5 * rng.normal(size=instances.shape)
    problem = structured(Bags(instances, bags.offsets), y.astype(float), 1.0, 0.0, 0.0)
    found = solve_milsd(problem, SolverOptions(tol=1e-3, max_iter=100))
    assert found.converged
    assert found.n_iter < 10
    assert found.history[-1] < 1e-12
    # The gap is not that of a step before, which ended early.
    assert found.stopped != "gap"
    assert found.dual_gap <= 1e-6 * 1e-8


@pytest.mark.parametrize("graph", ["bag", "none"])
def test_features_of_any_size_have_one_minimum(graph):
    # Bags of one are a convex problem; overlapping ones of large features a linear program.
    rng = np.random.default_rng(0)
    y = np.arange(24) % 2
    X = rng.normal(size=(24, 3)) + 0.5 * y[:, None]
    links = random_graph(rng, 24, directed=False, weighted=True) if graph == "bag" else None
    objectives = []
    for size in (1e6, 1e8):
        bags = Bags(size * X, np.arange(25), bag_graph=links)
        model = MILSD(C=30.0).fit(bags, y)
        assert model.dual_gap_ <= 1e-5 * model.objective_
        scores = model.decision_function(bags)
        hinge = np.mean(np.maximum(0.0, 1.0 - np.where(y == 1, 1.0, -1.0) * scores))
        assert model.loss_terms_[0] == pytest.approx(hinge, rel=1e-9)
        objectives.append(model.objective_)
    assert objectives[1] == pytest.approx(objectives[0], rel=1e-5)


# -- graphs of positions and of neighbours, storage, order -----------------------------------------


@pytest.fixture(scope="module")
def linked():
    """Bags with both graphs, half of them without a label."""
    bags, y = make_bags(40, 5, bag_size=(1, 5), flip_y=0.1, random_state=0)
    rng = np.random.default_rng(0)
    graph = (y[:, None] == y) & (rng.random((40, 40)) < 0.2)
    n = bags.n_instances
    X = Bags(
        bags.instances,
        bags.offsets,
        bag_graph=graph.astype(float),
        instance_graph=sparse.random(n, n, density=0.03, random_state=0, format="csr"),
        instance_data={"coords": rng.integers(0, 4, size=(n, 2))},
    )
    return X, np.where(np.arange(40) % 2 == 0, y, np.nan)


def test_the_order_of_bags_and_instances_makes_no_difference():
    # Rounding of sums in another order led to other local minima.
    for seed, storage in ((4, sparse.csr_array), (6, np.asarray)):
        rng = np.random.default_rng(seed)
        sizes = rng.integers(1, 6, size=24)
        offsets = np.r_[0, np.cumsum(sizes)]
        instances, y = rng.normal(size=(offsets[-1], 4)), np.arange(24) % 3
        instances[offsets[:-1], 0] += y
        bags, order = Bags(instances, offsets), rng.permutation(24)
        rows = np.lexsort((rng.random(offsets[-1]), np.repeat(np.arange(24), sizes)))
        inside = Bags(instances[rows], offsets)
        moved = inside[order]
        expected = MILSD(graph="knn").fit(bags.with_instances(storage(instances)), y)
        given = moved.with_instances(storage(moved.instances))
        found = MILSD(graph="knn").fit(given, y[order])
        np.testing.assert_array_equal(found.coef_, expected.coef_)
        np.testing.assert_array_equal(found.intercept_, expected.intercept_)
        np.testing.assert_array_equal(found.transduction_, expected.transduction_[order])


def test_a_step_that_misses_its_precision_warns(linked, monkeypatch):
    X, y = linked
    monkeypatch.setattr(engine, "_MAX_STEPS_IN_ALL", 1)
    with pytest.warns(ConvergenceWarning, match="solved to a relative duality gap of"):
        MILSD().fit(X, y)


@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_array])
def test_columns_of_zeros_take_no_part(linked, storage):
    X, y = linked
    places = [1, 2, 4, 7, 9]
    wide = np.zeros((X.n_instances, 12))
    wide[:, places] = X.instances
    found = MILSD(C=30.0, mu=3.0).fit(X.with_instances(storage(wide)), y)
    alone = MILSD(C=30.0, mu=3.0).fit(X, y)
    np.testing.assert_allclose(found.coef_[0, places], alone.coef_[0], atol=0.01)
    assert np.count_nonzero(found.coef_) == len(places)
    assert found.objective_ == pytest.approx(alone.objective_, rel=1e-5)


def test_columns_of_zeros_do_not_choose_another_minimum():
    X, y = random_bags(1, n_bags=40, d=12, largest=10), np.arange(40) % 2
    wide = np.zeros((X.n_instances, 24))
    wide[:, 1::2] = X.instances
    found, alone = (MILSD(C=30.0).fit(bags, y) for bags in (X.with_instances(wide), X))
    np.testing.assert_array_equal(found.coef_[:, 1::2], alone.coef_)


@pytest.mark.parametrize("others", [1.0, 1e-3, 1e3])
def test_features_far_from_zero_are_those_near_it(linked, others):
    X, y = linked
    # Steps of 1/128 survive the shift as they are; the last feature may have a scale of its own.
    steps = np.round(X.instances * 128) / 128 * [1.0, 1.0, 1.0, 1.0, others]
    near = MILSD(C=30.0, mu=3.0).fit(X.with_instances(steps), y)
    far = MILSD(C=30.0, mu=3.0).fit(X.with_instances(steps + [1e6, 0.0, 1e6, -1e6, 0.0]), y)
    assert far.objective_ == pytest.approx(near.objective_, rel=1e-4)
    np.testing.assert_allclose(far.coef_, near.coef_, atol=0.01)


def test_features_that_are_all_zero_leave_a_constant():
    model = MILSD().fit(Bags(np.zeros((60, 4)), np.arange(21) * 3), np.arange(20) % 4 == 0)
    assert not model.coef_.any()
    # The hinge losses are least where the more frequent class is right.
    np.testing.assert_allclose(model.intercept_, -1.0)
