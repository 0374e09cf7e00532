"""Code of the guide that needs files, a queue or a network runs here with stand-ins for these."""

from __future__ import annotations

import re
import sys
import types
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import joblib
import numpy as np
import pytest

from milearn import Bags, MIClassifier
from milearn.datasets import make_bags, save_bags
from tests.docs.test_readme_and_docs import guide_examples

DOCS = Path(__file__).resolve().parents[2] / "docs"


def names_after(page, *places, **given):
    """Names after the blocks at these places of a page, which get the names ``given``."""
    text = (DOCS / page).read_text(encoding="utf-8")
    blocks = re.findall(r"^\.\. code-block:: python\n\n((?: {3}.*\n|\n)+)", text, re.MULTILINE)
    for place in places:
        exec(re.sub(r"^ {3}", "", blocks[place], flags=re.MULTILINE), given)
    return given


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


class Pixels:
    """A tensor of PyTorch, as far as the page of images uses it."""

    def __init__(self, values):
        self.values = values

    def permute(self, *axes):
        return Pixels(self.values.transpose(axes))

    def float(self):
        return Pixels(self.values.astype(np.float32))

    def __truediv__(self, number):
        return Pixels(self.values / number)

    def numpy(self):
        return self.values


def test_quick_start_reads_a_folder():
    Path("bags").mkdir()
    for name in "ab":
        np.save(f"bags/{name}.npy", np.ones((2, 3)))
    Path("labels.csv").write_text("bag,label\na,1\nb,0\n", encoding="utf-8")
    names = names_after("start.rst", 0)
    assert names["bags"].sizes.tolist() == [2, 2]
    assert names["y"].tolist() == [1, 0]


def test_images_are_read_from_files_and_encoded_by_a_network(monkeypatch):
    image = pytest.importorskip("PIL.Image")
    for number, name in enumerate(("fox", "other")):
        folder = Path("photos", name)
        folder.mkdir(parents=True)
        image.new("RGB", (448, 230), (100 * number, 0, 0)).save(folder / "1.jpg")
    network = types.SimpleNamespace(eval=lambda: lambda pixels: Pixels(pixels.values.mean((2, 3))))
    torch = types.ModuleType("torch")
    torch.hub = types.SimpleNamespace(load=lambda *_: network)
    torch.from_numpy, torch.no_grad = Pixels, nullcontext
    monkeypatch.setitem(sys.modules, "torch", torch)
    names = names_after("tutorials/images.rst", 0)
    assert names["y"].tolist() == ["fox", "other"]
    page, _ = guide_examples(DOCS / "tutorials/images.rst")
    for example in page.examples:
        if example.source.startswith(("def corners", "def patches")):
            exec(example.source, names)
    encoded = names_after("tutorials/images.rst", 1, Bags=Bags, **names)["X"]
    assert encoded.sizes.tolist() == [2, 2]
    assert encoded.instances == pytest.approx(np.repeat([[0, 0, 0], [0.39, 0, 0]], 2, 0), abs=0.02)


def test_cells_are_read_from_annotated_and_fcs_files():
    pd = pytest.importorskip("pandas")
    names, cells = ["CD4", "CD8", "CD25", "CD127", "Time"], np.sinh(np.arange(10.0).reshape(2, 5))
    table = pd.DataFrame({"file": ["a", "b"], "donor": ["d1", "d2"], "batch": ["A", "B"]})
    table["diagnosis"] = ["ill", "healthy"]
    adata = types.SimpleNamespace(X=cells, obs=table, var_names=names)
    anndata = types.SimpleNamespace(read_h5ad=lambda path, backed: adata)
    read = names_after("tutorials/cells.rst", 0, anndata=anndata, Bags=Bags)
    assert read["y"].tolist() == ["ill", "healthy"]
    assert read["X"].bag_data["batch"].tolist() == ["A", "B"]

    class Events:
        def __init__(self, rows):
            self.X = rows

        def __getitem__(self, key):
            return Events(self.X[:, [names.index(name) for name in key[1]]])

    readfcs = types.SimpleNamespace(read=lambda file: Events(5 * cells))
    read = names_after("tutorials/cells.rst", 1, readfcs=readfcs, table=table, Bags=Bags, np=np)
    np.testing.assert_allclose(read["X"].instances[:2], np.arange(10.0).reshape(2, 5)[:, :4])
    assert read["X"].bag_data["donor"].tolist() == ["d1", "d2"]
    assert read["y"].tolist() == ["ill", "healthy"]


