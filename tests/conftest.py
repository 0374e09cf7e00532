"""Fixtures that every test may use."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.common.data import find_data_dir


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of the real data sets; without it the test is skipped."""
    found = find_data_dir()
    if found is None:
        pytest.skip("no real data: set MILEARN_DATA to a folder that holds musk1.npz")
    return found


@pytest.fixture
def no_intervals(monkeypatch):
    """Without intervals of comparisons, for which a fold is scored twenty times and more.

    ``tests/model_selection/test_compare.py`` has them.
    """
    monkeypatch.setattr("milearn.model_selection._compare.influences", lambda *_: None)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of real data, to be selected by ``-m real_data`` or left out.

    Workers must collect the same names: one with the address of an object differs in each process.
    """
    for item in items:
        if " at 0x" in item.nodeid:
            raise pytest.UsageError(f"{item.nodeid}: give this parameter an id.")
        if "data_dir" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.real_data)
