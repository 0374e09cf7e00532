"""Figures without a screen."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def no_screen():
    pytest.importorskip("matplotlib").use("agg")
