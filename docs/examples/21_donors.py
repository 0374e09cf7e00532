"""
Compare the cells of patients and controls
==========================================

Cross-validate a model of donors, compare it with the batch and the number of cells, test whether the score could be chance, and list the
selected cells with their markers. The cells are simulated.
"""

# %%
# 60 donors with 300 to 600 cells and eight markers each. In patients 6 % of the cells are activated on average, in controls 1 %:
# CD25 and HLA-DR are higher in these cells, and CD127 is lower. More patients than controls are in batch B, where all values are a little
# higher.
import numpy as np

from milearn import Bags

rng = np.random.default_rng(0)
markers = ["CD3", "CD4", "CD8", "CD19", "CD25", "CD56", "CD127", "HLA-DR"]
shift = np.array([0, 0, 0, 0, 2.0, 0, -1.5, 1.5])
y = np.where(np.arange(60) % 2, "patient", "control")
batch = np.where(rng.random(60) < np.where(y == "patient", 0.7, 0.3), "B", "A")
donors = []
for label, name in zip(y, batch, strict=True):
    rate = (0.06 if label == "patient" else 0.01) * rng.lognormal(sigma=0.3)
    activated = rng.random(rng.integers(300, 600)) < rate
    cells = rng.normal(size=(len(activated), 8)) + shift * activated[:, None]
    donors.append(cells + 0.2 * (name == "B"))
X = Bags.from_list(donors, feature_names=markers, bag_data={"batch": batch})
print(X)

# %%
# Score the model and its confounders
# -----------------------------------
# :func:`~milearn.model_selection.confounder_baseline` scores the model, and logistic regressions that do not see the cells, on
# the same folds. The batch alone predicts some of the diagnoses. The model is much better: the 95 % intervals over donors do not
# overlap.
from milearn.discriminant_analysis import ShareDiscriminant
from milearn.model_selection import confounder_baseline

model = ShareDiscriminant()
scores = confounder_baseline(X, y, estimator=model, covariates=["batch"])
print(scores)

# %%
# Test the score
# --------------
# Labels are permuted within each batch, so that the batch cannot cause a small p-value. With a single split the model is fitted
# once. The split need not balance the batches.
from milearn.model_selection import BagShuffleSplit, label_permutation_test

train, test = next(BagShuffleSplit(1, test_size=0.5, random_state=0).split(X, y))
found = label_permutation_test(
    model,
    X,
    y,
    strata=batch,
    cv=[(train, test)],
    scoring="roc_auc",
    n_permutations=199,
    random_state=0,
)
print(f"AUC {found.score:.2f}, p = {found.p_value:.3f}")

# %%
# Report the selected cells
# -------------------------
# A cell is selected if its score is beyond the cut of the model. The report describes the other half of the donors, which are new to the
# model. The effect of a marker is the difference between the means of the selected cells and of all cells, in standard deviations.
from milearn.inspection import share_report

report = share_report(model.fit(X[train], y[train]), X[test], y[test])
print(report)

# %%
# The share of each donor, and the effects of the markers:
_ = report.plot()

# %%
# The interval of the share of a donor depends on the number of cells:
report.bags.head(4).round(3)

# %%
# ``report.instances`` is the list of the selected cells. Write it to a file with ``to_csv``, and plot the cells with any other tool.
# Here, two markers of the selected cells are compared with those of all cells:
import matplotlib.pyplot as plt

figure, ax = plt.subplots(figsize=(5.0, 4.0), layout="constrained")
ax.plot(*X[test].instances[:, [4, 6]].T, ".", color="#7F8FA3", markersize=2, label="all cells")
ax.plot(report.instances["CD25"], report.instances["CD127"], ".", color="#D55E00", label="selected")
ax.set(xlabel="CD25", ylabel="CD127")
_ = ax.legend()

# %%
# :ref:`tutorial_cells` reads such data from AnnData and FCS files.
