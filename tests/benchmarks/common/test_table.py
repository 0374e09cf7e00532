"""Tables, units and the progress bar."""

from __future__ import annotations

import io
import sys

import pytest

from benchmarks.common.progress import progress_bar
from benchmarks.common.table import Table, duration, megabytes, percent


def test_columns_are_aligned_and_lines_have_no_trailing_blanks():
    table = Table(
        ["method", "accuracy", ""], [["a", "87.1", "note"], ["longer name", "9.0", ""]], "lrl"
    )
    assert str(table) == (
        "method       accuracy\n"
        "-----------  --------  ----\n"
        "a                87.1  note\n"
        "longer name       9.0"
    )


def test_a_table_may_have_no_rows():
    assert str(Table(["a", "b"], [])) == "a  b\n-  -"


def test_cells_and_columns_must_agree():
    with pytest.raises(ValueError, match="A row has 1 cells for 2 columns"):
        Table(["a", "b"], [["x"]])
    with pytest.raises(ValueError, match="align has 3 letters for 2 columns"):
        Table(["a", "b"], [], align="lll")


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


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("stream", [io.StringIO(), Terminal()])
def test_progress_is_a_bar_on_stderr_that_a_remark_does_not_tear(stream, monkeypatch):
    monkeypatch.setattr(sys, "stderr", stream)
    with progress_bar(4, done=1, label="quick") as bar:
        assert bar.mininterval == (0.1 if stream.isatty() else 5.0)
        bar.update()
        bar.write("a remark", file=stream)
        bar.update()
        bar.update()
    text = stream.getvalue()
    assert text.startswith("\rquick:  25%")
    assert "4/4" in text
    assert "a remark\n" in text
