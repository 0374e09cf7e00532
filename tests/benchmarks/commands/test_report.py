"""The page is made of what the commands printed, and of nothing else."""

from __future__ import annotations

import sys
from html.parser import HTMLParser

import pytest

from benchmarks.__main__ import main
from benchmarks.commands import report
from benchmarks.common.output import kept_output
from benchmarks.common.table import format_table


class Tables(HTMLParser):
    """The cells of every table, row by row, and the attributes of everything."""

    def __init__(self, text):
        super().__init__()
        self.tables, self.attributes, self._cell = [], [], None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.attributes.append((tag, dict(attrs)))
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self._cell = ""

    def handle_data(self, data):
        if self._cell is not None:
            self._cell += data

    def handle_endtag(self, tag):
        if tag in ("td", "th"):
            self.tables[-1][-1].append(self._cell)
            self._cell = None


HEADER = ["method", "accuracy %", "fit", ""]
ROWS = [
    ["floor: min/max + SVC", "64.0 +- 13.9", "3.2 ms", ""],
    ["<MISVC> & co", "7.0 +-  9.7", "0.81 s", "2 folds missing"],
]


def test_tables_come_back_cell_by_cell():
    text = "intro <b>\n\n" + format_table(HEADER, ROWS, align="lrrl") + "\n\nafter"
    blocks = list(report._blocks(text))
    assert len(blocks) == 3
    assert blocks[0] == "<pre>intro &lt;b&gt;</pre>"
    assert Tables(blocks[1]).tables == [[HEADER, *ROWS]]
    assert blocks[2] == "<pre>after</pre>"


def test_page_holds_text_and_plots_and_loads_nothing(tmp_path, capsys):
    (tmp_path / "quick.txt").write_text(format_table(HEADER, ROWS, align="lrrl"))
    (tmp_path / "quick.png").write_bytes(b"\x89PNG-quick")
    (tmp_path / "other.txt").write_text("nobody knows this command")
    assert main(["report", "--out", str(tmp_path)]) == 0
    assert "(1 sections)" in capsys.readouterr().out
    page = (tmp_path / "report.html").read_text()
    found = Tables(page)
    assert found.tables == [[HEADER, *ROWS]]
    assert "nobody knows" not in page
    assert "python -m benchmarks quick" in page
    sources = [attrs.get("src", "") for tag, attrs in found.attributes if tag == "img"]
    assert len(sources) == 1
    assert sources[0].startswith("data:image/png;base64,")
    for tag, attrs in found.attributes:
        assert tag not in ("link", "script", "iframe")
        assert not attrs.get("href", "#").startswith("http")
    assert any(attrs.get("name") == "viewport" for tag, attrs in found.attributes if tag == "meta")


def test_nothing_to_report(tmp_path, capsys):
    assert main(["report", "--out", str(tmp_path)]) == 1
    assert "run a command first" in capsys.readouterr().out
    assert not (tmp_path / "report.html").exists()


def test_output_is_kept_and_still_printed(tmp_path, capsys):
    with kept_output(tmp_path / "folder" / "a.txt"):
        print("one\ntwo")
    assert (tmp_path / "folder" / "a.txt").read_text() == "one\ntwo\n"
    assert capsys.readouterr().out == "one\ntwo\n"


def test_a_run_that_breaks_off_leaves_the_earlier_text(tmp_path, capsys):
    path = tmp_path / "a.txt"
    path.write_text("earlier")
    stdout = sys.stdout

    def broken():
        with kept_output(path):
            print("half")
            raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        broken()
    assert path.read_text() == "earlier"
    assert sys.stdout is stdout
    assert [item.name for item in tmp_path.iterdir()] == ["a.txt"]
    assert capsys.readouterr().out == "half\n"
