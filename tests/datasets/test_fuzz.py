"""The fuzz script itself: it passes on the readers as they are and fails for a planted fault."""

from __future__ import annotations

import dataclasses

import pytest

from milearn.datasets._formats.io import FORMATS
from tests.datasets import fuzz

pytest.importorskip("pyarrow", reason="the files of all formats include Parquet")


def test_mutated_files_are_read_or_refused(tmp_path):
    report = fuzz.run(tmp_path, seed=0, files=50 * len(fuzz.FORMATS))
    assert report.failures == []
    for form in fuzz.FORMATS:
        outcomes = {outcome: report.counts[form, outcome] for outcome in ("read", "refused")}
        assert sum(outcomes.values()) == 50
        # Damage of which all or nothing is refused would test half of a reader.
        assert min(outcomes.values()) > 0, form


def test_a_planted_fault_is_found(monkeypatch, capsys):
    def faulty(path, **given):
        if path.stat().st_size % 7 == 3:
            raise KeyError("planted")
        return csv.read(path, **given)

    csv = FORMATS["csv"]
    monkeypatch.setitem(FORMATS, "csv", dataclasses.replace(csv, read=faulty))
    assert fuzz.main(["--files", "200", "--seed", "3"]) == 1
    printed = capsys.readouterr()
    assert printed.out.startswith("seed 3, files in ")
    assert "planted" in printed.err
    assert "csv, seed 3, file " in printed.err
