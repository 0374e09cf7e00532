"""The page is made of the tables that commands kept, and of nothing else."""

from __future__ import annotations

import json
from html.parser import HTMLParser

import pytest

from benchmarks.__main__ import main
from benchmarks.commands import report
from benchmarks.common.page import Page, kept_page, note_sources, read_page, say, show
from benchmarks.common.table import Table


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
    ["baseline: min/max + SVC", "64.0 +- 13.9", "3.2 ms", ""],
    ["<MISVC> & co", "7.0 +-  9.7", "0.81 s", "2 folds missing"],
]


TABLE = Table(HEADER, ROWS, "lrrl", title="about <what>", note="after & on")


def test_tables_and_notes_stand_in_their_order():
    blocks = list(report._blocks(Page("python -m benchmarks quick", notes=["<b>"], tables=[TABLE])))
    assert len(blocks) == 3
    assert blocks[0] == "<pre>&lt;b&gt;</pre>"
    assert Tables(blocks[1]).tables == [[HEADER, *ROWS]]
    assert "<caption>about &lt;what&gt;</caption>" in blocks[1]
    assert blocks[2] == "<pre>after &amp; on</pre>"


def test_page_holds_tables_and_plots_and_loads_nothing(tmp_path, capsys):
    page = Page("python -m benchmarks quick --fast", "abc123", "s0urce", {"numpy": "1.0"})
    page.tables.append(TABLE)
    page.write(tmp_path / "quick.tables.json")
    (tmp_path / "quick.png").write_bytes(b"\x89PNG-quick")
    (tmp_path / "other.tables.json").write_text("nobody knows this command")
    (tmp_path / "speed.tables.json").write_text('{"tables": [], "unheard": "of"}')
    assert main(["report", "--out", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "(1 sections)" in out
    assert "left out: speed.tables.json holds no tables of a command" in out
    text = (tmp_path / "report.html").read_text()
    found = Tables(text)
    assert found.tables == [[HEADER, *ROWS]]
    assert "nobody knows" not in text
    assert "python -m benchmarks quick --fast" in text
    assert "commit abc123; source s0urce; versions: numpy 1.0" in text
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


def test_what_is_shown_is_printed_and_kept_as_it_was_said(tmp_path, capsys):
    path = tmp_path / "folder" / "a.tables.json"
    with kept_page(path, Page("python -m benchmarks a")):
        say("\nbefore")
        show(TABLE)
        say("\none\ntwo\n")
        say("three")
        show(Table(["x"], []))
        note_sources([{"versions": {"milearn_source": "b"}}, {}])
        note_sources([{"versions": {"milearn_source": "a"}}])
    out = capsys.readouterr().out
    assert out.startswith(f"\nbefore\n\nabout <what>\n{TABLE}\nafter & on\n\none\ntwo\n")
    page = read_page(path)
    assert page.notes == ["before"]
    assert page.tables[0].title == "about <what>"
    assert page.tables[0].note == "after & on\none\ntwo\nthree"
    assert page.tables[0].rows == ROWS
    assert page.tables[0].align == "lrrl"
    assert list(page.tables[1].columns) == ["x"]
    assert page.milearn_source == "a, b, not recorded"
    assert page.commit == "not recorded"
    # One row is one line: what changed in a file can be seen.
    assert sum("64.0 +- 13.9" in line for line in path.read_text().splitlines()) == 1
    json.loads(path.read_text())


def test_outside_of_a_page_nothing_is_kept(tmp_path, capsys):
    with kept_page(tmp_path / "a.tables.json", Page("a")):
        say("inside")
    say("outside")
    show(TABLE)
    note_sources([{}])
    assert read_page(tmp_path / "a.tables.json").notes == ["inside"]


def test_a_run_that_breaks_off_leaves_the_earlier_page(tmp_path, capsys):
    path = tmp_path / "a.tables.json"
    Page("earlier").write(path)

    def broken():
        with kept_page(path, Page("later")):
            say("half")
            raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        broken()
    say("outside")
    assert read_page(path).command == "earlier"
    assert [item.name for item in tmp_path.iterdir()] == ["a.tables.json"]
    assert capsys.readouterr().out == "half\noutside\n"


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"command": "x", "tables": [{"columns": ["a"], "rows": [[]]}]}']
)
def test_a_file_that_is_no_page_is_named(tmp_path, text):
    (tmp_path / "x.tables.json").write_text(text)
    with pytest.raises(ValueError, match=r"x\.tables\.json holds no tables"):
        read_page(tmp_path / "x.tables.json")
