"""The published sets: every file is read."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from milearn.datasets import (
    fetch_andrews,
    fetch_musk,
    load_bags,
)

# File: bags, instances, features, positive bags (None when not binary), smallest, largest bag.
SETS = {
    "musk1.npz": (92, 476, 166, 47, 2, 40),
    "musk2.npz": (102, 6598, 166, 39, 1, 1044),
    "elephant.npz": (200, 1391, 230, 100, 2, 13),
    "fox.npz": (200, 1320, 230, 100, 2, 13),
    "tiger.npz": (200, 1220, 230, 100, 1, 13),
    "trec9/tst1.npz": (400, 3224, 66552, 200, 1, 19),
    "trec9/tst2.npz": (400, 3344, 66153, 200, 1, 19),
    "trec9/tst3.npz": (400, 3246, 66144, 200, 1, 20),
    "trec9/tst7.npz": (400, 3367, 66823, 200, 1, 19),
    "trec9/tst10.npz": (400, 3453, 66082, 200, 1, 20),
    "corel1000_10class.npz": (1000, 4306, 9, None, 2, 13),
    "lj_16_30_2.npz": (120, 477, 30, None, 3, 5),
    "lj_80_166_1.npz": (184, 737, 166, None, 3, 5),
    "lj_160_166_1.npz": (184, 723, 166, None, 3, 5),
    "webkb.npz": (8281, 62048, 16274, None, 1, 902),
    "trx_protein.npz": (193, 26611, 8, 25, 35, 189),
    "newsgroups/alt_atheism.npz": (100, 5443, 200, 50, 22, 76),
    "newsgroups/comp_graphics.npz": (100, 3094, 200, 49, 12, 58),
    "newsgroups/rec_autos.npz": (100, 3458, 200, 50, 15, 59),
    "newsgroups/sci_med.npz": (100, 3045, 200, 50, 11, 54),
    "newsgroups/talk_politics_guns.npz": (100, 3558, 200, 50, 13, 59),
    "mutagenesis1.npz": (188, 10486, 7, 125, 28, 88),
}


def real(data_dir, name):
    path = data_dir / name
    if not path.exists():
        pytest.skip(f"no real data: {name} is not in the data folder")
    return path


@pytest.mark.parametrize("name", SETS)
def test_every_published_file_is_read(data_dir, name):
    X, y = load_bags(real(data_dir, name), return_X_y=True)
    n_bags, n_instances, n_features, n_positive, smallest, largest = SETS[name]
    assert X.shape == (n_bags, n_features)
    assert X.n_instances == n_instances
    assert (X.sizes.min(), X.sizes.max()) == (smallest, largest)
    assert y.shape == (n_bags,)
    if n_positive is not None:
        assert (y > 0).sum() == n_positive
        assert len(np.unique(y)) == 2


def test_what_else_the_files_know(data_dir):
    webkb = load_bags(real(data_dir, "webkb.npz"))
    assert webkb.classes[5] == "staff"
    assert (webkb.target == "staff").sum() == 137
    assert webkb.groups[0] in ("cornell", "misc", "texas", "washington")
    lj = load_bags(real(data_dir, "lj_16_30_2.npz"))
    assert_array_equal(np.bincount(lj.split), [60, 60])
    news = load_bags(real(data_dir, "newsgroups/sci_med.npz"))
    highest = np.maximum.reduceat(news.instance_labels, news.data.offsets[:-1])
    assert_array_equal(highest, news.target)


def test_fetchers_take_what_lies_in_the_data_home(data_dir):
    real(data_dir, "musk2.npz")
    musk = fetch_musk(2, data_home=data_dir, download_if_missing=False)
    assert musk.data.shape == (102, 166)
    assert musk.target.sum() == 39
    assert musk.target_names.tolist() == ["non-musk", "musk"]
    for name in ("elephant", "fox", "tiger", "trec1", "trec2", "trec3", "trec7", "trec10"):
        X, y = fetch_andrews(name, data_home=data_dir, download_if_missing=False, return_X_y=True)
        assert y.sum() == len(X) // 2
