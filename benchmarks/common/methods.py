"""The methods that are compared: plain scikit-learn, and every classifier of the package.

Every method sees the same bags and does its own scaling inside the pipeline, so that nothing of a
test fold enters a training fold. What a method tunes, it tunes by itself: the cost of a support
vector machine on rows of bags is chosen by inner folds over the rows, which are made once per fold.
Everything else keeps the default of its class, or what is named here. A method for bags that does
not beat plain scikit-learn on a summary of each bag has not earned its place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.linear_model import LogisticRegression
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
from milearn.discriminant_analysis import ShareDiscriminant
from milearn.embedding import VLAD, BagDissimilarity, BagOfWords, FisherVector
from milearn.ensemble import DPBoost, LPBoost
from milearn.metrics import bag_kernel
from milearn.model_selection import StratifiedBagKFold
from milearn.preprocessing import BagStatistics, ClippedScaler, InstanceTransformer
from milearn.structured import MILSD
from milearn.svm import MISVC, SDPMIL, BagSVC, CoupledMISVC, InstanceMISVC


@dataclass(frozen=True)
class Method:
    """One row of the tables.

    Attributes
    ----------
    title : str
        As it is printed.
    make : callable
        ``make(text)`` makes the estimator; ``text`` is True for sparse rows.
    theirs : str
        The row of :mod:`.carbonneau` of the same method.
    """

    title: str
    make: Callable[[bool], BaseEstimator]
    theirs: str = ""

    def model(self, text: bool) -> BaseEstimator:
        """What ``make`` makes, with the same figures in every run."""
        return seeded(self.make(text))


def seeded(model: BaseEstimator) -> BaseEstimator:
    """The model, with 0 for each ``random_state`` that is not given."""
    missing = [name for name, value in model.get_params().items() if value is None]
    return model.set_params(**{name: 0 for name in missing if name.endswith("random_state")})


class KernelRows(TransformerMixin, BaseEstimator):
    """Bags to rows of a kernel with the training bags, computed once for all costs."""

    def __init__(self, bag_kernel: str = "graph", gamma: Any = None) -> None:
        self.bag_kernel = bag_kernel
        self.gamma = gamma

    def fit(self, X: Bags, y: Any = None) -> KernelRows:
        self.bags_ = X
        return self

    def transform(self, X: Bags) -> np.ndarray:
        gamma = 1.0 / X.shape[1] if self.gamma == "features" else self.gamma
        return bag_kernel(X, self.bags_, bag_kernel=self.bag_kernel, gamma=gamma, random_state=0)


def scaler(text: bool) -> InstanceTransformer:
    """Standardised instances; texts of unit length."""
    return InstanceTransformer(Normalizer() if text else StandardScaler())


def _scaled(
    title: str, make: Callable[[], BaseEstimator], theirs: str = "", kernel: Any = None
) -> Method:
    """A method behind the scaling of instances; ``kernel``: of an SVM on the rows it makes."""

    def pipeline(text: bool) -> BaseEstimator:
        steps = [scaler(text), make()]
        if kernel == "long":
            steps.append(_tuned(LinearSVC(dual="auto"), (0.01, 0.1, 1.0)))
        elif kernel is not None:
            steps.append(_tuned(SVC(kernel=kernel), (0.1, 1.0, 10.0, 100.0)))
        return make_pipeline(*steps)

    return Method(title, pipeline, theirs)


def _tuned(model: BaseEstimator, costs: Sequence[float] = (1.0, 10.0, 100.0)) -> GridSearchCV:
    return GridSearchCV(model, {"C": list(costs)}, cv=5)


def tuned_logistic() -> GridSearchCV:
    """Logistic regression on rows, its cost by inner folds."""
    costs = {"C": np.logspace(-4, 2, 7)}
    return GridSearchCV(LogisticRegression(max_iter=2000), costs, scoring="neg_log_loss", cv=5)


def _rows(title: str, statistics: Sequence[str], make: Callable[[], BaseEstimator]) -> Method:
    """A model on scaled statistics of bags.

    Bags of texts get unit length, and not their instances: on the newsgroups of the guiding half
    that takes LinearSVC from chance to the best of all.
    """

    def pipeline(text: bool) -> BaseEstimator:
        rows = BagStatistics(tuple(statistics), sparse_output=text)
        return make_pipeline(rows, Normalizer() if text else StandardScaler(), make())

    return Method(title, pipeline)


def _trees(text: bool) -> BaseEstimator:
    rows = BagStatistics(("mean", "min", "max", "std"), sparse_output=text)
    return make_pipeline(rows, ExtraTreesClassifier(500))


def _set_kernel(text: bool) -> BaseEstimator:
    rows = KernelRows("normalized_set", 1.0 if text else "features")
    return make_pipeline(scaler(text), rows, _tuned(SVC(kernel="precomputed")))


def _clipped(title: str, *make: Callable[[], BaseEstimator]) -> Method:
    """Steps behind clipped z-scores, or behind texts of unit length."""
    return Method(
        title,
        lambda text: make_pipeline(
            scaler(text) if text else ClippedScaler(), *(each() for each in make)
        ),
    )


def _calibrated(text: bool) -> BaseEstimator:
    folds = StratifiedBagKFold(5, shuffle=True, random_state=0)
    return make_pipeline(scaler(text), CalibratedClassifierCV(MISVC(), cv=folds))


def _linear_svc() -> GridSearchCV:
    return _tuned(LinearSVC(dual=False), (0.01, 0.1, 1.0, 10.0))


# What a user of scikit-learn would set beside the default.
PLAIN = {
    "plain-mean": _rows("mean, SVC", ("mean",), lambda: _tuned(SVC())),
    "plain-minmax": _rows("min/max, SVC", ("min", "max"), lambda: _tuned(SVC())),
    "plain-set": Method("set kernel, SVC", _set_kernel),
    "plain-linear": _rows("mean, LinearSVC", ("mean",), _linear_svc),
    "plain-logistic": _rows("mean, LogisticRegression", ("mean",), tuned_logistic),
    "plain-statistics": _rows(
        "mean, min, max, sd, LogisticRegression", ("mean", "min", "max", "std"), tuned_logistic
    ),
    "plain-extremes": _rows("mean, min, max, SVC", ("mean", "min", "max"), lambda: _tuned(SVC())),
    "plain-trees": Method("mean, min, max, sd, ExtraTrees", _trees),
    "plain-single": _scaled("SingleInstance(SVC())", lambda: SingleInstance(SVC())),
    "misvc-linear": _clipped("MISVC, linear, clipped z-scores", lambda: MISVC(kernel="linear")),
    "share-default": Method("ShareDiscriminant()", lambda text: ShareDiscriminant()),
    "share": _clipped("ShareDiscriminant", ShareDiscriminant),
    "fisher-logistic": _clipped("FisherVector, LogisticRegression", FisherVector, tuned_logistic),
    "misvc-default": Method("MISVC()", lambda text: MISVC()),
    "misvc-calibrated": Method("CalibratedClassifierCV(MISVC())", _calibrated),
}
_DEEP = DecisionTreeClassifier(max_depth=3)
CLASSIFIERS = {
    "default": Method("MIClassifier", lambda text: MIClassifier()),
    "all-bagsvc": Method("BagSVC, average of kernels", lambda text: BagSVC()),
    "all-graph": _scaled("miGraph kernel, SVC", KernelRows, "miGraph", "precomputed"),
    "all-set": _scaled(
        "set kernel, SVC",
        lambda: KernelRows("normalized_set", "median"),
        "NSK-SVM",
        "precomputed",
    ),
    "all-mind": _scaled("MInD rows, SVC", BagDissimilarity, "MInD", "linear"),
    "all-miles": _scaled("MILES", MILES, "MILES"),
    "all-bow": _scaled("BagOfWords, chi-squared SVC", BagOfWords, "BoW-SVM", chi2_kernel),
    "all-vlad": _scaled("VLAD, LinearSVC", VLAD, "", "long"),
    "all-fisher": _scaled("FisherVector, LinearSVC", FisherVector, "", "long"),
    "all-ddsvm": _scaled("DDSVM, 2 starts", lambda: DDSVM(n_init=2, max_iter=50)),
    "all-citation": _scaled("CitationKNN", CitationKNN, "Citation-kNN"),
    "all-dd": _scaled("DiverseDensity, 1 start", lambda: DiverseDensity(1)),
    "all-emdd": _scaled("EMDD, 1 start", lambda: EMDD(1), "EM-DD"),
    "all-milboost": _scaled("MILBoost, stumps", MILBoost, "MILBoost"),
    "all-milboost-trees": _scaled(
        "MILBoost, trees of depth 3", lambda: MILBoost(30, estimator=_DEEP), "MILBoost"
    ),
    "all-miforest": _scaled("MIForest, 50 trees", lambda: MIForest(50)),
    "all-blrt": Method("BLRT, 500 trees", lambda text: BLRT()),
    "all-single": _scaled("SingleInstance(SVC)", lambda: SingleInstance(SVC(C=10)), "SI-SVM"),
    "all-single-threshold": _scaled(
        "SingleInstance(SVC), threshold",
        lambda: GridSearchCV(SingleInstance(SVC(C=10)), {"threshold": np.arange(20) / 20}),
        "SI-SVM-TH",
    ),
    "all-single-knn": _scaled(
        "SingleInstance(KNeighborsClassifier)",
        lambda: SingleInstance(KNeighborsClassifier()),
        "SI-kNN",
    ),
    "all-sbmil": _scaled("SparseMISVC, sbMIL", lambda: SparseMISVC(eta=0.5)),
    "all-misvc-l1": _scaled("CoupledMISVC", CoupledMISVC),
    "all-misvc": _scaled("MISVC, max loss", MISVC, "MI-SVM"),
    "all-misvc-linear": _scaled("MISVC, max loss, linear", lambda: MISVC(kernel="linear")),
    "all-misvc-instance": _scaled(
        "MISVC, max loss, instance slack", lambda: MISVC(slack="instance"), "MI-SVM"
    ),
    "all-instancemisvc": _scaled("InstanceMISVC", InstanceMISVC, "mi-SVM"),
    "all-sdpmil": _scaled("SDPMIL", SDPMIL),
    "all-dpboost": _scaled("DPBoost, stumps", lambda: DPBoost(C=0.3, time_limit=30)),
    "all-lpboost": _scaled("LPBoost, stumps", lambda: LPBoost(C=0.3, time_limit=30)),
    "all-milsd": _scaled("MILSD, neighbour graph", lambda: MILSD(mu=0.1, graph="knn")),
}
METHODS = PLAIN | CLASSIFIERS
