"""
Plot errors and probabilities
=============================

scikit-learn's displays take bags: the ROC curve, the confusion matrix and the reliability of probabilities, each in one line.
"""

# %%
# A bag with 5 to 15 instances is positive if one of them is from the concept, which overlaps with the other instances, so no
# method is always right. ``MIClassifier`` calibrates its probabilities by inner cross-validation.
from milearn import MIClassifier
from milearn.datasets import make_bags

X, y = make_bags(n_bags=600, n_features=4, concept_distance=3.2, random_state=0)
model = MIClassifier(random_state=0).fit(X[:200], y[:200])
X_test, y_test = X[200:], y[200:]
print(X_test)

# %%
# Three displays on 400 bags that the model has not seen. A display needs a fitted model, bags and labels.
import matplotlib.pyplot as plt
from sklearn.calibration import CalibrationDisplay
from sklearn.metrics import ConfusionMatrixDisplay, RocCurveDisplay

figure, axes = plt.subplots(1, 3, figsize=(10.0, 3.6), layout="constrained")
RocCurveDisplay.from_estimator(model, X_test, y_test, plot_chance_level=True, ax=axes[0])
ConfusionMatrixDisplay.from_estimator(
    model, X_test, y_test, ax=axes[1], cmap="Blues", colorbar=False
)
CalibrationDisplay.from_estimator(model, X_test, y_test, n_bins=8, strategy="quantile", ax=axes[2])
for ax, title in zip(axes, ("ROC curve", "Confusion matrix", "Reliability"), strict=True):
    ax.set_title(title)
axes[0].set(xlabel="false positive rate", ylabel="true positive rate")
axes[2].set(xlabel="mean predicted probability", ylabel="proportion of positives")

# %%
# Reliability: of the bags with a probability of 0.8, eight of ten should be positive. Points near the diagonal mean that you can
# read the probabilities as such. A model without probabilities gets them from scikit-learn's ``CalibratedClassifierCV``, which also
# takes bags.
from sklearn.calibration import CalibratedClassifierCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from milearn import MISVC
from milearn.preprocessing import InstanceTransformer

svm = make_pipeline(InstanceTransformer(StandardScaler()), MISVC())
calibrated = CalibratedClassifierCV(svm, ensemble=False, cv=3).fit(X[:200], y[:200])
figure, ax = plt.subplots(figsize=(5.0, 4.4), layout="constrained")
ax.set_title("Reliability of two models")
for name, each in (("MIClassifier", model), ("MISVC, calibrated", calibrated)):
    CalibrationDisplay.from_estimator(
        each, X_test, y_test, n_bins=8, strategy="quantile", name=name, ax=ax
    )

# %%
# If a person can decide some of the bags, defer the uncertain ones. The remaining decisions are more accurate:
import numpy as np

probability = model.predict_proba(X_test).max(axis=1)
wrong = model.predict(X_test) != y_test
for share in (1.0, 0.8, 0.6):
    decided = probability >= np.quantile(probability, 1 - share)
    print(f"{decided.mean():.0%} of the bags decided: {wrong[decided].mean():.1%} of them wrong")

# %%
# Prediction sets with a guaranteed coverage are made by MAPIE, which takes bags too: :ref:`guide_probabilities`.
