"""
Start in ten lines
==================

Bags of handwritten digits: a bag is positive when a 9 is among its digits, and nobody says which of them it is.
:class:`~milearn.MIClassifier` has nothing to set.
"""

# %%
# Cross-validate first: the accuracy over bags that the model has not seen.
from sklearn.model_selection import cross_val_score, train_test_split

from milearn import MIClassifier
from milearn.datasets import load_digit_bags

X, y = load_digit_bags(return_X_y=True)
scores = cross_val_score(MIClassifier(random_state=0), X, y)
print(
    f"accuracy {scores.mean():.3f}, from {scores.min():.3f} to {scores.max():.3f} over five folds"
)

# %%
# Then fit. ``X`` holds all bags in one container, which is indexed by bags as an array is by rows.
X_train, X_test, y_train, y_test = train_test_split(X, y, stratify=y, random_state=0)
model = MIClassifier(random_state=0).fit(X_train, y_train)
print(f"chosen: {model.paradigm_!r}; accuracy on new bags {model.score(X_test, y_test):.3f}")

# %%
# How well do the scores divide the classes? These bags were not seen in training.
from milearn.inspection import BagScoresDisplay

_ = BagScoresDisplay.from_estimator(model, X_test, y_test, bins=16)

# %%
# Which instances decided? The highest score comes first; each frame has the colour of its bag's class.
from milearn.inspection import WitnessDisplay

_ = WitnessDisplay.from_estimator(model, X_test, y_test, instance_shape=(8, 8), max_bags=16)
