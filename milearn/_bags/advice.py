"""Advice where bags cannot be an array, by the function or class that asks for one."""

from __future__ import annotations

import sys
from typing import Any

_ADVICE = (
    "Bags cannot be turned into one array: apply a transformer to their instances, as in "
    "milearn.preprocessing.InstanceTransformer(StandardScaler()), take one row per bag by "
    "milearn.preprocessing.BagStatistics(), or use bags.instances, the matrix of all instances."
)
_INSTEAD = {
    "permutation_importance": "use milearn.inspection.permutation_importance, which permutes "
    "features of instances.",
    "SequentialFeatureSelector": "rank features by milearn.inspection.permutation_importance, and "
    "pass X[:, features].",
    "SelectFromModel": "pass X[:, selector.get_support()], which needs only its fit.",
    "BaggingClassifier BaggingRegressor": "draw bags by sklearn.utils.resample(X, y), and average "
    "the scores of the fits.",
    "AdaBoostClassifier AdaBoostRegressor SelfTrainingClassifier RANSACRegressor": "let it have "
    "one row per bag, as in make_pipeline(milearn.preprocessing.BagStatistics(), {}(...)).",
    "OneVsOneClassifier OutputCodeClassifier": "classifiers of milearn take several classes, and "
    "OneVsRestClassifier takes bags.",
    "ClassifierChain": "use MultiOutputClassifier, which takes bags.",
    "RegressorChain": "use MultiOutputRegressor, which takes bags.",
    "RFE RFECV VarianceThreshold SelectKBest SelectPercentile SelectFpr SelectFdr SelectFwe "
    "GenericUnivariateSelect": "select by the instances, as in "
    "milearn.preprocessing.InstanceTransformer({}(...)).",
    "partial_dependence": "pass X.instances, each row of which is a bag of one instance.",
    "FeatureUnion": "call its set_output(transform='default'), and it returns Bags.",
    "imbalanced-learn": "draw bags by their numbers: rows, y = RandomUnderSampler().fit_resample("
    "np.arange(len(X))[:, None], y), and X = X[rows.ravel()]. Methods that invent samples need "
    "one row per bag, by milearn.preprocessing.BagStatistics().",
    "array_equal": "compare bags by X.equals(other).",
}
_REMEDIES = {name: remedy for names, remedy in _INSTEAD.items() for name in names.split()}
# Modules whose calls are looked at for such a name.
_LIBRARIES = {"sklearn": "scikit-learn", "imblearn": "imbalanced-learn"}
_LIBRARIES |= {name: name for name in ("joblib", "numpy", "pandas")}


def no_array(function: str = "") -> Exception:
    """The error for bags where an array is needed, by a function of NumPy or by its callers."""
    frame: Any = sys._getframe(2)
    callers = [("numpy", function)]
    while frame and (top := frame.f_globals.get("__name__", "").split(".")[0]) in _LIBRARIES:
        owner = type(frame.f_locals.get("self")).__name__
        library = _LIBRARIES[top]
        callers += [(library, name) for name in (frame.f_code.co_name, owner, library)]
        frame = frame.f_back
    for library, name in callers:
        if name in _REMEDIES:
            who = name if name == library else f"{library}'s {name}"
            # scikit-learn takes any TypeError there for values of mixed types.
            error = ValueError if name == "partial_dependence" else TypeError
            return error(f"{who} needs rows of a matrix: {_REMEDIES[name].format(name)}")
    return TypeError(f"numpy.{function} does not take Bags. {_ADVICE}" if function else _ADVICE)
