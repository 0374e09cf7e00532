"""Available memory, the guard before large matrices, and the size of blocks."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from sklearn import config_context

from milearn._kernels import memory

MIB = 2**20


@pytest.fixture
def groups(tmp_path, monkeypatch):
    """A system with 8 GiB available, of which 1 GiB is free, and no control group."""
    found = SimpleNamespace(available=8 * 2**30, free=2**30)
    monkeypatch.setattr(memory.psutil, "virtual_memory", lambda: found)
    return tmp_path


def test_page_cache_counts_as_available(groups):
    assert memory.available_memory(groups) == 8 * 2**30


def test_a_container_limits(groups):
    (groups / "memory.max").write_text(f"{500 * MIB}\n")
    (groups / "memory.current").write_text(f"{300 * MIB}\n")
    (groups / "memory.stat").write_text(f"anon {10 * MIB}\ninactive_file {100 * MIB}\n")
    assert memory.available_memory(groups) == 300 * MIB
    (groups / "memory.current").write_text(f"{700 * MIB}\n")
    assert memory.available_memory(groups) == 0.0
    (groups / "memory.max").write_text("max\n")
    assert memory.available_memory(groups) == 8 * 2**30


def test_the_guard_names_size_and_remedy(monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda: 8.0 * 2**30)
    memory.require_memory(8 * 2**30, "The matrix", "take less")
    with pytest.raises(
        MemoryError, match=r"^The matrix takes 8193 MiB and 8192 MiB are available: take less\.$"
    ):
        memory.require_memory(8193 * MIB, "The matrix", "take less")


def test_the_system_is_not_asked_for_a_small_matrix(monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda: 0.0)
    memory.require_memory(MIB, "The matrix", "take less")
    with pytest.raises(MemoryError, match="0 MiB are available"):
        memory.require_memory(MIB + 1, "The matrix", "take less")


def test_blocks_follow_the_working_memory_of_scikit_learn():
    assert memory.block_bytes() == 8 * MIB
    with config_context(working_memory=1):
        assert memory.block_bytes() == MIB
    with config_context(working_memory=4096):
        assert memory.block_bytes() == 8 * MIB
