"""
Predict the survival of patients
================================

The label of a bag can be a time: how long a patient lived after the biopsy, or how long a pump ran. If the event has
not happened when the study ends, the outcome is censored. This example fits proportional hazards to bags in which few
instances decide.
"""

# %%
# 160 patients with 30 to 90 patches of ten features each. One to three patches are a lesion, which differs from other patches in
# one direction. Its severity sets the hazard. About a third of the patients are censored.
import numpy as np

from milearn import Bags
from milearn.survival import survival_outcomes

rng = np.random.default_rng(0)
n_patients = 160
severity = rng.uniform(size=n_patients)
direction = rng.normal(size=10)
direction *= 6.0 / np.linalg.norm(direction)
blocks = []
for level in severity:
    patches = rng.normal(size=(rng.integers(30, 91), 10))
    patches[: rng.integers(1, 4)] += level * direction
    blocks.append(patches)
X = Bags.from_list(blocks)
died = rng.exponential(10.0 * np.exp(-4.0 * severity))  # years
left = rng.exponential(2.0, size=n_patients)
y = survival_outcomes(died <= left, np.minimum(died, left))
print(X)
print(f"{(~y['event']).mean():.0%} are censored; the first outcomes:", y[:3])

# %%
# Concordance by cross-validation
# -------------------------------
# The concordance index is the fraction of comparable pairs of patients in which the patient with the higher risk dies
# first. A value of 0.5 means that the risks are not informative. :class:`~milearn.survival.MICoxPH` gives a patient the
# risk of the highest patch. It is compared with ridge Cox models of scikit-survival on the mean and on the maximum of
# each feature. :class:`~milearn.model_selection.StratifiedBagKFold` balances deaths and censored patients.
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sksurv.linear_model import CoxPHSurvivalAnalysis

from milearn.model_selection import StratifiedBagKFold
from milearn.preprocessing import BagStatistics, InstanceTransformer
from milearn.survival import MICoxPH

models = {
    "MICoxPH": make_pipeline(InstanceTransformer(StandardScaler()), MICoxPH(C=0.1)),
    "ridge Cox, means": make_pipeline(
        BagStatistics(("mean",)), StandardScaler(), CoxPHSurvivalAnalysis(alpha=10.0)
    ),
    "ridge Cox, maxima": make_pipeline(
        BagStatistics(("max",)), StandardScaler(), CoxPHSurvivalAnalysis(alpha=10.0)
    ),
}
folds = StratifiedBagKFold(4, shuffle=True, random_state=0)
for name, model in models.items():
    scores = cross_val_score(model, X, y, cv=folds)
    print(f"{name:18s} {scores.mean():.3f} (folds {scores.round(2)})")

# %%
# Two halves by predicted risk
# ----------------------------
# The risk of each patient is predicted by a model that was fitted without this patient. Risks of two models have
# different scales, so each fold is divided at its own median. The Kaplan-Meier curves of the half with the higher risks
# and of the other half show how well the prediction separates them. Bands are 95 % confidence intervals.
import matplotlib.pyplot as plt
from sklearn.model_selection import cross_val_predict
from sksurv.nonparametric import kaplan_meier_estimator

figure, axes = plt.subplots(1, 2, figsize=(9.2, 3.9), layout="constrained", sharey=True)
for name, ax in zip(("MICoxPH", "ridge Cox, means"), axes, strict=True):
    risk = cross_val_predict(models[name], X, y, cv=folds)
    high = np.zeros(n_patients, dtype=bool)
    for _, test in folds.split(X, y):
        high[test] = risk[test] > np.median(risk[test])
    for half, label, colour in ((~high, "lower risk", "C0"), (high, "higher risk", "C3")):
        time, alive, band = kaplan_meier_estimator(
            y["event"][half], y["time"][half], conf_type="log-log"
        )
        ax.step(time, alive, where="post", color=colour, label=f"{label} ({half.sum()})")
        ax.fill_between(time, *band, step="post", color=colour, alpha=0.2, linewidth=0)
    ax.set_title(name)
    ax.set_xlabel("years")
    ax.set_xlim(0, 6)
axes[0].set_ylabel("fraction alive")
axes[0].set_ylim(0, 1.02)
axes[1].legend(frameon=False)

# %%
# Survival functions and the patch behind a risk
# ----------------------------------------------
# A fitted model predicts the probability of survival at any observed time, and ``witness`` is the patch that determines
# the risk of a patient. In this example the patches of the lesion come first in each bag.
from scipy.interpolate import interp1d

scaler, cox = models["MICoxPH"].fit(X[:120], y[:120])
new = scaler.transform(X[120:])
order = np.argsort(cox.predict(new))
years = np.array([0.5, 1.0, 2.0])
survival = interp1d(cox.unique_times_, cox.predict_survival_function(new), kind="previous")(years)
for name, patient in (("lowest", order[0]), ("median", order[20]), ("highest", order[-1])):
    print(
        f"{name:8s} risk: alive after {years} years with probability {survival[patient].round(2)}, "
        f"severity {severity[120 + patient]:.2f}"
    )
first = cox.witness(new) - new.offsets[:-1]
severe = severity[120:] > 0.6
print(f"in {np.mean(first[severe] < 3):.0%} of the severe cases the patch is among the first three")
