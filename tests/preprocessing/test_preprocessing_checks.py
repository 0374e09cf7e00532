"""scikit-learn's checks of what a wrapped estimator can change; tests/common runs all of them."""

from __future__ import annotations

from sklearn.decomposition import PCA
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.feature_selection import SelectKBest
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsRegressor, NearestCentroid
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, StandardScaler
from sklearn.svm import SVC

from milearn.baselines import SingleInstance
from milearn.preprocessing import BagStatistics, InstanceTransformer
from tests.common.common_checks import SCIKIT_LEARN_OF_WRAPPED, with_scikit_learn_checks

ESTIMATORS = [
    InstanceTransformer(StandardScaler(with_mean=False)),
    InstanceTransformer(MaxAbsScaler()),
    InstanceTransformer(PCA(n_components=1, random_state=0)),
    InstanceTransformer(SelectKBest(k=1)),
    InstanceTransformer(SimpleImputer()),
    InstanceTransformer(make_pipeline(SimpleImputer(), StandardScaler())),
    BagStatistics(("mean", "std", "sum", "count", "median", 0.25)),
    BagStatistics("mean", sparse_output=True),
    SingleInstance(SVC(), pooling="mean"),
    SingleInstance(LogisticRegression(solver="newton-cholesky")),
    SingleInstance(GaussianNB()),
    SingleInstance(RandomForestClassifier(n_estimators=5, random_state=0)),
    SingleInstance(make_pipeline(StandardScaler(), LogisticRegression(solver="newton-cholesky"))),
    SingleInstance(NearestCentroid()),
    SingleInstance(HistGradientBoostingClassifier(max_iter=5, min_samples_leaf=5)),
    SingleInstance(Ridge()),
    SingleInstance(KNeighborsRegressor()),
]


@with_scikit_learn_checks(ESTIMATORS, only=SCIKIT_LEARN_OF_WRAPPED)
def test_scikit_learn_check(estimator, check):
    check(estimator)
