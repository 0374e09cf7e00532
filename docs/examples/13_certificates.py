"""
Bound the distance from the optimum
===================================

Multiple-instance problems are not convex, and a solver finds *some* stationary point. Two different gaps measure how
good it is, and they are easily confused.
"""

# %%
# The dual gap
# ------------
# ``dual_gap_`` of :class:`~milearn.svm.MISVC` belongs to the last convex step, which is solved to this precision. It
# does not cover other choices of witnesses. Twenty random starts, all with a tiny dual gap, end at different
# objectives.
import matplotlib.pyplot as plt
import numpy as np

from milearn import MISVC
from milearn.datasets import make_bags

bags, labels = make_bags(460, 8, concept_distance=3.0, n_distractors=2, random_state=2)
X, y, X_new, y_new = bags[:60], labels[:60], bags[60:], labels[60:]
fits = [MISVC(init="random", random_state=seed).fit(X, y) for seed in range(20)]
objectives = np.array([fit.objective_ for fit in fits])
default = MISVC().fit(X, y)
print(f"largest dual gap {max(fit.dual_gap_ for fit in fits):.1e}")
print(
    f"objectives from {objectives.min():.2f} to {objectives.max():.2f}; default start {default.objective_:.2f}"
)

# %%
figure, ax = plt.subplots(figsize=(7.4, 3.8), layout="constrained")
for number, fit in enumerate(fits):
    label = None if number else "random starts"
    ax.plot(fit.objective_history_, color="grey", alpha=0.4, label=label)
ax.plot(default.objective_history_, marker=".", label="default start")
ax.set_title("Objective of each start")
ax.set_xlabel("step")
ax.set_ylabel("objective")
ax.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False)

# %%
# The optimality gap
# ------------------
# A lower bound of the minimum is stronger: no choice of witnesses has a lower objective.
# :class:`~milearn.ensemble.DPBoost` computes one from a linear relaxation, and ``optimality_gap_`` is the objective of
# the solution minus this bound. The minimum is between both.
from milearn import DPBoost

X_small, y_small = make_bags(24, 3, bag_size=(3, 5), concept_distance=2.5, random_state=2)
relaxed = DPBoost(C=0.3).fit(X_small, y_small)

# %%
# On small problems branch and bound closes the gap, which is the shaded band: the bound and the objective meet, and the
# solution is *the* best one over all stumps. The solution above was close to it, which its gap did not show.
exact = DPBoost(C=0.3, branch=True).fit(X_small, y_small)

figure, axes = plt.subplots(1, 2, sharey=True, figsize=(7.4, 3.2), layout="constrained")
for ax, name, model in zip(axes, ("relaxation", "branch and bound"), (relaxed, exact), strict=True):
    ax.plot(model.objective_history_, marker=".", label="objective")
    ax.axhspan(model.lower_bound_, model.objective_, alpha=0.25, label="optimality gap")
    ax.set_title(name)
    ax.set_xlabel("step")
    print(
        f"{name:17s} objective {model.objective_:.4f}, bound {model.lower_bound_:.4f}, "
        f"gap {model.optimality_gap_:.4f}"
    )
axes[0].set_ylabel("objective")
axes[1].legend()

# %%
# Does the lower objective predict better?
# ----------------------------------------
# Here it does: the better the minimum, the better the model on new bags, and the default start is better than all
# random ones. This is not a general rule, because the objective depends on the training bags only. If C is much too
# large, the lowest objective fits noise. ``n_init`` uses several starts and keeps the lowest objective.
accuracy = np.array([fit.score(X_new, y_new) for fit in fits])

figure, ax = plt.subplots(figsize=(7.4, 3.8), layout="constrained")
ax.plot(objectives, accuracy, "o", alpha=0.6, label="random starts")
ax.plot(
    default.objective_,
    default.score(X_new, y_new),
    "D",
    markersize=9,
    label="default start",
)
ax.set_title("Accuracy on new bags by objective")
ax.set_xlabel("objective at the end of the fit")
ax.set_ylabel("accuracy on new bags")
ax.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False)
print(f"correlation of objective and accuracy: {np.corrcoef(objectives, accuracy)[0, 1]:+.2f}")
