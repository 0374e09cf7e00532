"""
Classify bags in ten lines
==========================

The bags of this example are handwritten digits. A bag is positive if it contains a 9, and the labels of the digits
are unknown. :class:`~milearn.MIClassifier` needs no tuning.
"""

# %%
# Start with cross-validation: the accuracy on bags that were not used in training.
from sklearn.model_selection import cross_val_score, train_test_split

from milearn import MIClassifier
from milearn.datasets import load_digit_bags

X, y = load_digit_bags(return_X_y=True)
scores = cross_val_score(MIClassifier(random_state=0), X, y)
print(
    f"accuracy {scores.mean():.3f}, from {scores.min():.3f} to {scores.max():.3f} over five folds"
)

# %%
# Then fit. ``X`` contains all bags in one container, which is indexed by bags as an array is indexed by rows.
X_train, X_test, y_train, y_test = train_test_split(X, y, stratify=y, random_state=0)
model = MIClassifier(random_state=0).fit(X_train, y_train)
print(f"chosen: {model.paradigm_!r}; accuracy on new bags {model.score(X_test, y_test):.3f}")

# %%
# How well do the scores separate the classes? These bags were not used in training.
from milearn.inspection import BagScoresDisplay

display = BagScoresDisplay.from_estimator(model, X_test, y_test, bins=16)
_ = display.figure_.suptitle("Scores of new bags by class")

# %%
# Which instances decided? The highest score comes first. The colour of a frame is the class of the bag.
from milearn.inspection import WitnessDisplay

display = WitnessDisplay.from_estimator(model, X_test, y_test, instance_shape=(8, 8), max_bags=16)
_ = display.figure_.suptitle("The deciding digits of 16 bags")
