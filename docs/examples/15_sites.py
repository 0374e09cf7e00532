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
# Does the hospital predict the label? The test predicts each patient from the others of the same hospital, and compares the
# accuracy with permuted labels.
from milearn.model_selection import site_label_test

print(site_label_test(y, site, random_state=0))

# %%
# Two kinds of folds
# ------------------
# ``SiteKFold`` keeps hospitals together, with class counts that exchanges of hospitals make more equal. The deviation is the
# proportion of the bags of a class that would have to change fold for equal counts, and the bound is the deviation if
# single bags were assigned to folds.
from milearn.model_selection import SiteKFold, StratifiedBagKFold

folds = SiteKFold(n_splits=5).assign(X, y, site)
print(folds.counts)
print(
    f"deviation {folds.deviation:.4f}, bound {folds.bound:.4f}, greedy folds {folds.greedy_deviation:.4f}"
)

# %%
# A user of the model at a new hospital will see the score at 400 new hospitals.
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from milearn.preprocessing import BagStatistics

model = make_pipeline(BagStatistics("mean"), StandardScaler(), LogisticRegression())
plain = StratifiedBagKFold(5, shuffle=True, random_state=0)
new_X, new_y = hospitals(400, seed=1)
new_scores = model.fit(X, y).decision_function(new_X)
auc = {
    "patients of all hospitals\non both sides": cross_val_score(
        model, X, y, cv=plain, scoring="roc_auc"
    ),
    "SiteKFold": cross_val_score(model, X, y, cv=SiteKFold(5), groups=site, scoring="roc_auc"),
    "new hospitals": np.array([roc_auc_score(new_y, new_scores)]),
}
for name, values in auc.items():
    print(f"{name.replace(chr(10), ' '):42s} {values.mean():.3f}")

# %%
# The plot
# --------
# Left: the areas under the ROC curve, with a point for each fold. Right: the patients of each class in the folds of
# ``StratifiedBagKFold`` with groups, which is greedy, and of ``SiteKFold``. With many small hospitals both are nearly
# equal, and ``SiteKFold`` compares them with the bound.
import matplotlib.pyplot as plt

greedy = np.array(
    [
        np.bincount(y[test], minlength=2)
        for _, test in StratifiedBagKFold(5).split(X, y, groups=site)
    ]
)
figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 4.2), layout="constrained")
left.set_title("AUC by kind of split")
right.set_title("Patients of each class in each fold")
for at, values in enumerate(auc.values()):
    left.bar(at, values.mean(), color="#0072B2", alpha=0.55, width=0.6)
    left.plot(np.full(len(values), at), values, ".", color="#333333")
left.axhline(0.5, color="#333333", linestyle="--", linewidth=1)
left.set_xticks(range(3), ["both sides", "SiteKFold", "new hospitals"])
left.set_ylabel("area under the ROC curve")
left.set_ylim(0.4, 1.0)
places = np.r_[0:5, 6:11]
counts = np.vstack([greedy, folds.counts])
right.bar(places, counts[:, 0], color="#0072B2", alpha=0.55, label="healthy")
right.bar(places, counts[:, 1], bottom=counts[:, 0], color="#D55E00", alpha=0.55, label="ill")
for place, (healthy, ill) in zip(places, counts, strict=True):
    right.text(place, healthy / 2, healthy, ha="center", va="center")
    right.text(place, healthy + ill / 2, ill, ha="center", va="center")
right.set_xticks([2, 8], ["greedy", "SiteKFold"])
right.set_ylabel("patients in the fold")
right.legend(frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
for ax in (left, right):
    ax.spines[["top", "right"]].set_visible(False)

# %%
# The folds measure how well a model works at a hospital that it has not seen. They do not remove the shift. Normalise
# the stain, or use features that do not depend on it, and look at this score again.
