"""A model of another version says so when it is loaded."""

from __future__ import annotations

import copy
import importlib
import pickle
import re
import warnings

import numpy as np
import pytest
from sklearn.exceptions import InconsistentVersionWarning
from sklearn.pipeline import make_pipeline

from milearn import Bags, _version
from milearn._kernels import pairs
from milearn.preprocessing import AppendBagData, BagData, BagStatistics, InstanceTransformer
from milearn.svm import MISVC

X = Bags.from_list([[[0.0, 1.0], [2.0, 0.0]], [[3.0, 3.0]], [[-1.0, 1.0]], [[4.0, 2.0]]])
X = X.with_bag_data({"age": [1.0, 2.0, 3.0, 4.0]})
Y = np.array([0, 1, 0, 1])
MODELS = [
    MISVC(),
    InstanceTransformer(),
    BagStatistics(),
    BagData(),
    AppendBagData(),
    make_pipeline(InstanceTransformer(), MISVC()),
]


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_a_model_of_an_older_version_warns_with_both_versions(model, monkeypatch):
    fitted = model.fit(X, Y)
    monkeypatch.setattr(_version, "__version__", "0.4.1")
    old = pickle.dumps(fitted)
    monkeypatch.setattr(_version, "__version__", "0.4.2")
    with pytest.warns(InconsistentVersionWarning, match=r"from version 0\.4\.1 when using version"):
        loaded = pickle.loads(old)
    # It was fitted and saved again: the version is that of the last pickle.
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pickle.loads(pickle.dumps(loaded))
        copy.deepcopy(loaded), copy.copy(loaded)


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_a_model_of_another_minor_version_is_refused_in_a_sentence(model, monkeypatch):
    monkeypatch.setattr(_version, "__version__", "0.4.1")
    old = pickle.dumps(model.fit(X, Y))
    monkeypatch.setattr(_version, "__version__", "0.9.0")
    sentence = r"This \w+ was saved by milearn 0\.4\.1, which milearn 0\.9\.0 does not read: "
    with pytest.raises(pickle.UnpicklingError, match=sentence):
        pickle.loads(old)


def test_what_was_saved_before_versions_were_stored_is_refused():
    with pytest.raises(pickle.UnpicklingError, match=r"MISVC was saved by milearn pre-0\.4"):
        MISVC().__setstate__(dict(vars(MISVC().fit(X, Y))))
    with pytest.raises(pickle.UnpicklingError, match=r"Bags was saved by milearn before 0\.5"):
        Bags.__new__(Bags).__setstate__({"offsets": X.offsets, "bag_data": {"age": [1.0]}})


# What pickles of 0.2.0 to 0.4.0 refer to, and which is gone.
GONE = [
    ("milearn.svm._bag_svc", "BagSVC"),
    ("milearn.svm._misvr", "MISVR"),
    ("milearn.survival._functions", "StepFunction"),
    ("milearn.auto._candidates", "_StatisticsFunction"),
    ("milearn.auto._candidates", "LinearModel"),
    ("milearn.auto._judgement", "Calibration"),
    ("milearn._kernels.pairs", "Side"),
    ("milearn.baselines._miforest", "_Units"),
]


@pytest.mark.parametrize(("module", "name"), GONE)
def test_a_model_that_cannot_be_read_says_why_in_a_sentence(module, name):
    reference = f"c{module}\n{name}\n.".encode()  # as pickle writes a class
    with pytest.raises((ImportError, pickle.UnpicklingError)) as raised:
        pickle.loads(reference)
    assert re.fullmatch(
        r"There is no .* in milearn \S+\. If a saved model refers to it, another version of "
        r"milearn has saved the model: load it with that version, or fit it again\.",
        str(raised.value),
    )
    assert module in str(raised.value)


def test_names_that_never_were_are_errors_of_python():
    with pytest.raises(AttributeError, match="has no attribute 'Sides'"):
        pairs.Sides  # noqa: B018
    assert not hasattr(pairs, "__wrapped__")
    with pytest.raises(ModuleNotFoundError, match="another_package"):
        importlib.import_module("another_package.part")
