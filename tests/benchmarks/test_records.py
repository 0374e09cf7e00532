"""The results file: nothing is lost, nothing is done twice, a broken line is no disaster."""

from __future__ import annotations

import json
import re

import pytest

from benchmarks.common import records as _records
from benchmarks.common.records import (
    RecordFile,
)


@pytest.fixture
def said():
    return []


@pytest.fixture
def file(tmp_path, said):
    return RecordFile(tmp_path / "results" / "quick.jsonl", report=said.append)


def test_records_come_back_by_key_and_the_last_one_counts(file, said):
    file.append({"key": "a", "value": 1})
    file.append({"key": "b", "value": 2})
    file.append({"key": "a", "value": 3})
    assert file.read() == {"a": {"key": "a", "value": 3}, "b": {"key": "b", "value": 2}}
    assert said == []


@pytest.mark.parametrize(
    "line",
    [b'{"key": "x", "val', b"\xff\xfe\x00", b"not json", b"[1, 2]", b'{"value": 1}', b'{"key": 3}'],
)
def test_a_corrupted_line_is_reported_by_number_and_skipped(file, said, line):
    file.append({"key": "a"})
    with open(file.path, "ab") as raw:
        raw.write(line + b"\n")
    file.append({"key": "b"})
    assert set(file.read()) == {"a", "b"}
    assert len(said) == 1
    assert said[0].startswith("quick.jsonl, line 2 skipped: ")


def test_a_record_after_an_interrupted_write_is_not_lost(file, said):
    file.append({"key": "a"})
    whole = file.path.read_bytes()
    file.append({"key": "b", "value": list(range(50))})
    written = file.path.read_bytes()
    for cut in range(len(whole) + 1, len(written) - 1, 17):
        file.path.write_bytes(written[:cut])  # as a killed process leaves it
        file.append({"key": "c"})
        assert set(file.read()) == {"a", "c"}
        assert len(said) == 1
        said.clear()


@pytest.mark.parametrize("room", [0, 1, 40])
def test_a_full_disk_is_an_error_and_loses_no_other_record(file, said, full_disk, room):
    file.append({"key": "a"})
    size = file.path.stat().st_size
    with full_disk(size + room), pytest.raises(OSError, match="File too large"):
        file.append({"key": "b", "value": list(range(50))})
    assert file.path.stat().st_size == size + room
    file.append({"key": "c"})
    assert set(file.read()) == {"a", "c"}
    assert len(said) == (room > 0)


def test_a_write_that_the_system_cuts_short_is_completed(file, monkeypatch):
    class Reluctant:
        """A file that takes three bytes at a time, as a system may under pressure."""

        def __init__(self, raw):
            self.raw = raw

        def __getattr__(self, name):
            return getattr(self.raw, name)

        def __enter__(self):
            return self

        def __exit__(self, *exception):
            self.raw.close()

        def write(self, data):
            return self.raw.write(data[:3])

    def reluctant_open(*args, **options):
        return Reluctant(open(*args, **options))

    monkeypatch.setattr(_records, "open", reluctant_open, raising=False)
    file.append({"key": "a", "value": "something longer than three bytes"})
    assert list(file.read()) == ["a"]


def test_fresh_starts_anew_and_keeps_the_old_file(file):
    file.append({"key": "a"})
    fresh = RecordFile(file.path, fresh=True)
    assert fresh.read() == {}
    assert json.loads(file.path.with_name("quick.jsonl.old").read_text()) == {"key": "a"}


def test_two_runs_at_once_are_refused(file):
    with file, pytest.raises(SystemExit, match=r"Another run is writing to quick\.jsonl"):
        RecordFile(file.path).__enter__()
    with file:  # the lock ends with the run
        pass


def test_the_commit_is_named_without_a_place(monkeypatch):
    assert re.fullmatch(r"[0-9a-f]{7,}(-dirty)?|not recorded", _records.commit.__wrapped__())

    def no_git(*args, **options):
        raise FileNotFoundError("git")

    monkeypatch.setattr(_records.subprocess, "run", no_git)
    assert _records.commit.__wrapped__() == "not recorded"


def test_a_processor_without_a_name_is_not_recorded(monkeypatch, tmp_path):
    assert _records.processor()
    monkeypatch.setattr(_records, "Path", lambda name: tmp_path / "missing")
    monkeypatch.setattr(_records.platform, "processor", lambda: "")
    assert _records.processor() == "not recorded"
