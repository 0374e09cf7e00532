"""
Cluster bags
============

Groups of bags without labels. :class:`~milearn.cluster.M3IC` finds one instance of each bag that is typical of its
cluster; :class:`~milearn.cluster.BAMIC` compares whole bags.
"""

# %%
# Every bag contains one digit of a kind, 0, 4 or 7, twice, and four digits of other kinds. The clusters should be the
# kinds, although the data do not show that the kind matters.
import numpy as np
from sklearn.datasets import load_digits

from milearn import Bags

rng = np.random.default_rng(0)
digits = load_digits()
kinds = np.array([0, 4, 7])
pools = {kind: rng.permutation(np.flatnonzero(digits.target == kind)) for kind in kinds}
others = rng.permutation(np.flatnonzero(~np.isin(digits.target, kinds)))
kind = np.tile(kinds, 40)
rows = []
for bag, number in enumerate(kind):
    own = pools[number][2 * (bag // 3) : 2 * (bag // 3) + 2]
    rows.append(rng.permutation(np.concatenate([own, others[4 * bag : 4 * bag + 4]])))
X = Bags(digits.data[np.concatenate(rows)] / 16.0, np.arange(0, 6 * 120 + 1, 6))
print(X)

# %%
# The kinds are used only for this comparison. A single cluster for all bags would be right for a third of them.
from sklearn.cluster import KMeans
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler

from milearn.cluster import BAMIC, M3IC
from milearn.metrics import clustering_accuracy
from milearn.preprocessing import BagStatistics, InstanceTransformer

scaling = [InstanceTransformer(StandardScaler()), InstanceTransformer(Normalizer())]
models = {
    "M3IC": make_pipeline(*scaling, M3IC(3, C=100.0, random_state=0)),
    "BAMIC": make_pipeline(*scaling, BAMIC(3, metric="mean", random_state=0)),
    "k-means on bag means": make_pipeline(
        *scaling, BagStatistics(("mean",)), KMeans(3, n_init=10, random_state=0)
    ),
}
found = {}
for name, model in models.items():
    found[name] = model.fit_predict(X)
    sizes = np.bincount(found[name], minlength=3)
    print(f"{name:21s} {clustering_accuracy(kind, found[name]):.2f}, sizes {sizes}")

# %%
# Which digits are in which cluster
# ---------------------------------
import matplotlib.pyplot as plt

figure, axes = plt.subplots(1, 3, figsize=(9.0, 3.6), sharey=True, layout="compressed")
for ax, (name, labels) in zip(axes, found.items(), strict=True):
    table = np.array([[np.sum((kind == k) & (labels == c)) for c in range(3)] for k in kinds])
    ax.imshow(table, cmap="Blues", vmin=0, vmax=40)
    for (row, column), count in np.ndenumerate(table):
        ax.text(
            column, row, count, ha="center", va="center", color="white" if count > 22 else "black"
        )
    ax.set_title(name, fontsize=11)
    ax.set_xticks(range(3))
    ax.set_yticks(range(3), kinds)
    ax.set_xlabel("cluster")
axes[0].set_ylabel("digit of the bag")

# %%
# The witnesses of M3IC
# ---------------------
# For each of the first bags, the digit that is most typical of its cluster, with the number and colour of the cluster.
from milearn.inspection import WitnessDisplay

display = WitnessDisplay.from_estimator(
    models["M3IC"],
    X,
    found["M3IC"],
    bags=np.argsort(found["M3IC"][:24], kind="stable"),
    instance_shape=(8, 8),
)
_ = display.figure_.suptitle("The witness of each bag, by cluster")

# %%
# M3IC can leave clusters empty, see :ref:`methods_clustering`. Always check the sizes of the clusters.
