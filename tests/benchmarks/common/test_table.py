"""Tables, units and the progress lines."""

from __future__ import annotations

import io
import sys

import pytest

from benchmarks.common.progress import Progress
from benchmarks.common.table import (
    duration,
    format_table,
    megabytes,
    percent,
)


def test_columns_are_aligned_and_lines_have_no_trailing_blanks():
    table = format_table(
        ["method", "accuracy", ""], [["a", "87.1", "note"], ["longer name", "9.0", ""]], align="lrl"
    )
    assert table == (
        "method       accuracy\n"
        "-----------  --------  ----\n"
        "a                87.1  note\n"
        "longer name       9.0"
    )


def test_a_table_may_have_no_rows():
    assert format_table(["a", "b"], []) == "a  b\n-  -"


def test_cells_and_columns_must_agree():
    with pytest.raises(ValueError, match="A row has 1 cells for 2 columns"):
        format_table(["a", "b"], [["x"]])
    with pytest.raises(ValueError, match="align has 3 letters for 2 columns"):
        format_table(["a", "b"], [], align="lll")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.00321, "3.2 ms"), (0.809, "0.81 s"), (12.64, "12.6 s"), (249.4, "249 s")],
)
def test_durations_have_three_digits(seconds, text):
    assert duration(seconds) == text


def test_percent_and_megabytes():
    assert percent(0.8714) == "87.1"
    assert percent(0.8714, 0.021) == "87.1 +-  2.1"
    assert megabytes(3.21) == "3.2 MB"
    assert megabytes(345.6) == "346 MB"


def test_progress_without_a_terminal_prints_plain_lines():
    stream = io.StringIO()
    with Progress(4, done=1, label="quick", stream=stream, every=0.0) as progress:
        for _ in range(3):
            progress.advance("musk1")
        progress.write("a remark")
    lines = stream.getvalue().splitlines()
    assert [line.split(",")[0] for line in lines] == [
        "quick 2/4",
        "quick 3/4",
        "quick 4/4",
        "a remark",
    ]
    assert lines[0].endswith("s left  musk1")


def test_progress_is_quiet_between_two_lines():
    stream = io.StringIO()
    with Progress(100, stream=stream, every=1000.0) as progress:
        for _ in range(99):
            progress.advance()
    assert stream.getvalue() == ""


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_on_a_terminal_is_tqdms_bar():
    pytest.importorskip("tqdm")
    stream = Terminal()
    with Progress(2, label="quick", stream=stream) as progress:
        progress.advance("digits")
        progress.write("a remark")
        progress.advance("digits")
    assert "2/2" in stream.getvalue()
    assert "a remark" in stream.getvalue()


def test_progress_on_a_terminal_without_tqdm_prints_plain_lines(monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm", None)
    stream = Terminal()
    with Progress(1, label="quick", stream=stream) as progress:
        progress.advance()
    assert stream.getvalue().startswith("quick 1/1")
