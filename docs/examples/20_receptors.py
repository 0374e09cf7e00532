"""
Which receptors are associated with an infection?
=================================================

Read immune repertoires in the AIRR format, find receptors that people with an infection share, and predict new people by the number of
these receptors and the depth of their repertoire. The repertoires are simulated.
"""

# %%
# Simulated repertoires
# ---------------------
# 200 people with 1,000 to 8,000 receptors each. A receptor is the amino acid sequence of its CDR3. Most receptors are private. 5,000
# public ones are shared by many people, and 60 of these recognise a virus. The repertoires of infected people have 12 times as many of
# them, which are still less than 1 % of their receptors. People without the infection have some, too.
import pathlib
import tempfile

import numpy as np
import pandas as pd

rng = np.random.default_rng(0)
amino_acids = np.array(list("ACDEFGHIKLMNPQRSTVWY"))


def receptors(number):
    """Random sequences with the ends of a CDR3."""
    middle = rng.choice(amino_acids, (number, 8))
    return ["CASS" + "".join(letters) + "YF" for letters in middle]


public = receptors(5000)
popularity = rng.pareto(1.0, size=5000) + 0.1
virus, others = np.arange(60), np.arange(60, 5000)
y = np.where(np.arange(200) % 2 == 1, "infected", "not infected")
folder = tempfile.TemporaryDirectory()
for person, label in enumerate(y):
    depth = int(rng.uniform(1000, 8000))
    rate = (0.003 if label == "infected" else 0.00025) * rng.gamma(6) / 6
    mine = [public[i] for i in rng.choice(virus, min(60, rng.poisson(rate * depth)), replace=False)]
    shared = rng.choice(others, depth // 10, p=popularity[60:] / popularity[60:].sum())
    mine += [public[i] for i in shared]
    mine += receptors(depth - len(mine))
    table = pd.DataFrame({"junction_aa": mine, "duplicate_count": rng.geometric(0.5, len(mine))})
    table.to_csv(pathlib.Path(folder.name, f"person_{person}.tsv"), sep="\t", index=False)
metadata = pd.DataFrame({"filename": [f"person_{person}.tsv" for person in range(200)], "label": y})
metadata.head(3)

# %%
# Read them
# ---------
# A person is a bag, and a receptor an instance. Each distinct receptor is a feature.
from milearn.datasets import load_airr

people = load_airr(folder.name, metadata)
X, y = people.data, people.target
print(X)

# %%
# Fit
# ---
# Each receptor is tested by Fisher's exact test on the 140 training people. The threshold of the p-value is chosen on inner folds.
# ``"infected"`` is the class with more of the associated receptors.
from sklearn.metrics import roc_auc_score

from milearn.baselines import SequenceAbundanceClassifier

train, new = slice(0, 140), slice(140, 200)
model = SequenceAbundanceClassifier(pos_label="infected").fit(X[train], y[train])
infected = model.classes_ == "infected"
probability = model.predict_proba(X[new])[:, infected].ravel()
print(f"threshold {model.threshold_:g}, {len(model.associated_)} associated receptors")
print(f"AUC of new people {roc_auc_score(y[new] == 'infected', probability):.2f}")

# %%
# How many of the receptors that recognise the virus were found, and how many others were selected by chance?
found = np.isin(people.receptors[model.associated_].astype(str), public[:60])
print(f"{found.sum()} of 60 were found, and {(~found).sum()} others")

# %%
# Count and depth
# ---------------
# A deep repertoire has more associated receptors than a shallow one of the same class. The model compares the count with the depth: the
# line is where both classes are equally likely.
import matplotlib.pyplot as plt
from scipy.stats import betabinom

count, depth = model.counts(X[new]).T
grid_depth, grid_count = np.meshgrid(np.arange(800, 8200, 50), np.arange(0, count.max() + 2))
log_odds = np.diff(
    [
        betabinom.logpmf(grid_count, grid_depth, alpha, beta)
        for alpha, beta in zip(model.alpha_, model.beta_, strict=True)
    ],
    axis=0,
)[0]
fig, ax = plt.subplots(figsize=(6, 4), layout="constrained")
for label, marker in (("infected", "o"), ("not infected", "x")):
    mine = y[new] == label
    ax.scatter(depth[mine], count[mine], marker=marker, label=label)
ax.contour(grid_depth, grid_count, log_odds, levels=[0], colors="0.5")
ax.set(xlabel="depth (distinct receptors)", ylabel="associated receptors")
_ = ax.legend()

# %%
# :doc:`/tutorials/receptors` has further models for repertoires.
folder.cleanup()
