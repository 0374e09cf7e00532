"""
Find the deciding instances
===========================

Bags have labels and instances do not. A fitted model still scores every instance, and ``witness`` returns the row of
the deciding instance of each bag. Here the instances are images of digits, so you can see the answer, and their
labels are known, so you can check it.
"""

# %%
# MI-SVM, :class:`~milearn.svm.MISVC`, scores a bag by its highest instance. The scaler is part of the pipeline, so it
# is fitted to the training bags only.
import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from milearn import MISVC
from milearn.datasets import load_digit_bags
from milearn.preprocessing import InstanceTransformer

digits = load_digit_bags(n_bags=200)
X, y = digits.data, digits.target
train, test = np.arange(120), np.arange(120, 200)
model = make_pipeline(InstanceTransformer(StandardScaler()), MISVC())
model.fit(X[train], y[train])
print(f"accuracy on new bags: {model.score(X[test], y[test]):.3f}")

# %%
# One bag
# -------
# The first positive bag of the test set, with one bar per digit.
from milearn.inspection import InstanceScoresDisplay

bag = test[y[test] == 1][0]
display = InstanceScoresDisplay.from_estimator(model, X, bag=bag)
_ = display.figure_.suptitle("Scores of the digits of one bag")

# %%
# Many bags
# ---------
# The deciding digit of each positive test bag, the highest score first. The model is least certain about the last ones.
from milearn.inspection import WitnessDisplay

positive = test[y[test] == 1]
scores = model.decision_function(X[positive])
order = positive[np.argsort(-scores)][:32]
display = WitnessDisplay.from_estimator(model, X, y, bags=order, instance_shape=(8, 8))
_ = display.figure_.suptitle("The deciding digit of each positive bag")

# %%
# How often is it the 9? The model has not seen the label of any digit. The baseline is to pick a digit of the bag at
# random.
bags = X[positive]
found = model[-1].witness(model[:-1].transform(bags))
offsets, sizes = X.offsets[positive], X.sizes[positive]
rows = found - bags.offsets[:-1] + offsets
right = digits.instance_digits[rows] == 9
print(f"the witness is a 9 in {right.mean():.0%} of {len(positive)} positive bags")
print(f"a digit picked at random would be one in {np.mean(1 / sizes):.0%}")

# %%
# On an image
# -----------
# Instances are often patches of an image. With their coordinates the scores become a heat map. Here 36 digits form one
# image, two of them are 9s, and each digit is an instance of one bag. One 9 is red and circled: it is the witness. The
# other one, below it, has the highest score of the rest. One 9 is enough to make the bag positive, and the model was not
# trained to find all of them.
rng = np.random.default_rng(3)
pool, shown = X.instances[X.offsets[120] :], digits.instance_digits[X.offsets[120] :]
chosen = np.concatenate([np.flatnonzero(shown != 9)[:34], np.flatnonzero(shown == 9)[:2]])
chosen = rng.permutation(chosen)
rows, columns = np.divmod(np.arange(36), 6)
picture = np.zeros((48, 48))
for place, digit in enumerate(chosen):
    row, column = 8 * rows[place], 8 * columns[place]
    picture[row : row + 8, column : column + 8] = pool[digit].reshape(8, 8)

from milearn import Bags

slide = Bags(
    pool[chosen],
    [0, 36],
    feature_names=X.feature_names,
    instance_data={"coords": np.column_stack([8 * columns, 8 * rows])},
)
display = InstanceScoresDisplay.from_estimator(model, slide, coordinates="coords", patch_size=8)
display.image_.set_alpha(0.55)
display.ax_.imshow(1.0 - picture, cmap="gray", zorder=-1)
_ = display.figure_.suptitle("Heat map of 36 digits, two of them 9s")
