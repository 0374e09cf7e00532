"""Every line of the page "Works with" runs, and tools that need rows refuse bags."""

from __future__ import annotations

import re
from copy import deepcopy
from functools import cache
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from milearn import Bags
from milearn.preprocessing import InstanceTransformer
from milearn.svm import MISVC, MISVR
from tests.common.few_trees import MIClassifier

# scikit-learn's warning of a matrix after a fit with names.
pytestmark = pytest.mark.filterwarnings("ignore:X does not have valid feature names:UserWarning")

PAGE = Path(__file__).resolve().parents[2] / "docs" / "guide" / "works_with.rst"
TABLES = PAGE.read_text(encoding="utf-8").split(".. list-table:: ")[1:]
RUN, INSTEAD = (re.findall(r"   \* - (.*)\n     - ``(.*)``\n", table)[0:] for table in TABLES)
MODULES = (
    *(f"milearn.{name}" for name in ("inspection", "model_selection", "preprocessing", "svm")),
    *(f"sklearn.{name}" for name in ("base", "calibration", "compose", "ensemble", "utils")),
    *(f"sklearn.{name}" for name in ("feature_selection", "inspection", "linear_model", "metrics")),
    *(f"sklearn.{name}" for name in ("model_selection", "multiclass", "multioutput", "pipeline")),
    *("sklearn.preprocessing", "sklearn.semi_supervised", "copy"),
)
# Other libraries by a word of the lines that use them. All are among the dependencies of the tests.
OTHERS = {
    "awkward": "awkward",
    "create_study": "optuna",
    "imblearn": "imblearn.pipeline",
    "RandomUnderSampler": "imblearn.under_sampling",
    "SplitConformal": "mapie.classification",
    "skops": "skops.io",
    "Display": "matplotlib",
    "selector(": "pandas",
    "pandas": "pandas",
}


