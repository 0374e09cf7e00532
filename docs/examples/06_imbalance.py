"""
Choose a threshold for few positive bags
========================================

If one bag in eight is positive, always predicting "negative" is right seven times out of eight. If the AUC is high
and the recall is low, the ranking of the scores is good and the threshold is wrong.
"""

# %%
import numpy as np
from sklearn.metrics import balanced_accuracy_score, recall_score, roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from milearn import MISVC, MIClassifier
from milearn.datasets import load_digit_bags
from milearn.preprocessing import InstanceTransformer

X, y = load_digit_bags(n_bags=220, positive_fraction=0.125, return_X_y=True)
train, test = np.arange(140), np.arange(140, 220)
print(
    f"{y[train].sum()} of {len(train)} training bags are positive, {y[test].sum()} of {len(test)} test bags"
)

# %%
# Four strategies
# ---------------
# * the support vector machine with default settings;
# * ``class_weight="balanced"``: errors on positive bags cost more in the fit;
# * :class:`~sklearn.model_selection.TunedThresholdClassifierCV`: the fit does not change, and the threshold maximises
#   the balanced accuracy of inner folds;
# * ``MIClassifier(scoring="balanced_accuracy")``, which does the same without a wrapper.
from sklearn.model_selection import TunedThresholdClassifierCV

from milearn.model_selection import StratifiedBagKFold


def pipeline(**options):
    return make_pipeline(InstanceTransformer(StandardScaler()), MISVC(**options))


models = {
    "MISVC": pipeline(),
    "class_weight": pipeline(class_weight="balanced"),
    "tuned threshold": TunedThresholdClassifierCV(
        pipeline(),
        scoring="balanced_accuracy",
        cv=StratifiedBagKFold(5, shuffle=True, random_state=0),
    ),
    "MIClassifier": MIClassifier(scoring="balanced_accuracy", random_state=0),
}
rows = {}
for name, model in models.items():
    predicted = model.fit(X[train], y[train]).predict(X[test])
    rows[name] = (
        np.mean(predicted == y[test]),
        recall_score(y[test], predicted),
        balanced_accuracy_score(y[test], predicted),
        roc_auc_score(y[test], model.decision_function(X[test])),
    )
print(f"{'':16s} accuracy  recall  balanced    AUC")
for name, (accuracy, recall, balanced, auc) in rows.items():
    print(f"{name:16s} {accuracy:8.2f} {recall:7.2f} {balanced:9.2f} {auc:6.2f}")

# %%
# Where is the threshold?
# -----------------------
# The same scores twice: with the default threshold, and with the tuned one. ``density=True`` scales both classes to the
# same area.
import matplotlib.pyplot as plt

from milearn.inspection import BagScoresDisplay

figure, axes = plt.subplots(1, 2, figsize=(9.5, 3.6), layout="constrained", sharey=True)
for ax, name in zip(axes, ("MISVC", "tuned threshold"), strict=True):
    BagScoresDisplay.from_estimator(models[name], X[test], y[test], bins=16, density=True, ax=ax)
    ax.set_title(name)
axes[0].get_legend().remove()

# %%
# ``class_weight`` changes nothing here, because the model has no errors on the training bags that could cost more.
#
# Tune the threshold on bags that were not used to fit the model, as above. A threshold that is chosen on the test bags
# inflates all scores on them. With few positive bags the threshold is uncertain: the 16 of this training set leave
# three or four in each inner fold.
