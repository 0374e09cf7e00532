"""Tables of README and guide against what the commands printed, which ``docs/results`` keeps."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.common.output import SUFFIX, read_page

CHECKOUT = Path(__file__).resolve().parents[2]
RESULTS = CHECKOUT / "docs" / "results"
PAGES = [
    CHECKOUT / "README.md",
    *sorted((CHECKOUT / "docs" / "guide").glob("*.rst")),
    *sorted(RESULTS.glob("*.rst")),
]

# A figure: no part of a name such as Musk1, and no list index.
FIGURE = re.compile(r"(?<![\w.])-?\d+(?:[.,]\d+)*(?:e-?\d+)?(?![\w]|\.\d)")
COMMAND = re.compile(r"`python -m benchmarks ([^`]+)`")


def names_of(command):
    """Results files of a command line: ``paper a b`` has two, ``quick --methods x`` one."""
    words = re.split(r"\s+-", command)[0].split()
    return words[1:] if words[0] in {"paper", "scale"} else words[:1]


def tables_of(text):
    """Tables of a page, each with the command that was named last before it."""
    lines = text.splitlines()
    command, number, found = None, 0, []
    while number < len(lines):
        # A command may be broken over two lines of a paragraph.
        mentions = COMMAND.findall(lines[number] + " " + lines[min(number + 1, len(lines) - 1)])
        if mentions and not lines[number].startswith("|"):
            command = re.sub(r"\s+", " ", mentions[-1])
        begin = number
        if lines[number].startswith(".. list-table::"):
            number += 1
            begin = number
            while number < len(lines) and (not lines[number] or lines[number].startswith(" ")):
                begin += lines[number].startswith("   :")  # options of the directive
                number += 1
        elif re.match(r"^=+( +=+)+$", lines[number]):
            rules = 0
            while rules < 3 and number < len(lines):
                rules += bool(re.match(r"^=+( +=+)+$", lines[number]))
                number += 1
        elif lines[number].startswith("|"):
            mentions = COMMAND.findall(lines[number])
            command = mentions[0] if mentions else None
            while number < len(lines) and lines[number].startswith("|"):
                number += 1
        else:
            number += 1
            continue
        if command is not None:
            found.append((command, "\n".join(lines[begin:number])))
    return found


def figures(text):
    # "1,460" and "1460" are one figure.
    return {found.replace(",", "") for found in FIGURE.findall(text)}


CASES = [
    pytest.param(command, table, id=f"{page.stem}-{number}-{names_of(command)[0]}")
    for page in PAGES
    for number, (command, table) in enumerate(tables_of(page.read_text(encoding="utf-8")))
]


@pytest.mark.parametrize(("command", "table"), CASES)
def test_every_figure_of_a_table_stands_in_what_its_command_printed(command, table):
    printed: set[str] = set()
    for name in names_of(command):
        path = RESULTS / f"{name}{SUFFIX}"
        assert path.is_file(), f"docs/results/{path.name} is missing: the command writes it"
        printed |= figures(read_page(path).text())
    strangers = sorted(figures(table) - printed)
    assert not strangers, f"not printed by {command!r}: {', '.join(strangers)}"


def test_there_are_tables_to_check_and_a_changed_figure_is_noticed():
    found = {name for case in CASES for name in names_of(case.values[0])}
    assert found >= {"quick", "zhang2011-webkb"}
    page = "`python -m benchmarks quick`\n\n=== ====\na   12.5\n=== ====\nb   99.9\n=== ====\n"
    ((command, table),) = tables_of(page)
    assert names_of(command) == ["quick"]
    assert figures(table) == {"12.5", "99.9"}
    assert figures("Musk1 2.5e-3 x.5 1/5.2") == {"2.5e-3", "1", "5.2"}


@pytest.mark.parametrize("path", sorted(RESULTS.glob(f"*{SUFFIX}")), ids=lambda path: path.name)
def test_every_file_of_results_is_a_page_with_tables_and_a_command(path):
    page = read_page(path)
    assert page.tables
    assert page.command.startswith("python -m benchmarks ")
    (name,) = names_of(page.command.removeprefix("python -m benchmarks "))
    stem = path.name.removesuffix(SUFFIX)
    # A second run of a command has a page that is named after its data, too.
    assert stem == name or stem.removeprefix(f"{name}-") in page.command.split()
    for table in page.tables:
        assert table.rows


def test_every_file_of_results_is_shown_or_named_on_a_page_of_results():
    pages = [path.read_text(encoding="utf-8") for path in RESULTS.glob("*.rst")]
    shown = {name for page in pages for name in re.findall(r"^\.\. printed:: (\S+)$", page, re.M)}
    for page in pages:
        # Tables that are typed from several files are checked against the command named above them.
        shown |= {name for command, _ in tables_of(page) for name in names_of(command)}
    kept = {path.name.removesuffix(SUFFIX) for path in RESULTS.glob(f"*{SUFFIX}")}
    assert kept <= shown, f"on no page of docs/results: {sorted(kept - shown)}"
    strangers = [
        path.name for path in RESULTS.iterdir() if not path.name.endswith((SUFFIX, ".rst"))
    ]
    assert not strangers
