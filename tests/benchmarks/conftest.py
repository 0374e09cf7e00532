"""Fixtures of the benchmarks' tests."""

from __future__ import annotations

import json
import runpy
import sys

import pytest


@pytest.fixture
def in_this_process(monkeypatch, capsys):
    """What ``in_fresh_process`` returns, of a module that is run here: an import costs seconds.

    That a process of its own is started, ended in time and its failure put into words is tested in
    ``common/test_fresh.py``.
    """

    def run(module, task, **limits):
        with monkeypatch.context() as patch:
            patch.setattr(sys, "argv", [module, json.dumps(task)])
            patch.delitem(sys.modules, module, raising=False)
            printed = capsys.readouterr()
            runpy.run_module(module, run_name="__main__")
            last = capsys.readouterr().out.splitlines()[-1]
        sys.stdout.write(printed.out)
        sys.stderr.write(printed.err)
        return json.loads(last)

    return run
