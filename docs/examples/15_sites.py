"""
Evaluate across hospitals
=========================

Slides of one hospital share a stain and a scanner, and hospitals differ in their patients. A model can then recognise the
hospital instead of the disease. Ordinary folds do not show this, because slides of every hospital are on both sides.
"""

# %%
# Slides of 80 hospitals
# ----------------------
# A bag is a patient, and its instances are patches. Every hospital shifts all of its patches in a direction of its own,
# and the proportion of ill patients differs between hospitals. In an ill patient one patch in four is shifted a little.
import numpy as np

from milearn import Bags


def hospitals(n_hospitals, seed):
    rng = np.random.default_rng(seed)
    sizes = np.ceil(rng.lognormal(1.5, 1.0, size=n_hospitals)).astype(int)
    site = np.repeat(np.arange(n_hospitals), sizes)
    proportions = rng.choice([0.1, 0.9], size=n_hospitals)
    y = (rng.random(len(site)) < proportions[site]).astype(int)
    stain = rng.normal(scale=0.6, size=(n_hospitals, 20))
    blocks = []
    for where, label in zip(site, y, strict=True):
        patches = stain[where] + rng.normal(size=(rng.integers(15, 30), 20))
        if label:
            patches[: len(patches) // 4, 0] += 2.5
        blocks.append(patches)
    names = np.array([f"hospital {where}" for where in site])
    return Bags.from_list(blocks, bag_data={"site": names}), y


X, y = hospitals(80, seed=0)
site = X.bag_data["site"]
print(X)

# %%
# Does the hospital predict the label? A classifier that sees the hospital only is compared with permuted labels.
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from milearn.model_selection import label_permutation_test

of_site = make_pipeline(OneHotEncoder(handle_unknown="ignore"), LogisticRegression())
found = label_permutation_test(of_site, X.bag_data[["site"]], y, scoring="roc_auc", random_state=0)
print(f"AUC of the hospital alone {found.score:.2f}, p = {found.p_value:.2f}")

# %%
# Two kinds of folds
# ------------------
# With the hospitals as groups, the folds keep hospitals together, with class counts that are as equal as they can be
# made by exchanges of hospitals.
from milearn.model_selection import StratifiedBagKFold

folds = StratifiedBagKFold(5)
counts = np.array([np.bincount(y[test]) for _, test in folds.split(X, y, site)])
print(counts)

# %%
# A user of the model at a new hospital will see the score at 400 new hospitals.
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import cross_val_score

from milearn.preprocessing import BagStatistics

model = make_pipeline(BagStatistics("mean"), StandardScaler(), LogisticRegression())
plain = StratifiedBagKFold(5, shuffle=True, random_state=0)
new_X, new_y = hospitals(400, seed=1)
new_scores = model.fit(X, y).decision_function(new_X)
auc = {
    "patients of all hospitals\non both sides": cross_val_score(
        model, X, y, cv=plain, scoring="roc_auc"
    ),
    "hospitals together": cross_val_score(model, X, y, cv=folds, groups=site, scoring="roc_auc"),
    "new hospitals": np.array([roc_auc_score(new_y, new_scores)]),
}
for name, values in auc.items():
    print(f"{name.replace(chr(10), ' '):42s} {values.mean():.3f}")

# %%
# The plot
# --------
# Left: the areas under the ROC curve, with a point for each fold. Right: the patients of each class in the folds that
# keep hospitals together.
import matplotlib.pyplot as plt

figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 4.2), layout="constrained")
left.set_title("AUC by kind of split")
right.set_title("Patients of each class in each fold")
for at, values in enumerate(auc.values()):
    left.bar(at, values.mean(), color="#0072B2", alpha=0.55, width=0.6)
    left.plot(np.full(len(values), at), values, ".", color="#333333")
left.axhline(0.5, color="#333333", linestyle="--", linewidth=1)
left.set_xticks(range(3), ["both sides", "together", "new hospitals"])
left.set_ylabel("area under the ROC curve")
left.set_ylim(0.4, 1.0)
places = np.arange(5)
right.bar(places, counts[:, 0], color="#0072B2", alpha=0.55, label="healthy")
right.bar(places, counts[:, 1], bottom=counts[:, 0], color="#D55E00", alpha=0.55, label="ill")
for place, (healthy, ill) in zip(places, counts, strict=True):
    right.text(place, healthy / 2, healthy, ha="center", va="center")
    right.text(place, healthy + ill / 2, ill, ha="center", va="center")
right.set_xlabel("fold")
right.set_ylabel("patients in the fold")
right.legend(frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
for ax in (left, right):
    ax.spines[["top", "right"]].set_visible(False)

# %%
# The folds measure how well a model works at a hospital that it has not seen. They do not remove the shift. Normalise
# the stain, or use features that do not depend on it, and look at this score again.
