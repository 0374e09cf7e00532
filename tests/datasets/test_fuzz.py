"""The fuzz script itself: it passes on the readers as they are and fails for a planted fault."""

from __future__ import annotations

import dataclasses
import re

import pytest

from milearn.datasets._formats.formats import FORMATS
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


def test_a_file_can_be_made_again(tmp_path):
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    fuzz.run(tmp_path / "one", seed=5, files=20)
    fuzz.run(tmp_path / "two", seed=5, files=1, first=19)
    (left,), (right,) = (list((tmp_path / name).iterdir()) for name in ("one", "two"))
    assert left.name == right.name
    assert left.read_bytes() == right.read_bytes()


@pytest.mark.parametrize("fault", [KeyError("planted"), UserWarning("planted")])
def test_a_planted_fault_is_found(tmp_path, monkeypatch, capsys, fault):
    def faulty(path, **given):
        if path.stat().st_size % 7 == 3:
            raise fault
        return csv.read(path, **given)

    csv = FORMATS["csv"]
    monkeypatch.setitem(FORMATS, "csv", dataclasses.replace(csv, read=faulty))
    assert fuzz.main(["--files", "200", "--seed", "3"]) == 1
    printed = capsys.readouterr()
    assert "seed 3" in printed.out
    assert "planted" in printed.err
    # The failure names the file from which it can be made again.
    number = re.search(r"csv, seed 3, file (\d+), options", printed.err)[1]
    again = ["--files", "1", "--seed", "3", "--first", number, "--folder", str(tmp_path / "one")]
    assert fuzz.main(again) == 1
    (path,) = (tmp_path / "one").iterdir()
    assert path.stat().st_size % 7 == 3


def test_the_command(capsys):
    assert fuzz.main(["--files", "16", "--seed", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("seed 1, files in ")
    assert lines[-1].split()[:2] == ["all", "16"]
    assert fuzz.main(["--seconds", "0.2", "--seed", "2"]) == 0