@cache
def made_by_the_user():
    """Bags, labels and fitted models."""
    rng = np.random.default_rng(0)
    y = np.arange(40) % 2
    rows = [rng.normal(size=(3, 4)) + [4.0 * label, 0, 0, 2 * label] for label in y]
    X = Bags.from_list(rows, feature_names=["x0", "x1", "x2", "x3"], bag_data={"y": y})
    return {
        **{"X": X, "y": y, "model": MISVC(init="mean").fit(X, y), "flat": MISVC().fit(X[:, :2], y)},
        **{"MISVR": MISVR, "some": np.where(np.arange(40) < 30, y, -1)},
        **{"grades": y + np.arange(40) % 4 // 3, "pairs": np.column_stack([y, 1 - y])},
        "MIClassifier": lambda: MIClassifier(time_limit=1e-9, random_state=0),
    }


def names_for(code):
    """What the user of a line has imported and made."""
    modules = [*MODULES, *(name for word, name in OTHERS.items() if word in code)]
    names = {"milearn": import_module("milearn"), "np": np}
    for module in modules:
        found = pytest.importorskip(module, reason="a dependency of the tests")
        names = {**vars(found), **names}  # the first one: milearn's permutation_importance
        names[module.split(".")[0]] = import_module(module.split(".")[0])
    names |= deepcopy(made_by_the_user())
    if "skops" in code:
        io = names["skops"].io
        names["types"] = io.get_untrusted_types(data=io.dumps(names["model"]))
    return names


# What a line that makes no estimator returns, by a word of it.
VALUES = {
    "create_study": lambda found, X, y: found is None,
    "cross_validate": lambda found, X, y: found["test_score"].min() > 0.9,
    "RocCurve": lambda found, X, y: found.roc_auc > 0.95,
    "set_output": lambda found, X, y: np.allclose(found["max_x0"][0], X[0][:, 0].max()),
    "[0, 1]": lambda found, X, y: np.abs(found.instances.mean(axis=0)).max() < 1e-9,
    '["x0"]': lambda found, X, y: np.array_equal(found.instances, scaled(X[:, ["x0"]])),
    "SplitConformal": lambda found, X, y: found[1][np.arange(40), y, 0].mean() > 0.9,
    "skops": lambda found, X, y: np.mean(found == y) > 0.9,
    ".inspection.perm": lambda found, X, y: np.argmax(found.importances_mean) == 0,
    "*resample(": lambda found, X, y: np.mean([each.score(X, y) for each in found]) > 0.9,
    "RFE(": lambda found, X, y: np.array_equal(found.instances, X[:, ["x0", "x3"]].instances),
    "SelectKBest": lambda found, X, y: found.equals(X[:, ["x0", "x3"]]),
    "SelectFromModel": lambda found, X, y: {"x0"} <= {*found.feature_names} < {*X.feature_names},
    "argsort": lambda found, X, y: "x0" in found.feature_names,
    "partial_dep": lambda found, X, y: (np.diff(found["average"][0]) > -0.05).all(),
    "DecisionBoundary": lambda found, X, y: np.ptp(found.response) > 1,
    "instance_dec": lambda found, X, y: np.mean((found > 0) == np.repeat(y, 3)) > 0.9,
    "RandomUnder": lambda found, X, y: sorted(found.bag_data["y"]) == sorted(y),
    "make_column": lambda found, X, y: np.array_equal(found.instances, X[:, [0]].instances),
    "equals": lambda found, X, y: found is True,
}


def scaled(X):
    return InstanceTransformer().fit_transform(X).instances


@pytest.mark.parametrize("code", [code for _, code in (*RUN, *INSTEAD)])
def test_every_line_runs(code):
    names = names_for(code)
    found = eval(code, names)
    X, y = names["X"], names["y"]
    if hasattr(found, "fit"):
        X = [*X] if "awkward" in code else X  # without names of features
        target = next((names[name] for name in ("grades", "pairs") if name in code), y)
        assert (found.predict(X) == target).mean() > 0.75
    else:
        (is_right,) = [check for word, check in VALUES.items() if word in code]
        assert is_right(found, X, y)


def test_undersampling_leaves_equal_classes():
    names = names_for("RandomUnderSampler")
    X, y = names["X"][:25], np.arange(25) % 5 // 4
    rows, left = names["RandomUnderSampler"](random_state=0).fit_resample(np.arange(25)[:, None], y)
    assert np.bincount(left).tolist() == [5, 5]
    np.testing.assert_array_equal(y[rows.ravel()], left)
    assert X[rows.ravel()].shape == (10, 4)


# Calls of the tools that need rows.
REFUSED = {
    "permutation_importance": "sklearn.inspection.permutation_importance(model, X, y)",
    "BaggingClassifier": "BaggingClassifier(model).fit(X, y)",
    "AdaBoostClassifier": "AdaBoostClassifier(model).fit(X, y)",
    "SelfTrainingClassifier": "SelfTrainingClassifier(model).fit(X, some)",
    "OneVsOneClassifier": "OneVsOneClassifier(model).fit(X, grades)",
    "OutputCodeClassifier": "OutputCodeClassifier(model, random_state=1).fit(X, grades).predict(X)",
    "ClassifierChain": "ClassifierChain(model).fit(X, pairs)",
    "RFE": "RFE(model).fit(X, y)",
    "RFECV": "RFECV(model).fit(X, y)",
    "SelectKBest": "make_pipeline(SelectKBest(k=2), model).fit(X, y)",
    "SelectPercentile": "SelectPercentile().fit(X, y)",
    "VarianceThreshold": "VarianceThreshold().fit(X)",
    "SelectFromModel": "SelectFromModel(MISVC(kernel='linear')).fit(X, y).transform(X)",
    "SequentialFeatureSelector": "SequentialFeatureSelector(model).fit(X, y)",
    "partial_dependence": "partial_dependence(model, X, [0])",
    "DecisionBoundaryDisplay": "DecisionBoundaryDisplay.from_estimator(flat, X[:, :2])",
    "RandomUnderSampler": "RandomUnderSampler().fit_resample(X, y)",
    "np.array_equal": "np.array_equal(X, X)",
}
SAID = {
    "DecisionBoundaryDisplay": r"has no attribute 'min': X\.instances, the matrix of all instances",
    "partial_dependence": "contains mixed data types",  # scikit-learn's word for any TypeError
}


@pytest.mark.parametrize("tool", REFUSED)
def test_tools_that_need_rows_say_so(tool):
    names = names_for(REFUSED[tool])
    said = SAID.get(tool, r"^Bags cannot be turned into one array: .* or use bags\.instances")
    with pytest.raises((TypeError, ValueError, AttributeError), match=said):
        eval(REFUSED[tool], names)


def test_the_page_is_short_and_every_tool_on_it_is_tried():
    assert len(PAGE.read_text(encoding="utf-8").split()) <= 400
    tools = re.findall(r"``(.*?)``", " ".join(tool for tool, _ in INSTEAD))
    # Works for an unnamed matrix only: what scikit-learn says of it cannot be changed.
    assert set(tools) - {"make_column_selector"} <= REFUSED.keys()
    lines = PAGE.read_text(encoding="utf-8").count("\n     - ``")
    assert len(RUN) + len(INSTEAD) == lines > 30


def test_other_arrays_are_named_too():
    X = names_for("")["X"]
    for name in ("mean", "T", "reshape"):
        with pytest.raises(AttributeError, match=f"no attribute '{name}': X.instances, the matrix"):
            getattr(X, name)
    assert not hasattr(X, "means")
    assert not hasattr(X, "columns")
