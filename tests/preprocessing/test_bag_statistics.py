"""BagStatistics against a loop over bags in plain NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from milearn import Bags
from milearn.preprocessing import BagStatistics

ALL = ("min", "max", "mean", "std", "sum", "count", "median", 0.0, 0.1, 0.25, 0.7, 1.0)
ALL += ("top 5%", "top 40%", "top 100%", "bottom 0.5%", "bottom 70%")


def naive(bags: Bags, statistics=ALL) -> np.ndarray:
    """One bag at a time, each statistic by the NumPy function of its name."""
    rows = []
    for block in bags:
        block = block.toarray() if sparse.issparse(block) else block
        block = block.astype(np.float64)
        parts = []
        for name in statistics:
            if name == "count":
                parts.append([len(block)])
            elif isinstance(name, str) and name.endswith("%"):
                ordered, (side, share) = np.sort(block, axis=0), name[:-1].split()
                count = max(1, int(np.ceil(float(share) / 100 * len(block))))
                parts.append((ordered[-count:] if side == "top" else ordered[:count]).mean(axis=0))
            elif isinstance(name, str):
                parts.append(getattr(np, name)(block, axis=0))
            else:
                parts.append(np.quantile(block, name, axis=0))
        rows.append(np.concatenate(parts))
    return np.array(rows)


def ragged(seed: int, n_bags: int = 30, n_features: int = 6, density: float = 1.0) -> Bags:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 9, size=n_bags)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    matrix = rng.normal(size=(offsets[-1], n_features)).round(1)
    matrix[rng.random(matrix.shape) > density] = 0
    return Bags(matrix, offsets)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("density", [1.0, 0.5, 0.1])
def test_dense_and_csr_equal_the_naive_loop(seed, density):
    bags = ragged(seed, density=density)
    expected = naive(bags)
    model = BagStatistics(ALL)
    np.testing.assert_allclose(model.fit_transform(bags), expected, rtol=1e-12, atol=1e-12)
    thin = bags.with_instances(sparse.csr_array(bags.instances))
    out = model.fit_transform(thin)
    assert isinstance(out, np.ndarray)
    np.testing.assert_allclose(out, expected, rtol=1e-12, atol=1e-12)


def test_stored_zeros_and_empty_matrices():
    stored = sparse.csr_array(
        (np.array([0.0, -1.0, 0.0, 2.0]), np.array([0, 1, 1, 0]), np.array([0, 2, 3, 4])),
        shape=(3, 3),
    )
    bags = Bags(stored, [0, 2, 3])
    np.testing.assert_allclose(BagStatistics(ALL).fit_transform(bags), naive(bags), atol=1e-15)
    nothing = Bags(sparse.csr_array((4, 2)), [0, 1, 4])
    np.testing.assert_array_equal(BagStatistics(ALL).fit_transform(nothing), naive(nothing))


def test_std_of_a_small_spread_around_a_large_value():
    block = np.array([[1e8 + 1.0], [1e8 + 2.0], [1e8 + 3.0]])
    for kind in (block, sparse.csr_array(block)):
        out = BagStatistics("std").fit_transform(Bags(kind, [0, 3]))
        np.testing.assert_allclose(out, [[np.sqrt(2 / 3)]], rtol=1e-7)


@pytest.mark.parametrize("to", [np.asarray, sparse.csr_array])
def test_std_of_a_constant_is_zero(to):
    bags = Bags(to(np.tile([0.1, 0.7, -2.3e5], (55, 1))), np.cumsum(range(11)))
    np.testing.assert_array_equal(BagStatistics("std").fit_transform(bags), np.zeros((10, 3)))


@pytest.mark.parametrize("to", [np.asarray, sparse.csr_array])
def test_float32_is_kept_and_summed_in_float64(to):
    values = np.full((20_000, 1), 0.1, dtype=np.float32)
    bags = Bags(to(values), [0, 20_000])
    out = BagStatistics(ALL).fit_transform(bags)
    assert out.dtype == np.float32
    np.testing.assert_allclose(out, naive(bags), rtol=1e-6, atol=1e-7)


def test_sparse_output():
    bags = ragged(1, density=0.1)
    thin = bags.with_instances(sparse.csr_array(bags.instances))
    for kind in (bags, thin):
        out = BagStatistics(ALL, sparse_output=True).fit_transform(kind)
        assert sparse.issparse(out)
        assert out.format == "csr"
        np.testing.assert_allclose(out.toarray(), naive(bags), rtol=1e-12, atol=1e-12)
    kept = BagStatistics(sparse_output=True).fit_transform(thin)
    assert kept.nnz == np.count_nonzero(naive(bags, ("min", "max")))


def test_wide_text_stays_small():
    # Dense, the instances would take 2 GB.
    rng = np.random.default_rng(0)
    columns = np.sort(rng.integers(0, 1_000_000, size=(300, 10)), axis=1)
    parts = (rng.uniform(size=3000), columns.ravel(), np.arange(0, 3001, 10))
    wide = sparse.csr_array(parts, shape=(300, 1_000_000))
    bags = Bags(wide, np.arange(0, 301, 10))
    out = BagStatistics(("max", "mean", "median"), sparse_output=True).fit_transform(bags)
    assert out.shape == (30, 3_000_000)
    np.testing.assert_allclose(
        out[:, :1_000_000].sum(), sum(bags[i].max(axis=0).sum() for i in range(30))
    )


def test_names():
    bags = ragged(0, n_features=2)
    model = BagStatistics(("max", 0.25, "count", "median")).fit(bags)
    assert model.statistics_ == ("max", 0.25, "count", "median")
    expected = ["max_x0", "max_x1", "q0.25_x0", "q0.25_x1", "count", "median_x0", "median_x1"]
    assert model.get_feature_names_out().tolist() == expected
    named = Bags(bags.instances, bags.offsets, feature_names=["a", "b"])
    model.fit(named)
    assert model.get_feature_names_out()[:2].tolist() == ["max_a", "max_b"]
    with pytest.raises(ValueError, match="input_features is not equal"):
        model.get_feature_names_out(["b", "a"])


KNOWN = "'min', 'max', 'mean', 'std', 'sum', 'count', 'median', "
KNOWN += "'top 5%', 'bottom 5%' or a quantile between 0 and 1."


@pytest.mark.parametrize(
    ("statistics", "sentence"),
    [
        (("mode",), f"statistics contains 'mode', which is unknown: use {KNOWN}"),
        ((True,), f"statistics contains True, which is unknown: use {KNOWN}"),
        ((float("nan"),), f"statistics contains nan, which is unknown: use {KNOWN}"),
        ((), f"statistics is empty: use at least one of {KNOWN}"),
        (None, f"statistics=None is not a sequence: use some of {KNOWN}"),
    ],
)
def test_bad_statistics(statistics, sentence):
    with pytest.raises(ValueError, match="statistics") as error:
        BagStatistics(statistics).fit(ragged(0))
    assert str(error.value) == sentence
