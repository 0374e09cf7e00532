"""
Classify documents by their paragraphs
======================================

A document is a bag and its paragraphs are the instances. The label is that of the document. The model shows which paragraph
decided, which may not be the one that you expected.
"""

# %%
# scikit-learn's own docstrings need no download. Does the text describe a classifier or a regressor? The summary line and
# the examples contain the answer and are left out.
import re

import numpy as np
from sklearn.utils import all_estimators


def paragraphs_of(text):
    parts = [" ".join(part.split()) for part in re.split(r"\n\s*\n", text)]
    return [part for part in parts if len(part.split()) >= 8]


texts, y = [], []
for kind, label in (("classifier", 1), ("regressor", 0)):
    for _, cls in all_estimators(type_filter=kind):
        text = (cls.__doc__ or "").partition("\n")[2].split("Examples\n")[0]
        if len(paragraphs_of(text)) >= 6:
            texts.append(text)
            y.append(label)
y = np.array(y)
print(f"{len(texts)} documents, {y.sum()} of them classifiers")

# %%
# Ten lines to a deciding paragraph
# ---------------------------------
# The bags hold text until a step of the pipeline encodes it. The words and their weights are therefore learnt from the
# training documents only, in every fold of a cross-validation. Each document is a list of paragraphs.
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline

from milearn import MISVC, Bags
from milearn.preprocessing import InstanceTransformer

words = TfidfVectorizer(min_df=3, stop_words="english", token_pattern=r"[a-z]{3,}")
model = make_pipeline(InstanceTransformer(words), MISVC(kernel="linear"))
X = Bags.from_list([paragraphs_of(text) for text in texts])
train = np.arange(len(y)) % 3 != 0
test = np.flatnonzero(~train)


def show_deciding_paragraphs(X):
    model.fit(X[train], y[train])
    print(f"accuracy {model.score(X[test], y[test]):.2f}\n")
    rows = model[-1].witness(model[:-1].transform(X[test]))
    for place in np.flatnonzero(y[test] == 1)[:4]:
        print(f"- {X[test].instances[rows[place], 0][:100]}")


show_deciding_paragraphs(X)

# %%
# There is a label among the features: every classifier lists its attribute ``classes_``. The accuracy alone looks like
# success; the deciding paragraphs show the reason. Without the lists of attributes the question becomes harder:
texts = [
    re.sub(r"Attributes\n.*?(?=See Also\n|Notes\n|References\n|$)", "", text, flags=re.S)
    for text in texts
]
X = Bags.from_list([paragraphs_of(text) for text in texts])
show_deciding_paragraphs(X)

# %%
# A plain baseline is the mean of the paragraphs, which is the whole document as one bag of words.
from sklearn.model_selection import cross_val_score
from sklearn.svm import LinearSVC

from milearn.preprocessing import BagStatistics

baseline = make_pipeline(InstanceTransformer(words), BagStatistics(("mean",)), LinearSVC(C=10.0))
for name, candidate in (("MISVC on paragraphs", model), ("LinearSVC on the mean", baseline)):
    scores = cross_val_score(candidate, X, y, cv=3, scoring="roc_auc")
    print(f"{name:22s} AUC {scores.mean():.3f} ± {scores.std():.3f}")

# %%
# Which words have the largest weights in the linear model?
import matplotlib.pyplot as plt

model.fit(X[train], y[train])
weights, names = model[-1].coef_[0], model[0].get_feature_names_out()
order = np.argsort(weights)
shown = np.concatenate([order[:10], order[-10:]])
figure, ax = plt.subplots(figsize=(6.4, 4.6), layout="constrained")
ax.barh(np.arange(20), weights[shown], color=np.where(weights[shown] > 0, "#D55E00", "#0072B2"))
ax.set_yticks(np.arange(20), names[shown])
ax.axvline(0.0, color="black", linewidth=0.8)
ax.set_xlabel("weight: left for regressors, right for classifiers")
ax.set_title("Words with the largest weights")

# %%
# The test document with the highest score, paragraph by paragraph. Above zero a paragraph indicates a classifier.
bag = test[np.argmax(model.decision_function(X[test]))]
inner = model[:-1].transform(X[[bag]])
scores = model[-1].instance_decision_function(inner)[:16]
figure, ax = plt.subplots(figsize=(8.0, 5.4), layout="constrained")
ax.barh(np.arange(len(scores)), scores, color=np.where(scores > 0, "#D55E00", "#0072B2"))
ax.set_yticks(
    np.arange(len(scores)), [f"{text[:40]} ..." for text in X[bag][: len(scores), 0]], fontsize=10
)
ax.invert_yaxis()
ax.axvline(0.0, color="black", linewidth=0.8)
ax.set_xlabel("score of the paragraph")
ax.set_title("Scores of the paragraphs of one document")
