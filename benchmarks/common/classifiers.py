"""Every classifier of the package at one setting, for tables over all of them.

Instances are standardised on the training bags (texts: rows of unit length). Where a transformer or
a kernel makes rows of bags, the cost of the support vector machine behind it is chosen by inner
folds over the rows, which are made once per fold; everything else keeps the default of its class,
or what is named here: ten times ten folds of five sets allow no more than a few fits of each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.metrics.pairwise import chi2_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier

from milearn import Bags, MIClassifier
from milearn.baselines import (
    BLRT,
    DDSVM,
    EMDD,
    MILES,
    CitationKNN,
    DiverseDensity,
    MIForest,
    MILBoost,
    SingleInstance,
    SparseMISVC,
)
from milearn.embedding import VLAD, BagDissimilarity, BagOfWords, FisherVector
from milearn.ensemble import DPBoost, LPBoost
from milearn.metrics import bag_kernel
from milearn.preprocessing import InstanceTransformer
from milearn.structured import MILSD
from milearn.svm import MISVC, SDPMIL, BagSVC, CoupledMISVC, InstanceMISVC, WellSVC


@dataclass(frozen=True)
class Classifier:
    """One row of a table over all classifiers.

    Attributes
    ----------
    name, title : str
    make : callable
        ``make()`` is the classifier, behind the scaling of instances.
    theirs : str or None
        The row of :mod:`.carbonneau` of the same method.
    scaled : bool
        Whether instances are standardised before.
    """

    name: str
    title: str
    make: Callable[[], BaseEstimator]
    theirs: str | None = None
    scaled: bool = True

    def build(self, text: bool) -> BaseEstimator:
        """The classifier with its scaling."""
        if not self.scaled:
            return self.make()
        scaler = Normalizer() if text else StandardScaler()
        return make_pipeline(InstanceTransformer(scaler), self.make())


class _KernelRows(TransformerMixin, BaseEstimator):
    """Bags to rows of a kernel with the training bags, computed once for all costs."""

    def __init__(self, bag_kernel: str = "graph") -> None:
        self.bag_kernel = bag_kernel

    def fit(self, X: Bags, y: Any = None) -> _KernelRows:
        self.bags_ = X
        return self

    def transform(self, X: Bags) -> np.ndarray:
        gamma = "median" if self.bag_kernel == "normalized_set" else None
        return bag_kernel(X, self.bags_, bag_kernel=self.bag_kernel, gamma=gamma)


def _on_rows(rows: BaseEstimator, kernel: Any = "linear") -> BaseEstimator:
    search = GridSearchCV(SVC(kernel=kernel), {"C": [0.1, 1.0, 10.0, 100.0]}, cv=5)
    return make_pipeline(rows, search)


def _on_long_rows(rows: BaseEstimator) -> BaseEstimator:
    search = GridSearchCV(LinearSVC(dual="auto"), {"C": [0.01, 0.1, 1.0]}, cv=5)
    return make_pipeline(rows, search)


CLASSIFIERS: tuple[Classifier, ...] = (
    Classifier("default", "MIClassifier", lambda: MIClassifier(random_state=0), scaled=False),
    Classifier("all-bagsvc", "BagSVC, average of kernels", BagSVC, scaled=False),
    Classifier(
        "all-graph",
        "miGraph kernel, SVC",
        lambda: _on_rows(_KernelRows("graph"), "precomputed"),
        "miGraph",
    ),
    Classifier(
        "all-set",
        "set kernel, SVC",
        lambda: _on_rows(_KernelRows("normalized_set"), "precomputed"),
        "NSK-SVM",
    ),
    Classifier("all-mind", "MInD rows, SVC", lambda: _on_rows(BagDissimilarity()), "MInD"),
    Classifier("all-miles", "MILES", MILES, "MILES"),
    Classifier(
        "all-bow",
        "BagOfWords, chi-squared SVC",
        lambda: _on_rows(BagOfWords(random_state=0), chi2_kernel),
        "BoW-SVM",
    ),
    Classifier("all-vlad", "VLAD, LinearSVC", lambda: _on_long_rows(VLAD(random_state=0))),
    Classifier(
        "all-fisher", "FisherVector, LinearSVC", lambda: _on_long_rows(FisherVector(random_state=0))
    ),
    Classifier("all-ddsvm", "DDSVM, 2 starts", lambda: DDSVM(n_init=2, max_iter=50)),
    Classifier("all-citation", "CitationKNN", CitationKNN, "Citation-kNN"),
    Classifier("all-dd", "DiverseDensity, 1 start", lambda: DiverseDensity(1)),
    Classifier("all-emdd", "EMDD, 1 start", lambda: EMDD(1), "EM-DD"),
    Classifier("all-milboost", "MILBoost, stumps", MILBoost, "MILBoost"),
    Classifier(
        "all-milboost-trees",
        "MILBoost, trees of depth 3",
        lambda: MILBoost(30, estimator=DecisionTreeClassifier(max_depth=3, random_state=0)),
        "MILBoost",
    ),
    Classifier("all-miforest", "MIForest, 50 trees", lambda: MIForest(50, random_state=0)),
    Classifier("all-blrt", "BLRT, 500 trees", lambda: BLRT(random_state=0), scaled=False),
    Classifier("all-single", "SingleInstance(SVC)", lambda: SingleInstance(SVC(C=10)), "SI-SVM"),
    Classifier(
        "all-single-threshold",
        "SingleInstance(SVC), threshold",
        lambda: SingleInstance(SVC(C=10), threshold="auto"),
        "SI-SVM-TH",
    ),
    Classifier(
        "all-single-knn",
        "SingleInstance(KNeighborsClassifier)",
        lambda: SingleInstance(KNeighborsClassifier()),
        "SI-kNN",
    ),
    Classifier("all-sbmil", "SparseMISVC, sbMIL", lambda: SparseMISVC(eta=0.5)),
    Classifier("all-misvc-l1", "CoupledMISVC", CoupledMISVC),
    Classifier("all-misvc", "MISVC, max loss", MISVC, "MI-SVM"),
    Classifier("all-misvc-linear", "MISVC, max loss, linear", lambda: MISVC(kernel="linear")),
    Classifier(
        "all-misvc-instance",
        "MISVC, max loss, instance slack",
        lambda: MISVC(slack="instance"),
        "MI-SVM",
    ),
    Classifier("all-instancemisvc", "InstanceMISVC", InstanceMISVC, "mi-SVM"),
    Classifier("all-sdpmil", "SDPMIL", SDPMIL),
    Classifier("all-wellsvc", "WellSVC", WellSVC),
    Classifier("all-dpboost", "DPBoost, stumps", lambda: DPBoost(C=0.3, time_limit=30)),
    Classifier("all-lpboost", "LPBoost, stumps", lambda: LPBoost(C=0.3, time_limit=30)),
    Classifier("all-milsd", "MILSD, neighbour graph", lambda: MILSD(mu=0.1, graph="knn")),
)
