"""
How many cells decide?
======================

Find the share of the cells that separates two groups of patients, estimate it in each sample, and mark the cells. The samples are
simulated.
"""

# %%
# Simulated samples of 90 patients with 500 cells and ten markers each. A changed cell type has higher values of three markers. In
# samples of patients with a relapse, 3 % of the cells are changed on average, in those of the others 0.5 %. Both groups have
# changed cells, and no single cell tells them apart.
import numpy as np

from milearn import Bags

rng = np.random.default_rng(0)
y = np.where(np.arange(90) % 2 == 1, "relapse", "remission")
shift = np.zeros(10)
shift[:3] = 2.0
samples, true_share = [], []
for label in y:
    rate = (0.03 if label == "relapse" else 0.005) * rng.lognormal(sigma=0.4)
    changed = rng.random(500) < rate
    samples.append(rng.normal(size=(500, 10)) + shift * changed[:, None])
    true_share.append(changed.mean())
X, true_share = Bags.from_list(samples), np.array(true_share)
print(X)

# %%
# Fit
# ---
# The model is fitted on 60 patients. It finds the share, and which group has more changed cells. The other 30 patients are new to it.
from sklearn.metrics import roc_auc_score

from milearn.discriminant_analysis import ShareDiscriminant

model = ShareDiscriminant().fit(X[:60], y[:60])
X_new, y_new = X[60:], y[60:]
more = model.classes_[1 if model.orientation_ == 1 else 0]
print(f"share {model.share_:.1%}, more of the selected cells in {more}")
auc = roc_auc_score(y_new == model.classes_[1], model.decision_function(X_new))
print(f"AUC of new patients {auc:.2f}")

# %%
# How many cells decide?
# ----------------------
# The area under the ROC curve on the inner folds, for shares from the highest cell to all cells. A flat curve means that the data do
# not tell how many cells decide. Here, shares from 1 % to 30 % are about equally good. The chosen share is the part of a sample that is
# averaged. It is not an estimate of the share of changed cells, which follows below.
from milearn.inspection import ShareDisplay

display = ShareDisplay.from_estimator(model, X_new, y_new, kind="shares", class_label="relapse")

# %%
# The selected cells of each patient
# ----------------------------------
# A cell is selected if its score is above the cut. Each point is a new patient.
_ = display.plot(kind="bags")

# %%
# The share of selected cells is an estimate of the share of changed cells, which is known here because the samples are simulated.
selected = model.selected_share(X_new)
for label in model.classes_:
    mine = y_new == label
    print(
        f"{label}: {selected[mine].mean():.1%} selected, {true_share[60:][mine].mean():.1%} changed"
    )

# %%
# The scores of the cells
# -----------------------
# Most cells of both groups are alike. The groups differ to the right of the cut. The axis is logarithmic, because a few per cent
# of the cells would not be visible otherwise.
_ = display.plot(kind="instances")

# %%
# :doc:`/guide/shares` describes the model, and :doc:`/gallery/21_donors` lists the selected cells and their
# markers.
