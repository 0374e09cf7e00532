"""Figures without a screen, closed after each test."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def closed_figures():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    yield
    plt.close("all")