def test_a_method_of_patpy_predicts_donors_and_scores_cells(monkeypatch):
    pd = pytest.importorskip("pandas")

    class SupervisedSampleMethod:  # what patpy 0.15.2 has of it
        def __init__(self, sample_key, label_keys, layer):
            self.sample_key, self.label_keys, self.layer = sample_key, label_keys, layer

        def prepare_anndata(self, adata):
            self.adata, self.samples = adata, adata.obs[self.sample_key].unique()

    monkeypatch.setitem(sys.modules, "patpy", types.ModuleType("patpy"))
    monkeypatch.setitem(sys.modules, "patpy.tl", types.ModuleType("patpy.tl"))
    supervised = types.SimpleNamespace(SupervisedSampleMethod=SupervisedSampleMethod)
    monkeypatch.setitem(sys.modules, "patpy.tl.supervised", supervised)
    cells = np.random.RandomState(0).normal(size=(120, 3))
    obs = pd.DataFrame({"donor": np.tile(["d2", "d1", "d4", "d3"], 30)})
    obs["ill"] = obs["donor"].isin(["d1", "d2"])
    cells += 2.0 * obs[["ill"]].to_numpy()
    adata = types.SimpleNamespace(X=cells, obs=obs, obsm={"X_pca": cells}, uns={})
    method = names_after("tutorials/cells.rst", 2)["ShareMethod"]("donor", ["ill"], "X_pca")
    method.prepare_anndata(adata)
    assert method.predict("ill").to_dict() == {"d2": True, "d1": True, "d4": False, "d3": False}
    scores = method.get_sample_importance()["ill_score"]
    assert scores[["d1", "d2"]].min() > 0 > scores[["d3", "d4"]].max()
    cells = method.get_cell_importance()["ill_importance"]
    assert cells[obs["ill"]].mean() > cells[~obs["ill"]].mean()


def test_a_task_of_a_job_array_scores_its_fold(monkeypatch):
    X, y = make_bags(n_bags=40, n_features=3, bag_size=3, random_state=0)
    save_bags("map", X, y, groups=np.arange(40) // 2, format="npy-folder")
    monkeypatch.setenv("SLURM_ARRAY_TASK_ID", "3")
    names_after("guide/sizes.rst", 0)
    test, scores = joblib.load("fold-3.joblib")
    assert len(test) == len(scores) == 8
    assert np.mean((scores > 0) == (y[test] == 1)) > 0.5


def test_every_line_of_the_cheat_sheet_runs(monkeypatch, no_intervals):
    # A small default, as four fits of the whole one take 15 s.
    monkeypatch.setattr("milearn.MIClassifier", partial(MIClassifier, time_limit=1e-9))
    h5py, pd = pytest.importorskip("h5py"), pytest.importorskip("pandas")
    pytest.importorskip("matplotlib")
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=(6, 4)) + (bag // 2 % 2) for bag in range(24)]
    frame = pd.DataFrame({"slide": np.repeat(np.arange(24), 6), "label": 0, "size": 1.0})
    Path("features").mkdir()
    lines = ["slide_id,case_id,label"]
    for bag, rows in enumerate(arrays):
        with h5py.File(f"features/s{bag:02d}.h5", "w") as file:
            file["features"], file["coords"] = rows, 256 * np.indices((3, 2)).reshape(2, 6).T
        lines.append(f"s{bag:02d},p{bag // 2:02d},{bag // 2 % 2}")
    Path("labels.csv").write_text("\n".join(lines), encoding="utf-8")
    page = (DOCS / "guide" / "cheat_sheet.rst").read_text(encoding="utf-8")
    site = np.arange(24) % 3
    names = names_after(
        "guide/cheat_sheet.rst",
        *range(page.count(".. code-block:: python")),
        **{"arrays": arrays, "frame": frame, "site": site},
    )
    assert len(names["X_patients"]) == len(names["of_patients"]) == 12
    assert names["data"].data.sizes.tolist() == names["X"].sizes.tolist() == [6] * 24
    assert names["search"].fit(names["X"], names["y"]).best_score_ > 0.9
    assert len(page.split()) <= 350
