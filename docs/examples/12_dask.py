"""
Fit a model on a Dask cluster
=============================

Bags that are too large for one computer stay on the workers: the sizes of the bags and their labels are in your
process, the instances are not. The cluster of this example has two threads. For a real cluster you only change its
address.
"""

# %%
from distributed import Client

client = Client(processes=False, n_workers=2, threads_per_worker=1, dashboard_address=None)

# %%
# Eight small files on a disk that all workers can read. Each contains many bags.
import tempfile
from pathlib import Path

import numpy as np

from milearn.datasets import make_bags, save_bags

bags, y = make_bags(1200, 20, random_state=0)
temporary = tempfile.TemporaryDirectory()
shards = [Path(temporary.name, f"part-{number}") for number in range(8)]
for number, shard in enumerate(shards):
    save_bags(shard, bags[number::8], y[number::8], format="npy-folder")

# %%
# ``scan_bags`` reads sizes and labels, and does not load the instances.
from milearn.distributed import scan_bags

data = scan_bags(shards)
print(data.data)

# %%
# The model is the same as for bags in memory. In each pass the workers return the scores of the bags and the few rows
# near the margin.
from sklearn.pipeline import make_pipeline

from milearn import MISVC
from milearn.preprocessing import InstanceTransformer

model = make_pipeline(InstanceTransformer(), MISVC(kernel="linear", C=1.0))
model.fit(data.data, data.target)
print(f"passes over the data: {model[-1].n_passes_}, objective {model[-1].objective_:.4f}")

# %%
# The same bags in memory give the same model.
order = np.concatenate([np.arange(1200)[number::8] for number in range(8)])
local = make_pipeline(InstanceTransformer(), MISVC(kernel="linear", C=1.0))
local.fit(bags[order], y[order])
print(f"objective in memory {local[-1].objective_:.4f}")
print(f"largest difference of a weight {np.abs(local[-1].coef_ - model[-1].coef_).max():.1e}")

# %%
# Displays plot bags of this process. Predictions are in this process already; load the few bags that you plot with
# ``compute``.
import matplotlib.pyplot as plt

from milearn.inspection import BagScoresDisplay, WitnessDisplay

figure, axes = plt.subplots(2, 1, figsize=(7.0, 7.8), layout="constrained")
figure.suptitle("Scores of all bags, and deciding instances of 60 bags")
scores = model.decision_function(data.data)
BagScoresDisplay(scores=scores, labels=data.target, threshold=0.0).plot(axes[0], bins=30)
_ = WitnessDisplay.from_estimator(model, data.data[:60].compute(), data.target[:60], ax=axes[1])

# %%
client.close()
temporary.cleanup()
