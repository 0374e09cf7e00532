"""
Predict values of bags
======================

The label of a bag can be a number: the affinity of a molecule is that of the shape that binds best.
:class:`~milearn.MIRegressor` needs no tuning.
"""

# %%
# Artificial molecules with Lennard-Jones energies: 3 to 5 shapes each, and 30 distances to the receptor, of which the
# first 16 matter.
import numpy as np
from sklearn.ensemble import RandomForestRegressor
from sklearn.metrics import r2_score
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline

from milearn import MIRegressor
from milearn.datasets import make_affinity
from milearn.preprocessing import BagStatistics

X, y, shape_values = make_affinity(n_bags=150, random_state=0, return_instance_values=True)
print(X)

# %%
# A plain baseline: minimum, maximum and mean of each distance, and a random forest.
baseline = make_pipeline(
    BagStatistics(("min", "max", "mean")), RandomForestRegressor(100, random_state=0)
)
predictions = {
    "BagStatistics + random forest": cross_val_predict(baseline, X, y),
    "MIRegressor": cross_val_predict(MIRegressor(random_state=0), X, y),
}

# %%
import matplotlib.pyplot as plt

figure, axes = plt.subplots(
    1, 2, figsize=(9.0, 4.2), sharex=True, sharey=True, layout="constrained"
)
for ax, (name, predicted) in zip(axes, predictions.items(), strict=True):
    ax.plot(y, predicted, "o", alpha=0.6, markersize=5)
    ends = [y.min(), y.max()]
    ax.plot(ends, ends, color="grey", linewidth=1.0)
    ax.set_title(f"{name}\n$R^2$ = {r2_score(y, predicted):.2f}", fontsize=11)
    ax.set_xlabel("affinity")
axes[0].set_ylabel("prediction for molecules left out")

# %%
# The shapes of one molecule
# --------------------------
# The model also predicts values of instances, because a shape is a molecule with one shape. The true values are known
# here.
from milearn.inspection import InstanceScoresDisplay

model = MIRegressor(random_state=0).fit(X[:120], y[:120])
bag = 120 + int(np.argmax(y[120:]))
display = InstanceScoresDisplay.from_estimator(model, X, bag=bag)
true = shape_values[X.offsets[bag] : X.offsets[bag + 1]]
display.ax_.plot(np.arange(len(true)), true, "kD", markersize=7, label="true affinity")
display.ax_.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False)
display.figure_.suptitle("Predicted and true affinities of the shapes of a molecule")
print(f"chosen: {model.paradigm_!r}")
