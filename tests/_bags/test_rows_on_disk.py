"""Bags over memory maps and of rows that are changed when they are read, against arrays."""

from __future__ import annotations

import copy
import os
import pickle
import shutil
from functools import partial

import hypothesis
import joblib
import numpy as np
import pytest
from hypothesis import strategies as st
from scipy import sparse
from sklearn.preprocessing import MinMaxScaler, Normalizer, StandardScaler

from milearn import Bags
from milearn._bags.rows_on_disk import (
    computed_when_read,
    in_type,
    is_mapped,
    is_read_in_blocks,
)
from milearn._fit.validation import STORED_FLOATS, check_bags, validate_bags
from milearn.cluster import BAMIC
from milearn.preprocessing import BagStatistics, InstanceTransformer
from tests._bags.kinds import assert_same


def made(dtype=np.float16, n_bags=30, n_features=4, *, seed=0):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 9, size=n_bags)
    matrix = rng.normal(size=(sizes.sum(), n_features)).astype(dtype)
    return Bags(matrix, np.concatenate([[0], np.cumsum(sizes)]))


def mapped_from(folder, bags, name="x.npy"):
    np.save(folder / name, bags.instances)
    return Bags(np.load(folder / name, mmap_mode="r"), bags.offsets)


@pytest.fixture(params=[np.float16, np.float32, np.float64], ids=lambda dtype: dtype.__name__)
def pair(request, tmp_path):
    bags = made(request.param)
    return bags, mapped_from(tmp_path, bags)


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks of a few rows, so that small bags are cut as large ones are."""
    monkeypatch.setitem(Bags.source.__kwdefaults__, "block_bytes", 96)


# -- selection ---------------------------------------------------------------------------------


@hypothesis.given(st.data())
@hypothesis.settings(max_examples=60, deadline=None, derandomize=True)
def test_selections_of_selections(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("map")
    plain = made(n_bags=12)
    bags = mapped_from(folder, plain)
    for _ in range(data.draw(st.integers(1, 3))):
        n = len(bags)
        key = data.draw(
            st.one_of(
                st.slices(n),
                st.lists(st.booleans(), min_size=n, max_size=n).map(np.array).filter(len)
                if n
                else st.just([]),
                st.lists(st.integers(-n, n - 1), max_size=9) if n else st.just([]),
            )
        )
        bags, plain = bags[key], plain[key]
        rows = bags.instance_rows
        for start in range(0, bags.n_instances + 1, 3):
            np.testing.assert_array_equal(
                rows[start : start + 5], plain.instances[start : start + 5]
            )
        some = np.arange(bags.n_instances)[::-2]
        np.testing.assert_array_equal(rows[some], plain.instances[some])
        for number in range(len(bags)):
            np.testing.assert_array_equal(bags[number], plain[number])
        again = pickle.loads(pickle.dumps(bags))
        assert_same(again, plain)
        assert_same(bags, plain)
        assert bags.nbytes == plain.nbytes


def test_nothing_is_read_before_it_is_asked_for(tmp_path):
    bags = made()
    lazy = mapped_from(tmp_path, bags)[[4, 1, 7]]
    assert lazy._instances is None
    assert lazy.shape == (3, 4)
    assert lazy.dtype == np.float16
    assert "n_bags=3" in repr(lazy)
    assert lazy[[1, 0]][1:]._instances is None
    assert lazy._instances is None
    assert not lazy[0].flags.writeable
    assert not lazy.instances.flags.writeable
    assert lazy.instances is lazy.instances


def test_ranges_are_views_of_the_map(tmp_path):
    whole = mapped_from(tmp_path, made())
    for part in (whole[3:9], whole[[3, 4, 5]], whole[np.arange(30) < 7], whole[3:][2:8]):
        assert np.shares_memory(part.instances, whole.instances)


def test_a_map_that_is_copied_on_writing_is_an_array_in_memory(tmp_path):
    bags = made()
    np.save(tmp_path / "x.npy", bags.instances)
    private = np.load(tmp_path / "x.npy", mmap_mode="c")
    private[0, 0] = 7
    again = pickle.loads(pickle.dumps(Bags(private, bags.offsets)))
    assert again.instances[0, 0] == 7
    assert Bags(private, bags.offsets)[[2, 0]].instances[bags.sizes[2], 0] == 7


# -- pickles -----------------------------------------------------------------------------------


def test_pickles_are_references(tmp_path):
    plain = made(n_features=512)
    bags = mapped_from(tmp_path, plain)
    for part, expected in (
        (bags, plain),
        (bags[5:20], plain[5:20]),
        (bags[[9, 2, 2]], plain[[9, 2, 2]]),
        (bags[5:20][[3, 1]], plain[5:20][[3, 1]]),
        (copy.deepcopy(bags), plain),
    ):
        stored = pickle.dumps(part)
        assert len(stored) < 2_500 < expected.instances.nbytes
        again = pickle.loads(stored)
        assert_same(again, expected)
        assert is_mapped(again.instance_rows.matrix)
        # And again from there.
        assert len(pickle.dumps(again)) < 2_500


def test_the_file_is_gone_or_another(tmp_path):
    stored = pickle.dumps(mapped_from(tmp_path, made()))
    path = tmp_path / "x.npy"
    os.rename(path, tmp_path / "y.npy")
    with pytest.raises(FileNotFoundError, match=r"x\.npy"):
        pickle.loads(stored)
    state = (tmp_path / "y.npy").stat()
    np.save(path, made().instances + 1)
    assert path.stat().st_size == state.st_size
    # Another time, or another size.
    for ns in (state.st_mtime_ns + 1, state.st_mtime_ns):
        os.utime(path, ns=(ns, ns))
        with pytest.raises(OSError, match="refer") as caught:
            pickle.loads(stored)
        assert str(caught.value) == (
            f"{path}: this file, to which pickled Bags refer, was written again; put back the old "
            "file with its time, or pickle Bags of the new one."
        )
        path.write_bytes(b"0")
    shutil.copy2(tmp_path / "y.npy", path)
    assert_same(pickle.loads(stored), made())


def test_a_file_that_was_replaced_or_removed_is_not_referred_to(tmp_path):
    plain = made()
    bags = mapped_from(tmp_path, plain)
    np.save(tmp_path / "y.npy", plain.instances + 1)
    os.replace(tmp_path / "y.npy", tmp_path / "x.npy")
    for _ in range(2):
        for again in (bags, pickle.loads(pickle.dumps(bags))):
            assert_same(again, plain)
        assert_same(pickle.loads(pickle.dumps(bags[[3, 1]])), plain[[3, 1]])
        (tmp_path / "x.npy").unlink(missing_ok=True)


def test_a_sparse_map_is_pickled_by_reference(tmp_path):
    matrix = sparse.csr_array(made(np.float32, n_features=500).instances)
    parts = {name: getattr(matrix, name) for name in ("data", "indices", "indptr")}
    for name, values in parts.items():
        np.save(tmp_path / f"{name}.npy", values)
        parts[name] = np.load(tmp_path / f"{name}.npy", mmap_mode="r")
    mapped = sparse.csr_array(tuple(parts.values()), shape=matrix.shape)
    stored = pickle.dumps(Bags(mapped, made().offsets))
    assert len(stored) < 2_500 < matrix.data.nbytes
    assert_same(pickle.loads(stored), Bags(matrix, made().offsets))


def test_maps_of_joblib_are_pickled_by_value(tmp_path):
    plain = made()
    joblib.dump(plain, tmp_path / "bags")
    bags = joblib.load(tmp_path / "bags", mmap_mode="r")
    assert is_mapped(bags.instances)
    part = bags[[3, 1]]
    stored, whole = pickle.dumps(part), pickle.dumps(bags)
    os.remove(tmp_path / "bags")
    assert_same(pickle.loads(stored), plain[[3, 1]])
    assert_same(pickle.loads(whole), plain)


def test_the_hash_follows_the_file(tmp_path):
    plain = made()
    bags = mapped_from(tmp_path, plain)
    first = joblib.hash(bags)
    assert joblib.hash(pickle.loads(pickle.dumps(bags))) == first
    assert joblib.hash(bags[1:]) != first
    other = np.load(tmp_path / "x.npy", mmap_mode="r+")
    other[0, 0] += 1
    other.flush()
    os.utime(tmp_path / "x.npy", ns=(1, 1))
    assert joblib.hash(bags) != first


# -- rows ----------------------------------------------------------------------------------------


def test_halves_become_the_same_numbers_in_single_precision():
    halves = np.arange(2**16, dtype=np.uint16).view(np.float16)
    for some in (halves, halves[np.isfinite(halves)], halves[:0]):
        for dtype in (np.float32, np.float64):
            np.testing.assert_array_equal(in_type(some, dtype), some.astype(dtype))
    assert in_type(halves, np.float16) is halves


def test_rows_that_are_consecutive_in_the_file_are_not_copied(tmp_path):
    bags = mapped_from(tmp_path, made(np.float32))
    for own in (bags, bags[[*range(20, 30), *range(20)]][:8]):
        for block in own.source(block_bytes=96).blocks():
            assert np.shares_memory(block.instances, bags.instances)


def changed(rows, by=2.0):
    rows *= by
    rows += 1.0


@pytest.mark.parametrize("kind", ["map", "memory"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_that_a_function_changes_when_they_are_read(tmp_path, kind, dtype):
    plain = made().with_instances(made().instances, feature_names=list("abcd"))
    stored = mapped_from(tmp_path, plain) if kind == "map" else plain
    bags = computed_when_read(stored, partial(changed, by=3.0), dtype)
    expected = plain.instances.astype(dtype) * dtype(3.0) + dtype(1.0)
    whole = Bags(expected, plain.offsets)
    assert is_read_in_blocks(bags)
    order = np.array([9, 2, 5, 2])
    for own, known in (
        (bags, whole),
        (bags[order], whole[order]),
        (bags.merge(np.arange(30) % 2), whole.merge(np.arange(30) % 2)),
    ):
        np.testing.assert_array_equal(own.instance_rows[7:11], known.instances[7:11])
        np.testing.assert_array_equal(own.instance_rows[order], known.instances[order])
        np.testing.assert_array_equal(own[1], known[1])
        blocks = [block.instances for block in own.source(block_bytes=8 * 4 * 7).blocks()]
        assert len(blocks) > 1
        np.testing.assert_array_equal(np.concatenate(blocks), known.instances)
        assert own._instances is None
        assert_same(pickle.loads(pickle.dumps(own)), own)
        assert_same(own, known)
    np.testing.assert_array_equal(stored.instances, plain.instances)


# -- passes in blocks --------------------------------------------------------------------------


@pytest.mark.usefixtures("small_blocks")
def test_statistics_in_blocks(pair):
    plain, bags = pair
    wide = plain.with_instances(plain.instances.astype(np.promote_types(plain.dtype, np.float32)))
    statistics = BagStatistics(("min", "max", "mean", "std", "sum", "count", "median", 0.3))
    lazy = bags[[8, 3, 20]]
    for own, other in ((bags, wide), (lazy, wide[[8, 3, 20]]), (plain, wide)):
        rows = statistics.fit_transform(own)
        assert rows.dtype == wide.dtype
        np.testing.assert_array_equal(rows, statistics.fit_transform(other))
    assert lazy._instances is None


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("inner", [StandardScaler(), MinMaxScaler(), Normalizer()])
def test_instance_transformers_in_blocks(pair, inner):
    plain, bags = pair
    wide = plain.with_instances(plain.instances.astype(np.promote_types(plain.dtype, np.float32)))
    transformer = InstanceTransformer(inner)
    expected = InstanceTransformer(inner).fit_transform(wide)
    tolerance = 1e-12 if plain.dtype == np.float64 else 1e-5
    selected = bags[[*range(29, -1, -1)]][::-1]
    for own in (bags, plain, selected):
        found = transformer.fit_transform(own)
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(
            found.instances, expected.instances, rtol=tolerance, atol=tolerance
        )
        # Scalers are fitted in blocks too, other transformers on the whole.
        assert own is not selected or own._instances is None or isinstance(inner, Normalizer)


@pytest.mark.usefixtures("small_blocks")
def test_finite_values_are_checked_in_blocks(tmp_path):
    for dtype in STORED_FLOATS:
        for value, what in ((np.nan, "NaN"), (np.inf, "infinity")):
            matrix = made(dtype).instances.copy()
            matrix[20, 1] = value
            plain = Bags(matrix, made().offsets)
            bags = mapped_from(tmp_path, plain, f"{np.dtype(dtype)}-{what}.npy")
            bag = int(plain.bag_index[20])
            for own in (plain, bags, bags[[*range(30)]]):
                with pytest.raises(ValueError, match=rf"^Bag {bag} contains {what} \(instance row"):
                    check_bags(own)
                with pytest.raises(ValueError, match=rf"^Bag {bag} contains {what} \(instance row"):
                    validate_bags(BagStatistics(), own, dtype=STORED_FLOATS)


def test_float16_becomes_float32_where_that_will_do():
    bags = made()
    for kinds, expected in (
        ((np.float64, np.float32), np.float32),
        (np.float64, np.float64),
        (STORED_FLOATS, np.float16),
    ):
        found = check_bags(bags, dtype=kinds)
        assert found.dtype == expected
        np.testing.assert_array_equal(found.instances, bags.instances.astype(expected))


def test_fitted_bags_do_not_need_the_file(tmp_path):
    bags = mapped_from(tmp_path, made(np.float32))
    model = BAMIC(n_clusters=2, random_state=0).fit(bags)
    stored = pickle.dumps(model)
    os.remove(tmp_path / "x.npy")
    assert pickle.loads(stored).predict(made(np.float32)).tolist() == model.labels_.tolist()
