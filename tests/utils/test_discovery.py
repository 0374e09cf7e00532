"""Discovery of the public estimators."""

from __future__ import annotations

import sys
import types
from importlib import import_module

import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.svm import SVC

from milearn.utils import _discovery, all_estimators


def test_found_estimators_are_public_classes_of_the_package():
    found = all_estimators()
    assert found == sorted(found, key=lambda pair: pair[0])
    assert len({name for name, _ in found}) == len(found)
    for name, each in found:
        assert issubclass(each, BaseEstimator)
        assert each.__module__.startswith("milearn.")
        assert name == each.__name__
        assert not name.startswith("_")
        assert each.__module__ != "milearn.base"


@pytest.mark.parametrize("kind", ["classifier", "regressor", "cluster", "transformer"])
def test_filter_is_a_subset(kind):
    assert set(all_estimators(kind)) <= set(all_estimators())
    assert all_estimators([kind]) == all_estimators(kind)


def test_a_package_that_needs_an_extra_may_be_without_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "milearn.distributed._bags", None)
    with pytest.raises(ImportError):
        import_module("milearn.distributed").DistributedBags  # noqa: B018
    assert len(all_estimators()) > 40


def test_unknown_filter():
    with pytest.raises(ValueError, match=r"^type_filter='bags' is unknown; choose one of classif"):
        all_estimators("bags")


def test_only_exported_estimators_of_the_package_count(monkeypatch):
    module = types.ModuleType("milearn.toy")
    # Classes as an import into the module leaves them, with the module that they were born in.
    module.Public = type("Public", (ClassifierMixin, BaseEstimator), {"__module__": "milearn.toy"})
    module.Other = type("Other", (RegressorMixin, BaseEstimator), {"__module__": "milearn.toy"})
    module._Hidden = type("_Hidden", (BaseEstimator,), {"__module__": "milearn.toy"})
    module.NotListed = type("NotListed", (BaseEstimator,), {"__module__": "milearn.toy"})
    module.SVC = SVC
    module.number = 3
    module.__all__ = ["Other", "Public", "SVC", "_Hidden", "number"]
    monkeypatch.setitem(sys.modules, "milearn.toy", module)
    monkeypatch.setattr(_discovery, "_public_packages", lambda: ["milearn.toy"])
    assert all_estimators() == [("Other", module.Other), ("Public", module.Public)]
    assert all_estimators("classifier") == [("Public", module.Public)]
    assert all_estimators(["regressor", "cluster"]) == [("Other", module.Other)]
