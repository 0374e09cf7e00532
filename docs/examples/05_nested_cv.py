"""
Search and evaluate with groups
===============================

Bags of one patient are similar. If some of them are in the training set and others in the test set, a model is
rewarded for recognising the patient. ``groups`` keeps the bags of a patient together, in the outer and in the inner
folds.
"""

# %%
# Thirty patients with four bags each. The label belongs to the patient, and every patient has a tint that is unrelated
# to the label.
import numpy as np

from milearn.datasets import make_bags

rng = np.random.default_rng(0)
n_patients, n_each = 30, 4
bags, y = make_bags(
    n_bags=n_patients * n_each, n_features=12, bag_size=5, concept_distance=4.0, random_state=0
)
by_label = np.argsort(y, kind="stable")
bags, y = bags[by_label], y[by_label]
patient = np.repeat(np.arange(n_patients), n_each)
tint = rng.normal(scale=1.4, size=(n_patients, 12))
X = bags.with_instances(bags.instances + tint[patient][bags.bag_index])
print(X)

# %%
# The search over C uses inner folds of each training set. The outer folds are made with the patients, and ``params``
# passes the patients to ``fit`` of the search, for its own folds.
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from milearn import MISVC
from milearn.model_selection import StratifiedBagKFold
from milearn.preprocessing import InstanceTransformer

outer = StratifiedBagKFold(5, shuffle=True, random_state=0)
search = GridSearchCV(
    make_pipeline(InstanceTransformer(StandardScaler()), MISVC()),
    {"misvc__C": [0.01, 0.1, 1.0, 10.0]},
    cv=StratifiedBagKFold(3, shuffle=True, random_state=1),
    scoring="roc_auc",
)
together = list(outer.split(X, y, groups=patient))
honest = cross_validate(search, X, y, cv=together, scoring="roc_auc", params={"groups": patient})

# %%
# The same without groups: the model is tested on bags of patients whose other bags are in the training set.
leaky = cross_validate(search, X, y, cv=outer, scoring="roc_auc")
print(f"patients together: {honest['test_score'].mean():.3f}")
print(f"patients divided:  {leaky['test_score'].mean():.3f}")

# %%
import matplotlib.pyplot as plt

figure, ax = plt.subplots(figsize=(6.4, 3.8), layout="constrained")
figure.suptitle("Scores with patients together and divided")
for place, scores in enumerate([honest["test_score"], leaky["test_score"]]):
    ax.plot(scores, np.full(5, place), "o", color="#0072B2", alpha=0.6, markersize=8)
    ax.plot(scores.mean(), place, "|", color="#D55E00", markersize=26, markeredgewidth=3)
ax.plot([], [], "o", color="#0072B2", alpha=0.6, label="one fold")
ax.plot([], [], "|", color="#D55E00", markersize=12, markeredgewidth=3, label="mean")
ax.axvline(0.5, color="grey", linestyle="--", linewidth=1.0, label="chance")
ax.set_yticks([0, 1], ["patients\ntogether", "patients\ndivided"])
ax.set_ylim(-0.5, 1.5)
ax.set_xlabel("AUC of bags that were left out")
ax.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=3, frameon=False)

# %%
# The difference is due to the model recognising patients. Report the first score, because new bags come from new
# patients.
#
# The scores of the search, with all bags as its training set. The curve is flat up to 0.1, and of equal means the
# search selects the first:
search.fit(X, y, groups=patient)
found = search.cv_results_
means, spread = found["mean_test_score"], found["std_test_score"]

figure, ax = plt.subplots(figsize=(7.4, 3.2), layout="constrained")
ax.errorbar(found["param_misvc__C"].astype(float), means, spread, marker="o", capsize=3)
ax.set_xscale("log")
ax.set_title("Scores of the search by C")
ax.set_xlabel("C")
ax.set_ylabel("mean AUC, and its deviation over the folds")

# %%
# The best mean of this curve is not an estimate of the model's accuracy, because it was selected for being the best.
# The outer folds give this estimate.
