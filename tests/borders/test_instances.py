"""Instances are chosen and annotated; names, columns and graphs stay, and maps fit."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from milearn import Bags
from milearn.datasets import load_bag_folder, load_bags, save_bags
from milearn.inspection import InstanceScoresDisplay, instance_scores
from milearn.svm import MISVC


@pytest.fixture
def slides():
    """Five slides with their hospital, coordinates, and the share of tissue of each patch."""
    rng = np.random.default_rng(0)
    sizes = [4, 3, 5, 2, 6]
    tissue = rng.random(20)
    tissue[7:12] = 0.0  # the third slide is blank
    bags = Bags.from_list(
        {f"s{at}": rng.normal(size=(size, 3)) for at, size in enumerate(sizes)},
        feature_names=["a", "b", "c"],
        bag_data={"hospital": ["A", "B", "A", "B", "A"]},
    )
    return bags.with_instance_data(
        coords=np.column_stack([np.arange(20) % 5, np.arange(20) // 5]) * 256, tissue=tissue
    )


def test_background_is_removed(slides):
    keep = slides.instance_data["tissue"] > 0.3
    with pytest.raises(
        ValueError, match=r"No instance is left in 1 of 5 bags \(bag 's2'\).*'drop'"
    ):
        slides.select_instances(keep)
    left = slides.select_instances(keep, empty="drop")
    assert left.names.tolist() == ["s0", "s1", "s3", "s4"]
    assert left.bag_data["hospital"].tolist() == ["A", "B", "B", "A"]
    assert np.array_equal(left.instances, slides.instances[keep])
    expected = slides.instance_data[keep].reset_index(drop=True)
    pd.testing.assert_frame_equal(left.instance_data.reset_index(drop=True), expected)
    assert left.feature_names.tolist() == ["a", "b", "c"]
    assert left.names[left.bag_index].tolist() == slides.names[slides.bag_index][keep].tolist()
    table = pd.Series([1, 0, 1, 0, 1], index=slides.names)
    y = table.loc[left.names]
    assert MISVC().fit(left, y).predict(left).shape == (4,)
    assert np.array_equal(y, table.to_numpy()[np.isin(slides.names, left.names)])
    with pytest.raises(ValueError, match=r"y\.loc"):
        MISVC().fit(left, table.sort_index(ascending=False).loc[left.names[::-1]])


def test_bags_without_names_get_their_positions(slides):
    unnamed = Bags(slides.instances, slides.offsets)
    keep, y = np.arange(20) >= 7, np.array([1, 0, 1, 0, 1])
    with pytest.raises(ValueError, match=r"2 of 5 bags \(bag 0, bag 1\)"):
        unnamed.select_instances(keep)
    left = unnamed.select_instances(keep, empty="drop")
    assert y[left.names].tolist() == [1, 0, 1]
    assert unnamed.select_instances(keep | (np.arange(20) % 2 == 0)).names is None
    with pytest.raises(ValueError, match="No instance is left in 5 of 5 bags"):
        unnamed.select_instances(np.zeros(20, dtype=bool), empty="drop")


@pytest.mark.parametrize("form", ["dense", "csr", "mapped", "merged", "pickled", "texts"])
def test_every_form_of_instances(slides, form, tmp_path):
    bags = slides
    if form == "csr":
        bags = slides.with_instances(sparse.csr_array(slides.instances))
    if form == "mapped":
        save_bags(tmp_path / "bags", slides, format="npy-folder")
        bags = load_bags(tmp_path / "bags", mmap=True).data[::-1]
    if form == "merged":
        bags = slides.with_bag_data(None).merge(["p", "q", "p", "q", "r"], source="slide")
    if form == "texts":
        bags = Bags.from_list([["a", "b", "c"], ["d"], ["e", "f"]])
    keep = np.random.default_rng(1).random(bags.n_instances) < 0.5
    keep[bags.offsets[:-1]] = True
    left = bags.select_instances(keep)
    if form == "pickled":
        left = pickle.loads(pickle.dumps(left))
    rows = bags.instances if not bags.is_sparse else bags.instances.toarray()
    found = left.instances if not left.is_sparse else left.instances.toarray()
    assert np.array_equal(found, rows[keep])
    assert left.sizes.sum() == keep.sum()
    assert np.array_equal(left.bag_index, bags.bag_index[keep])
    turned = left[[1, 0]].instances
    turned = turned.toarray() if left.is_sparse else turned
    parts = [rows[keep][left.bag_index == at] for at in (1, 0)]
    assert np.array_equal(turned, np.concatenate(parts))


def test_graphs_lose_the_links_of_what_is_gone(slides):
    graphs = {"instance_graph": sparse.eye_array(20, k=1), "bag_graph": sparse.eye_array(5, k=1)}
    linked = Bags(slides.instances, slides.offsets, **graphs)
    keep = np.arange(20) != 5
    left = linked.select_instances(keep)
    assert np.array_equal(
        left.instance_graph.toarray(), linked.instance_graph.toarray()[keep][:, keep]
    )
    blank = linked.select_instances(linked.bag_index != 2, empty="drop")
    assert blank.bag_graph.toarray().tolist() == [
        [0, 1, 0, 0], [0, 0, 0, 0], [0, 0, 0, 1], [0, 0, 0, 0]
    ]  # fmt: skip


@pytest.mark.parametrize("mask", [
    np.array([0, 2, 5]), np.ones(5, dtype=bool), np.ones(20), [0, 1] * 10, "tissue", None,
], ids=["positions", "bags", "floats", "integers", "name", "none"])  # fmt: skip
def test_masks_that_are_none(slides, mask):
    with pytest.raises(ValueError, match="give True or False for each of the 20 instances"):
        slides.select_instances(mask)


def test_masks_of_any_kind(slides):
    keep = slides.bag_index != 2
    for mask in (keep.tolist(), pd.Series(keep), pd.Series(keep, dtype="boolean")):
        assert slides.select_instances(mask, empty="drop").n_instances == 15
    with pytest.raises(ValueError, match="empty='raise' is unknown"):
        slides.select_instances(keep, empty="raise")
    with pytest.raises(IndexError, match=r"20 instances.*X.select_instances\(mask\)"):
        slides[keep]


def test_samples(slides):
    some = slides.sample_instances(3, random_state=0)
    assert some.sizes.tolist() == [3, 3, 3, 2, 3]
    assert some.names.tolist() == slides.names.tolist()
    assert some.equals(slides.sample_instances(3, random_state=0))
    assert not some.equals(slides.sample_instances(3, random_state=1))
    rows = [row.tolist() for row in slides.instances]
    places = np.array([rows.index(row.tolist()) for row in some.instances])
    assert (np.diff(places) > 0).all()  # none twice, and in their order
    assert np.array_equal(slides.bag_index[places], some.bag_index)
    assert slides.sample_instances(99).equals(slides)
    one = Bags.from_list([np.arange(4.0)[:, None]] * 4000).sample_instances(1, random_state=0)
    counts = np.bincount(one.instances[:, 0].astype(int))
    assert (np.abs(counts - 1000) < 120).all()  # every instance has the same chance
    for n in (0, 2.0):
        with pytest.raises((TypeError, ValueError)):
            slides.sample_instances(n)


def test_arrays_are_added_and_replaced(slides):
    scored = slides.with_instance_data(score=np.arange(20.0), tissue=np.ones(20))
    assert list(scored.instance_data) == ["coords_0", "coords_1", "tissue", "score"]
    assert scored.instance_data["tissue"].all()
    assert not slides.instance_data["tissue"].all()
    assert scored.names.tolist() == slides.names.tolist()
    assert scored[[name == "s3" for name in slides.names]].instance_data["score"].tolist() == [
        12.0, 13.0
    ]  # fmt: skip
    with pytest.raises(ValueError, match=r"instance_data\['score'\] has 5 entries for 20"):
        slides.with_instance_data(score=np.ones(5))


# -- the best patches as files ---------------------------------------------------------------------


def test_the_best_patches_as_csv(slides, tmp_path):
    y = [1, 0, 1, 0, 1]
    model = MISVC().fit(slides, y)
    scored = slides.with_instance_data(score=instance_scores(model, slides))
    table = scored.to_frame().rename(columns={"coords_0": "x", "coords_1": "y"})
    best = table.sort_values("score").groupby("bag").tail(2)
    best[["bag", "x", "y", "score"]].to_csv(tmp_path / "best.csv", index=False)
    read = pd.read_csv(tmp_path / "best.csv")
    scores = scored.instance_data["score"]
    for at, name in enumerate(slides.names):
        rows = np.flatnonzero(slides.bag_index == at)
        two = rows[np.argsort(scores[rows])[-2:]]
        mine = read[read["bag"] == name]
        assert np.allclose(mine["score"], scores[two])
        # Equal scores have no order.
        places = slides.instance_data[["coords_0", "coords_1"]].iloc[two]
        assert sorted(mine[["x", "y"]].to_numpy().tolist()) == sorted(places.to_numpy().tolist())


# -- sizes of patches ------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path):
    """Slides as TRIDENT writes them, of two magnifications."""
    h5py = pytest.importorskip("h5py")
    grid = np.array([(column, row) for row in range(4) for column in range(4)])
    for name, size in (("s1", 512), ("s2", 256)):
        with h5py.File(tmp_path / f"{name}.h5", "w") as file:
            rng = np.random.default_rng(size)
            file["features"], file["coords"] = rng.normal(size=(16, 3)), grid * size
            file["coords"].attrs["patch_size_level0"] = size
    return tmp_path


def extent(display):
    return [int(edge) for edge in display.image_.get_extent()]


def test_the_size_of_patches_is_read_and_used(folder):
    pytest.importorskip("matplotlib").use("Agg")
    X = load_bag_folder(folder).data
    assert X.instance_data["patch_size_level0"].tolist() == [512] * 16 + [256] * 16
    model = MISVC().fit(X, [0, 1])
    make = InstanceScoresDisplay.from_estimator
    assert extent(make(model, X, bag="s1", coordinates="coords")) == [0, 2048, 2048, 0]
    assert extent(make(model, X, bag="s2", coordinates="coords")) == [0, 1024, 1024, 0]
    with pytest.warns(UserWarning, match=r"patch_size=256, but neighbours are 512 apart"):
        make(model, X, bag="s1", coordinates="coords", patch_size=256)
    patient = X.merge(["p", "p"])
    maps = make(model.fit(X, [0, 1]), patient, coordinates="coords").maps_
    assert [each.get_extent()[1] for each in maps] == [2048, 1024]
    half = X.select_instances(X.instance_data["coords_0"] < 600)
    assert half.instance_data["patch_size_level0"].tolist() == [512] * 8 + [256] * 12
    mapped = load_bag_folder(folder, mmap=folder / "mapped").data
    assert mapped.instance_data["patch_size_level0"].tolist() == [512] * 16 + [256] * 16


def test_a_size_that_does_not_fit_the_grid():
    pytest.importorskip("matplotlib").use("Agg")
    grid = np.array([(column, row) for row in range(4) for column in range(4)]) * 512
    draw = lambda coordinates, size: InstanceScoresDisplay(  # noqa: E731
        scores=np.arange(len(coordinates)), coordinates=coordinates, patch_size=size
    ).plot()
    for size in (256, 500, 600):
        with pytest.warns(UserWarning, match=f"patch_size={size}, but neighbours are 512 apart"):
            draw(grid, size)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert extent(draw(grid, 512)) == [0, 2048, 2048, 0]
        draw(grid, 1024)  # patches that overlap by half
        draw(grid, None)
        draw(grid[[0, 3, 12]], 512)  # single patches far from each other
