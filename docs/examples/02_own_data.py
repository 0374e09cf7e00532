"""
Load your own data
==================

Bags usually come in one of three forms: a list of arrays, a data frame with one row per instance, or a folder with
one file per bag. :ref:`guide_data` lists all of them.
"""

# %%
# A list of arrays
# ----------------
# One 2-D array per bag, with one row per instance. Bags may have different sizes but must have the same number of
# columns.
import numpy as np
from sklearn.model_selection import cross_val_score

from milearn import Bags, MIClassifier

rng = np.random.default_rng(0)
arrays, y = [], []
for bag in range(60):
    array = rng.normal(size=(rng.integers(3, 12), 4))
    label = bag % 2
    if label:
        array[0] += [3.0, 3.0, 0.0, 0.0]  # one row makes the bag positive
    arrays.append(array)
    y.append(label)

print(cross_val_score(MIClassifier(random_state=0), arrays, y).round(2))

# %%
# You can pass the list to any estimator. If you use the bags more than once, make the container, which also prints a
# summary:
X = Bags.from_list(arrays)
print(X)

# %%
# A data frame
# ------------
# One row per instance, and a column with the name of the bag. The rows may be in any order, and the label is repeated
# in each row of the bag.
import pandas as pd

frame = pd.DataFrame(X.instances, columns=["red", "green", "blue", "texture"])
frame["slide"] = [f"slide_{bag:02d}" for bag in X.bag_index]
frame["label"] = np.asarray(y)[X.bag_index]
frame = frame.sample(frac=1.0, random_state=0)
frame.head()

# %%
# All columns except the bag and the label are features. Drop columns that the model must not use.
X_frame, y_frame, names = Bags.from_frame(frame, "slide", label="label", return_ids=True)
print(X_frame, names[:3], sep="\n")

# %%
# A folder with one file per bag
# ------------------------------
# One ``.npy`` file per bag (``.npz``, ``.h5`` and ``.pt`` are read too) and a table with the labels.
import tempfile
from pathlib import Path

from milearn.datasets import load_bag_folder

temporary = tempfile.TemporaryDirectory()
folder = Path(temporary.name) / "features"
folder.mkdir()
for number, array in enumerate(arrays):
    np.save(folder / f"slide_{number:02d}.npy", array)
table = pd.DataFrame(
    {
        "slide_id": [f"slide_{number:02d}" for number in range(60)],
        "label": ["tumour" if label else "normal" for label in y],
    }
)
table.to_csv(folder.parent / "labels.csv", index=False)

data = load_bag_folder(folder, folder.parent / "labels.csv")
print(data.data, data.classes, data.target[:6], sep="\n")

# %%
# Look at the bags before you fit
# -------------------------------
# If the classes have different bag sizes, this is often an artefact, and a model will use it.
import matplotlib.pyplot as plt

figure, ax = plt.subplots(figsize=(4.8, 3.6), layout="constrained")
sizes = [data.data.sizes[data.target == label] for label in data.classes]
ax.boxplot(sizes, widths=0.6)
ax.set_xticks([1, 2], data.classes)
ax.set_ylabel("instances per bag")
ax.set_title("Sizes of the bags by class")

# %%
# After the fit: in which features do the deciding instances of the positive bags differ?
from milearn.inspection import WitnessDisplay

named = Bags(X.instances, X.offsets, feature_names=["red", "green", "blue", "texture"])
model = MIClassifier(random_state=0).fit(named, y)
positive = np.flatnonzero(np.asarray(y) == 1)
display = WitnessDisplay.from_estimator(model, named, y, bags=positive)
_ = display.figure_.suptitle("Deciding instances of the positive bags")

# %%
temporary.cleanup()
