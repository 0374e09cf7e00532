"""
Classify slides from a folder, out of core
==========================================

Feature extractors for whole slides write one HDF5 file per slide, with a vector and the coordinates of each patch.
Together they are larger than the memory, so they are copied once into a memory-mapped file and read in blocks.
"""

# %%
# A small folder in the format of TRIDENT and CLAM: 60 slides of 100 to 400 patches with 64 float16 features. In a
# tumour slide a few neighbouring patches are different.
import tempfile
from pathlib import Path

import h5py
import numpy as np

rng = np.random.default_rng(0)
temporary = tempfile.TemporaryDirectory()
home = Path(temporary.name)
(home / "features").mkdir()
direction = rng.normal(size=64)
direction *= 3.0 / np.linalg.norm(direction)
lines = ["slide_id,case_id,label"]
for slide in range(60):
    width, height = rng.integers(10, 21, size=2)
    column, row = np.meshgrid(np.arange(width), np.arange(height))
    places = np.column_stack([column.ravel(), row.ravel()])
    features = rng.normal(size=(len(places), 64))
    tumour = slide % 2 == 1
    if tumour:
        centre = rng.integers([2, 2], [width - 2, height - 2])
        features[np.linalg.norm(places - centre, axis=1) < 2.3] += direction
    with h5py.File(home / "features" / f"slide_{slide:02d}.h5", "w") as file:
        file["features"] = features.astype(np.float16)
        file["coords"] = places * 256  # upper left corner of the patch, in pixels
    lines.append(f"slide_{slide:02d},patient_{slide // 2:02d},{'tumour' if tumour else 'normal'}")
(home / "labels.csv").write_text("\n".join(lines) + "\n")

# %%
# Read
# ----
# ``mmap=`` is the folder of the copy. The first call reads every file once. Later you can open the copy with
# ``load_bags(home / "mapped", mmap=True)``. The features remain float16.
from milearn.datasets import load_bag_folder

data = load_bag_folder(home / "features", home / "labels.csv", mmap=home / "mapped")
X, y = data.data, data.target
print(X)

# %%
# Fit
# ---
# A linear model reads the file in passes. ``data.groups`` contains the patients, so the slides of one patient are on
# one side of every split.
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from milearn import MISVC
from milearn.model_selection import StratifiedBagKFold
from milearn.preprocessing import InstanceTransformer

classifier = MISVC(kernel="linear", C=1.0, pos_label="tumour")
model = make_pipeline(InstanceTransformer(StandardScaler()), classifier)
splits = StratifiedBagKFold(3).split(X, y, groups=data.groups)
print(cross_val_score(model, X, y, cv=list(splits), scoring="roc_auc").round(3))

# %%
# Where is the tumour?
# --------------------
# The heat map of a tumour slide that was left out. Its coordinates were read from the files. ``limit=2`` ends the
# colour scale at twice the margin. Most patches of a slide are far below the threshold, and on a scale that includes
# all of them the few patches above it would be hard to see.
from milearn.inspection import InstanceScoresDisplay

model.fit(X[:50], y[:50])
slide = 50 + int(np.flatnonzero(y[50:] == "tumour")[0])
display = InstanceScoresDisplay.from_estimator(
    model, X, bag=slide, coordinates="coords", patch_size=256, limit=2.0
)
display.ax_.set_title(f"{y[slide]} slide {slide}")

# %%
# A normal slide for comparison. With the same ``limit`` a red patch has the same meaning in both.
import matplotlib.pyplot as plt

normal = 50 + int(np.flatnonzero(y[50:] == "normal")[0])
figure, axes = plt.subplots(1, 2, figsize=(9.0, 4.4), layout="compressed")
for bag, ax in zip((slide, normal), axes, strict=True):
    InstanceScoresDisplay.from_estimator(
        model, X, bag=bag, coordinates="coords", patch_size=256, limit=2.0, ax=ax
    )
    ax.set_title(f"{y[bag]} slide {bag}")

# %%
# The :ref:`results <results_time>` have the time and memory for a million patches and more. :doc:`/gallery/12_dask`
# uses a cluster of computers.
del X, data, display
temporary.cleanup()
