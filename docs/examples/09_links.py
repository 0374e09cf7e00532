"""
Use links between bags, with a control
======================================

Web pages link to each other, and proteins are related. :class:`~milearn.structured.MILSD` gives linked bags similar
scores. To find out whether the links help, you need a control: permuted links, which have the same number and the
same degrees but carry no information.
"""

# %%
# Two hundred bags with a weak concept, 16 of them labelled, and links that connect bags of the same class in 19 cases
# of 20.
import numpy as np

from milearn import MILSD, Bags
from milearn.datasets import make_bags
from milearn.structured import homophily, link_graph

n_bags, n_links = 200, 400
X, y = make_bags(n_bags, n_features=20, concept_distance=3.5, random_state=0)


def draw_links(rng):
    """Pairs of bags, 95 percent of them of one class."""
    pairs = []
    while len(pairs) < n_links:
        p, q = rng.integers(n_bags, size=2)
        if p != q and (y[p] == y[q]) == (rng.random() < 0.95):
            pairs.append((p, q))
    return np.array(pairs).T


links = draw_links(np.random.default_rng(0))
graph = link_graph(links, n_bags)
print(f"links that join bags of one class: {homophily(graph, y):.2f}")

# %%
# Bags without a label (NaN in ``y``) are used through their links. For eight draws of the labelled bags: without links,
# with links, and with links after a permutation of the bags.
rng = np.random.default_rng(1)
accuracies = {"no links": [], "links": [], "permuted links": []}
for _ in range(8):
    labelled = np.concatenate(
        [rng.choice(np.flatnonzero(y == label), 8, replace=False) for label in (0, 1)]
    )
    hidden = np.setdiff1d(np.arange(n_bags), labelled)
    known = np.full(n_bags, np.nan)
    known[labelled] = y[labelled]
    permuted = link_graph(rng.permutation(n_bags)[links], n_bags)
    for name, joined in (("no links", graph), ("links", graph), ("permuted links", permuted)):
        linked = Bags(X.instances, X.offsets, bag_graph=joined)
        model = MILSD(C=10.0, mu=0.0 if name == "no links" else 1.0, tol=0.01)
        predicted = model.fit(linked, known).transduction_
        accuracies[name].append(np.mean(predicted[hidden] == y[hidden]))
for name, values in accuracies.items():
    print(f"{name:15s} {np.mean(values):.3f} ± {np.std(values) / np.sqrt(8):.3f}")

# %%
import matplotlib.pyplot as plt

figure, ax = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
figure.suptitle("Accuracy with and without links")
table = np.array(list(accuracies.values()))
ax.plot(table, color="grey", alpha=0.5, linewidth=1.0)
ax.plot([], [], color="grey", label="one draw of the labelled bags")
ax.plot(table.mean(axis=1), "o", color="#D55E00", markersize=10, label="mean")
ax.set_xticks(range(3), accuracies)
ax.set_xlim(-0.4, 2.4)
ax.set_ylabel("accuracy on bags without a label")
ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, frameon=False)

# %%
# The benefit of the links is the difference between "links" and "permuted links" on the same draws, not the difference
# from a model with other settings. On real web pages and proteins it is close to zero (:ref:`methods_links`).
difference = table[1] - table[2]
print(f"links minus permuted links: {difference.mean():+.3f} ± {difference.std() / np.sqrt(8):.3f}")
