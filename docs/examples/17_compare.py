"""
Compare methods, yours included
===============================

Several methods on several data sets and the same folds: a table, average ranks, tests, and a picture. Your own method needs
``fit`` and ``predict``.
"""

# %%
# Ten data sets of digits that come with scikit-learn: a bag of four to ten digits is positive if one of them is the digit in the
# name of the data set. Each data set is loaded when it is needed.
from functools import partial

from milearn.datasets import load_digit_bags

datasets = {
    f"digit {digit}": partial(load_digit_bags, n_bags=80, digit=digit, random_state=digit)
    for digit in range(10)
}

# %%
# Your own method
# ---------------
# It gets :class:`~milearn.Bags` and labels. This one is nearest neighbours on bag means.
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.neighbors import KNeighborsClassifier


class NearestMean(ClassifierMixin, BaseEstimator):
    def fit(self, X, y):
        self.model_ = KNeighborsClassifier(1).fit([bag.mean(axis=0) for bag in X], y)
        return self

    def predict(self, X):
        return self.model_.predict([bag.mean(axis=0) for bag in X])


# %%
# Compare
# -------
# Every method gets the same folds. With ``memory="results"`` each result is saved immediately, and the same call continues an interrupted
# run. ``verbose=1`` prints a line for each result, and ``n_jobs=-1`` uses all processors.
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from milearn.embedding import VLAD
from milearn.model_selection import compare
from milearn.preprocessing import BagStatistics, InstanceTransformer
from milearn.svm import MISVC, BagSVC

scaler, linear = InstanceTransformer(StandardScaler()), LogisticRegression(C=0.1)
methods = {
    "MI-SVM": make_pipeline(scaler, MISVC()),
    "bag kernel": make_pipeline(scaler, BagSVC()),
    "VLAD": make_pipeline(scaler, VLAD(random_state=0), linear),
    "min, max": make_pipeline(BagStatistics(("min", "max")), StandardScaler(), linear),
    "mean": make_pipeline(BagStatistics(("mean",)), StandardScaler(), linear),
    "nearest mean": NearestMean(),
}
found = compare(methods, datasets, cv=3)
print(found)

# %%
# Ranks
# -----
# On each data set the best method has rank 1. Friedman's test answers whether the methods differ at all.
print(found.ranks())

# %%
# A bar joins methods without a significant difference by Wilcoxon's test, which tests each pair separately.
from milearn.inspection import CriticalDifferenceDisplay

display = CriticalDifferenceDisplay(ranks=found.ranks()).plot()

# %%
# Ten data sets are few. A difference that is not significant may exist nevertheless. These ten are of one kind: compare methods
# on data sets like your own. All records are a data frame:
found.to_frame().head()
