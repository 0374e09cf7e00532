"""
Nested cross-validation with groups
===================================

Several bags of one patient resemble each other. When some are in the training part and others in the test part, a model is
rewarded for recognising the patient. ``groups`` keeps the bags of a patient together, in the outer folds and in the inner
ones.
"""

# %%
# Thirty patients with four bags each. The label is that of the patient, and every patient has a tint of its own that has
# nothing to do with it.
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
# The search over C has folds of its own, inside of each training part. scikit-learn passes ``groups`` to both splitters by
# metadata routing, which is switched on for this.
import sklearn
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from milearn import MISVC
from milearn.model_selection import StratifiedBagKFold
from milearn.preprocessing import InstanceTransformer

sklearn.set_config(enable_metadata_routing=True)

outer = StratifiedBagKFold(5, shuffle=True, random_state=0)
search = GridSearchCV(
    make_pipeline(InstanceTransformer(StandardScaler()), MISVC()),
    {"misvc__C": [0.01, 0.1, 1.0, 10.0]},
    cv=StratifiedBagKFold(3, shuffle=True, random_state=1),
    scoring="roc_auc",
)
honest = cross_validate(search, X, y, cv=outer, scoring="roc_auc", params={"groups": patient})

# %%
# The same without groups: each fold holds bags of patients that are trained on.
leaky = cross_validate(
    search,
    X,
    y,
    cv=outer,
    scoring="roc_auc",
    params={"groups": np.arange(len(X))},  # every bag a group of its own
)
print(f"patients together: {honest['test_score'].mean():.3f}")
print(f"patients divided:  {leaky['test_score'].mean():.3f}")

# %%
import matplotlib.pyplot as plt

figure, ax = plt.subplots(figsize=(6.4, 3.4), layout="constrained")
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
# The difference is what the model knows of the patients. Report the first figure: new bags come from new patients.
#
# What the search saw, with all bags as its training part. Up to 0.1 the curve is flat, and of equal means the search takes
# the first:
from milearn.inspection import RegularizationPathDisplay

search.fit(X, y, groups=patient)
_ = RegularizationPathDisplay.from_search(search)

# %%
# The best mean of this curve is no estimate of how good the model is, as it was chosen for being the best. That is what the
# outer folds are for.
sklearn.set_config(enable_metadata_routing=False)
