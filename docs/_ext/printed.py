"""``.. printed:: name``: tables of ``docs/results/name.tables.json``, which a command wrote.

A table that is drawn from what was printed cannot differ from it. ``.. reproduce:: name name`` is a
box with the commands of files, their downloads and the state that each ran in; without names it is
a list of the downloads of all files. Every table is also written to the site as CSV.
"""

from __future__ import annotations

import csv
import re
import sys
from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import Directive, directives
from docutils.statemachine import StringList

DOCS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(DOCS.parent))

from benchmarks.common.output import (  # noqa: E402 (the path comes first)
    SUFFIX,
    Page,
    Table,
    read_page,
)

CSV_FOLDER = "_csv"  # in the built site

# A number with its unit or deviation, such as "89.6 +- 1.8" or "0.52 s".
_NUMBER = re.compile(r"[-+]?\d[\d.,]*(e[-+]?\d+)?( ?(%|\w{1,4}))?( \+- +[\d.]+)?( ?\S{1,4})?")


class Printed(Directive):
    """The tables of one command.

    ``:tables: 1 3`` takes some of them, counted from one; ``:notes:`` adds the notes that the
    command printed below them.
    """

    required_arguments = 1
    option_spec: ClassVar[dict[str, Any]] = {
        "tables": directives.positive_int_list,
        "notes": directives.flag,
    }

    def run(self) -> list[nodes.Node]:
        path = DOCS / "results" / f"{self.arguments[0]}{SUFFIX}"
        if not path.is_file():
            raise self.error(f"docs/results/{path.name} is missing: a command writes it.")
        # A change of the file alone has to make the page again.
        self.state.document.settings.record_dependencies.add(str(path))
        try:
            tables = read_page(path).tables
        except ValueError as error:
            raise self.error(f"docs/results/{error}") from error
        wanted = self.options.get("tables", list(range(1, len(tables) + 1)))
        if not tables or max(wanted) > len(tables):
            raise self.error(f"docs/results/{path.name} holds {len(tables)} tables.")
        found: list[nodes.Node] = []
        for table in (tables[number - 1] for number in wanted):
            if table.title:
                title = " ".join(table.title.split())
                found.append(nodes.paragraph("", "", nodes.emphasis("", title)))
            found += drawn(self, table)
            if "notes" in self.options and (note := _without_records(table.note)):
                found.append(nodes.paragraph("", note, classes=["table-note"]))
        return _as_typed(found)


class Reproduce(Directive):
    """Commands, downloads and states of files; ``:plot: name`` adds the command of the plot."""

    optional_arguments = 1
    final_argument_whitespace = True
    option_spec: ClassVar[dict[str, Any]] = {"plot": directives.unchanged_required}

    def run(self) -> list[nodes.Node]:
        if not self.arguments:
            every = sorted(path.name for path in (DOCS / "results").glob(f"*{SUFFIX}"))
            links = [f":download:`{name.removesuffix(SUFFIX)} <{name}>`" for name in every]
            return self._parsed([", ".join(links) + "."])
        lines = [".. admonition:: Reproduce", "   :class: tip", ""]
        for name in self.arguments[0].split():
            path = DOCS / "results" / f"{name}{SUFFIX}"
            self.state.document.settings.record_dependencies.add(str(path))
            try:
                page = read_page(path)
            except (OSError, ValueError) as error:
                raise self.error(f"docs/results: {error}") from error
            command = page.command.removesuffix(" --recorded")  # which only reads records
            lines.append(f"   * ``{command}`` ({self._links(path, page)}; {_state(page)})")
        if "plot" in self.options:
            lines.append(f"   * Plot: ``python docs/plots.py {self.options['plot']}``")
        return self._parsed(lines)

    def _links(self, path: Path, page: Page) -> str:
        """Downloads of all tables in one file, and of each as CSV."""
        document = self.state.document.settings.env.docname
        folder = "../" * document.count("/") + CSV_FOLDER
        names = csv_names(path, page)
        links = [f"`{number} <{folder}/{name}>`__" for number, name in enumerate(names, 1)]
        shown = f"CSV {' '.join(links)}" if links[1:] else f"`CSV <{folder}/{names[0]}>`__"
        return f":download:`JSON </results/{path.name}>`, {shown}"

    def _parsed(self, lines: list[str]) -> list[nodes.Node]:
        node = nodes.Element()
        self.state.nested_parse(StringList(lines, "reproduce"), 0, node)
        return _as_typed(list(node.children))


def csv_names(path: Path, page: Page) -> list[str]:
    """File of each table of a page: ``quick.csv``, or ``quick-1.csv`` and so on."""
    stem, count = path.name.removesuffix(SUFFIX), len(page.tables)
    return [
        f"{stem}-{number}.csv" if count > 1 else f"{stem}.csv" for number in range(1, count + 1)
    ]


def write_csv(app: Any, error: Exception | None) -> None:
    """Write every recorded table as CSV into the built site."""
    if error is not None or app.builder.format != "html":
        return
    folder = Path(app.outdir) / CSV_FOLDER
    folder.mkdir(exist_ok=True)
    for path in sorted((DOCS / "results").glob(f"*{SUFFIX}")):
        page = read_page(path)
        for name, table in zip(csv_names(path, page), page.tables, strict=True):
            with (folder / name).open("w", encoding="utf-8", newline="") as file:
                csv.writer(file).writerows([table.columns, *table.rows])


def _state(page: Page) -> str:
    """Commit, version and, where it is recorded, processor."""
    versions = page.versions if isinstance(page.versions, dict) else {}
    version = versions.get("milearn", "not installed")
    words = "version not recorded" if version == "not installed" else f"milearn {version}"
    return ", ".join([f"commit {page.commit}", words, *filter(None, [versions.get("processor")])])


def _as_typed(found: list[nodes.Node]) -> list[nodes.Node]:
    """The nodes, whose quotes and double hyphens stay as the command printed them."""
    for node in found:
        if isinstance(node, nodes.Element):
            node["support_smartquotes"] = False
    return found


def _without_records(note: str) -> str:
    """The note of a table without the lines that name files of the run."""
    kept = [line for line in note.splitlines() if not re.match(r"(records|plot|time): ", line)]
    return " ".join(kept)


def drawn(directive: Directive, table: Table) -> list[nodes.Node]:
    """The table as nodes of the page."""
    lines = [".. list-table::", "   :header-rows: 1", ""]
    for row in [table.columns, *table.rows]:
        for number, cell in enumerate(row):
            # Literal text: a cell is no markup.
            text = "" if not cell else cell.replace("\\", "\\\\").replace("*", r"\*")
            text = text.replace("`", r"\`").replace("|", r"\|").replace("_", r"\_")
            text = r"\-" if text == "-" else text  # which would be an empty list
            lines.append(("   * - " if number == 0 else "     - ") + text)
    node = nodes.Element()
    directive.state.nested_parse(StringList(lines, "printed"), 0, node)
    for entry in node.findall(nodes.entry):
        if _NUMBER.fullmatch(entry.astext()):
            entry["classes"].append("number")  # not broken into lines
    return list(node.children)


def setup(app: Any) -> dict[str, bool]:
    app.add_directive("printed", Printed)
    app.add_directive("reproduce", Reproduce)
    app.connect("build-finished", write_csv)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
