"""
Read instance scores with care
==============================

If a model of bags scores instances, it is tempting to read it as a model of instances. This example shows four things
to know before you show a heat map to others.
"""

# %%
# These bags have known witnesses, so everything can be checked. The test bags contain witnesses of the concept, and
# distractors that occur in bags of both classes.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from milearn import MISVC, InstanceMISVC, MIClassifier
from milearn.baselines import SingleInstance
from milearn.datasets import make_bags
from milearn.inspection import final_step
from milearn.preprocessing import InstanceTransformer
from milearn.svm import BagSVC

X, y, truth = make_bags(
    n_bags=900, n_distractors=2, concept_distance=3.5, random_state=0, return_instance_labels=True
)
train, test = np.arange(120), np.arange(120, 900)
X_train, X_test = X[train], X[test]
truth_test = truth[X.offsets[120] :]

# %%
# A good model of bags need not be a good model of instances
# ----------------------------------------------------------
# Vanwinckelen and others (2016) found that the ranking of methods on bags is a poor guide to their ranking on
# instances. Here are both, on new bags.
scaler = InstanceTransformer(StandardScaler())
models = {
    "MISVC": make_pipeline(scaler, MISVC()),
    "InstanceMISVC": make_pipeline(scaler, InstanceMISVC()),
    "BagSVC": BagSVC(),
    "MIClassifier": MIClassifier(random_state=0),
    "SingleInstance": make_pipeline(scaler, SingleInstance(LogisticRegression(), pooling="max")),
}
aucs = {}
for name, model in models.items():
    model.fit(X_train, y[train])
    last, inner = final_step(model, X_test)
    aucs[name] = (
        roc_auc_score(y[test], last.decision_function(inner)),
        roc_auc_score(truth_test, last.instance_decision_function(inner)),
    )
    print(f"{name:15s} AUC of bags {aucs[name][0]:.3f}, of instances {aucs[name][1]:.3f}")

figure, ax = plt.subplots(figsize=(6.4, 4.0), layout="constrained")
for (name, (bags, instances)), marker, size in zip(
    aucs.items(), "osD^v", (15, 11, 9, 7, 9), strict=True
):
    ax.plot(bags, instances, marker, markersize=size, label=name)
low = min(map(min, aucs.values())) - 0.02
ax.plot([low, 1], [low, 1], color="grey", linewidth=0.8)
ax.set_xlabel("AUC of bags")
ax.set_ylabel("AUC of instances")
ax.set_title("Two levels of one model")
ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)

# %%
# BagSVC is the worst model of bags and a better model of instances. So if you need instances, **test instances**: label
# those of a few dozen bags by hand and compare. A score on bags does not replace this.
#
# Every bag has a witness
# -----------------------
# The witness is the highest instance of a bag. Negative bags have one too, and so do all bags under a model that was
# fitted to shuffled labels. A witness alone is not evidence: look at its score.
rng = np.random.default_rng(0)
honest = models["MISVC"]
shuffled = make_pipeline(scaler, MISVC()).fit(X_train, rng.permutation(y[train]))

figure, axes = plt.subplots(1, 2, figsize=(9.5, 3.6), sharey=True, layout="constrained")
from milearn.inspection import BagScoresDisplay

for ax, model, title in zip(
    axes, (honest, shuffled), ("labels as they are", "labels shuffled in training"), strict=True
):
    BagScoresDisplay.from_estimator(model, X_test, y[test], bins=18, ax=ax)
    ax.set_title(title)
    ax.set_xlabel("score of the witness")
axes[0].get_legend().remove()

# %%
# The sign
# --------
# ``instance_decision_function`` is positive for ``classes_[1]``, the second of the sorted labels. Names are sorted
# alphabetically: of "normal" and "benign" it is "normal". Set ``pos_label`` to the class of which one instance is enough.
# ``instance_scores``, displays and witnesses then belong to this class. If it is ``classes_[0]``, the witness is the
# instance with the *lowest* ``instance_decision_function``.
named = np.where(y == 1, "benign growth", "normal")
model = make_pipeline(scaler, MISVC(pos_label="benign growth")).fit(X_train, named[train])
last, inner = final_step(model, X_test[[0]])
scores = last.instance_decision_function(inner)
print("classes:", model.classes_)
print("scores:", scores.round(2))
print("witness:", last.witness(inner)[0], "lowest score:", int(np.argmin(scores)))

# %%
# Calibration
# -----------
# ``predict_proba`` of :class:`~milearn.MIClassifier` is calibrated on bags that were left out: of the bags with
# probability 0.8, about eight in ten should be positive. This does not hold for instances. A sigmoid of the score of an
# instance is not the probability that the instance is positive, because the training data do not contain the number of
# positive instances.
from scipy.special import expit
from sklearn.calibration import CalibrationDisplay

figure, ax = plt.subplots(figsize=(8.0, 4.0), layout="constrained")
CalibrationDisplay.from_predictions(
    y[test],
    models["MIClassifier"].predict_proba(X_test)[:, 1],
    n_bins=6,
    name="bags, predict_proba",
    marker="o",
    linewidth=2.5,
    ax=ax,
)
for name, marker in (("MIClassifier", "s"), ("BagSVC", "^")):
    CalibrationDisplay.from_predictions(
        truth_test,
        expit(models[name].instance_decision_function(X_test)),
        n_bins=6,
        name=f"instances, sigmoid of {name}",
        marker=marker,
        linestyle="--",
        ax=ax,
    )
ax.set_xlabel("predicted probability")
ax.set_ylabel("proportion that is positive")
ax.set_title("Probabilities of bags, sigmoids of instances")
ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)

# %%
# The bags are close to the diagonal, slightly above it: the sigmoid was fitted to few bags and is conservative. The
# instances of MIClassifier happen to be close to it as well. The instances of BagSVC are not: few instances with a
# sigmoid of 0.4 are positive, although these scores rank the instances better.
#
# References
# ----------
# G. Vanwinckelen, V. Tragante do O, D. Fierens, H. Blockeel. Instance-level accuracy versus bag-level accuracy in
# multi-instance learning. *Data Mining and Knowledge Discovery*, 30:313-341, 2016.
