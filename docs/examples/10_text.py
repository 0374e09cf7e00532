"""
Text: documents of paragraphs
=============================

A document is a bag and its paragraphs are the instances. The label is that of the document; the witness is the paragraph
that gave it away, which may be another than you had in mind.
"""

# %%
# scikit-learn's own docstrings are at hand without a download. Is the class a classifier or a regressor? The summary line
# and the examples say so outright and are left out.
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
# Bags hold sparse rows of word counts as they are. The vocabulary sees no label; the weights of tf-idf are learnt in the
# pipeline, from the training documents.
from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

from milearn import MISVC, Bags
from milearn.preprocessing import BagStatistics, InstanceTransformer


def bags_of(documents):
    words = CountVectorizer(min_df=3, stop_words="english", token_pattern=r"[a-z]{3,}")
    counts = words.fit_transform([part for document in documents for part in document])
    offsets = np.cumsum([0, *map(len, documents)])
    return Bags(counts.astype(float), offsets, feature_names=words.get_feature_names_out())


documents = [paragraphs_of(text) for text in texts]
X = bags_of(documents)
X

# %%
# MI-SVM over paragraphs, fitted on two documents of three. Which paragraph decided, in classifiers that were left out?
model = make_pipeline(InstanceTransformer(TfidfTransformer()), MISVC(kernel="linear"))
train = np.arange(len(y)) % 3 != 0
test = np.flatnonzero(~train)


def show_witnesses(X, documents):
    model.fit(X[train], y[train])
    print(f"accuracy {model.score(X[test], y[test]):.2f}\n")
    inner = model[:-1].transform(X[test])
    rows = model[-1].witness(inner) - inner.offsets[:-1]
    for place in np.flatnonzero(y[test] == 1)[:4]:
        print(f"- {documents[test[place]][rows[place]][:100]}")


show_witnesses(X, documents)

# %%
# A label in the features: every classifier lists its attribute ``classes_``. The figure alone looks like success; the
# witnesses show what it is made of. Without the lists of attributes the question becomes harder:
texts = [
    re.sub(r"Attributes\n.*?(?=See Also\n|Notes\n|References\n|$)", "", text, flags=re.S)
    for text in texts
]
documents = [paragraphs_of(text) for text in texts]
X = bags_of(documents)
show_witnesses(X, documents)

# %%
# Beside the plain baseline of the field: the mean of the paragraphs, which is the whole document as one bag of words.
baseline = make_pipeline(
    InstanceTransformer(TfidfTransformer()), BagStatistics(("mean",)), LinearSVC(C=10.0)
)
for name, candidate in (("MISVC on paragraphs", model), ("LinearSVC on the mean", baseline)):
    scores = cross_val_score(candidate, X, y, cv=3, scoring="roc_auc")
    print(f"{name:22s} AUC {scores.mean():.3f} +- {scores.std():.3f}")

# %%
# Which words: the largest weights of the linear model.
import matplotlib.pyplot as plt

model.fit(X[train], y[train])
weights = model[-1].coef_[0]
order = np.argsort(weights)
shown = np.concatenate([order[:10], order[-10:]])
figure, ax = plt.subplots(figsize=(6.4, 4.6), layout="constrained")
ax.barh(np.arange(20), weights[shown], color=np.where(weights[shown] > 0, "#D55E00", "#0072B2"))
ax.set_yticks(np.arange(20), X.feature_names[shown])
ax.axvline(0.0, color="black", linewidth=0.8)
ax.set_xlabel("weight: left for regressors, right for classifiers")
ax.set_title("Words with the largest weights")

# %%
# Of the documents that were left out the one with the highest score, paragraph by paragraph:
from milearn.inspection import InstanceScoresDisplay

bag = test[np.argmax(model.decision_function(X[test]))]
display = InstanceScoresDisplay.from_estimator(model, X, bag=bag)
display.ax_.set_xlabel("paragraph")
