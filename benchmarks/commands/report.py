"""``report``: one self-contained HTML page of everything that was run."""

from __future__ import annotations

import argparse
import html
import platform
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from joblib import cpu_count

from ..common.output import RESULTS, SUFFIX, Page, Table, read_page, short_path
from ..common.reports import collect
from . import paper, scale

HELP = "one HTML page with the tables of every command that was run"

# Commands that print one table of their own, in the order of the page.
_COMMANDS = {
    "quick": "Every family of classifiers on small data",
    "classical": "Every classifier on the classical sets",
    "stored-folds": "Ten sets with the folds that were published with them",
    "needles": "Frozen features and few deciding instances, compared with networks",
    "automatic": "The estimators that need no settings",
    "speed": "Time and memory against baselines and peers",
    "calibration": "Probabilities and regression with few bags",
    "ratios": "A fit of each family compared with plain scikit-learn",
    "survival": "Survival of bags, compared with scikit-survival on features of bags",
    "goals": "Goals, and the values reached",
}

_STYLE = """
:root { --ink: #1c2430; --faint: #5d6875; --line: #d8dde3; --accent: #1f5f99; --paper: #ffffff; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e8ec; --faint: #9aa5b1; --line: #39424d; --accent: #7fb5e6; --paper: #14181d; }
}
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 68rem; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.15rem; margin: 2.5rem 0 .3rem; }
h2 code { color: var(--accent); }
p, li { max-width: 46rem; } .faint { color: var(--faint); }
.wide { overflow-x: auto; margin: .8rem 0; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .92rem; }
th, td { padding: .25rem .7rem; border-bottom: 1px solid var(--line); white-space: nowrap;
  text-align: right; }
th.text, td.text, caption { text-align: left; }
caption { font-weight: 600; white-space: pre-line; }
tbody tr:hover { background: color-mix(in srgb, var(--accent) 10%, transparent); }
pre { white-space: pre-wrap; font-size: .85rem; }
nav ul { columns: 18rem; padding-left: 1.2rem; } a { color: var(--accent); }
@media (max-width: 40rem) { body { padding: .7rem; } th, td { padding: .2rem .45rem; } }
"""


@dataclass(frozen=True)
class Section:
    """One run and its page."""

    name: str
    title: str
    page: Page


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--out",
        type=Path,
        default=RESULTS,
        metavar="DIR",
        help="folder of the results (default: benchmarks/results)",
    )


def main(args: argparse.Namespace) -> int:
    sections = find_sections(args.out)
    if not sections:
        print(
            f"Nothing was run yet in {short_path(args.out)}: run a command first, for example "
            "`python -m benchmarks quick`."
        )
        return 1
    path = args.out / "report.html"
    # Written beside it and moved: a reader never meets half a page.
    draft = path.with_name(path.name + ".part")
    draft.write_text(page(sections), encoding="utf-8")
    draft.replace(path)
    print(f"report:  {short_path(path)} ({len(sections)} sections)")
    return 0


def find_sections(folder: Path) -> list[Section]:
    """What was run, in the order of the page; a command without a page is left out."""
    known = dict(_COMMANDS)
    for command, module in (("paper", paper), ("scale", scale)):
        for name, report in collect(f"{command}s", module.MODULES).items():
            known[name] = report.title
    sections = []
    for name, title in known.items():
        path = folder / f"{name}{SUFFIX}"
        if not path.is_file():
            continue
        try:
            sections.append(Section(name, title, read_page(path)))
        except ValueError as error:
            print(f"left out: {error}")
    return sections


def page(sections: Sequence[Section]) -> str:
    """The whole page; the style is inside, nothing is loaded from anywhere."""
    contents = "".join(
        f'<li><a href="#{item.name}">{html.escape(item.title)}</a></li>' for item in sections
    )
    body = "\n".join(_section(item) for item in sections)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>milearn: benchmarks</title>
<style>{_STYLE}</style>
</head>
<body>
<h1>milearn: what it reaches and what it costs</h1>
<p>Tables of the commands of <code>python -m benchmarks</code>; each section names its
command and the versions that it ran with.</p>
<p class="faint">{cpu_count()} processors, {html.escape(platform.machine())},
{html.escape(platform.system())} when this page was written.</p>
<nav><ul>{contents}</ul></nav>
{body}
</body>
</html>
"""


def _section(item: Section) -> str:
    parts = [
        f'<section id="{item.name}">',
        f"<h2>{html.escape(item.title)}</h2>",
        f'<p class="faint"><code>{html.escape(item.page.command)}</code><br>',
        f"{html.escape(_provenance(item.page))}</p>",
        *_blocks(item.page),
    ]
    return "\n".join([*parts, "</section>"])


def _provenance(page: Page) -> str:
    versions = page.versions
    if not isinstance(versions, str):
        versions = ", ".join(f"{name} {value}" for name, value in versions.items())
    return f"commit {page.commit}; source {page.milearn_source}; versions: {versions}"


def _blocks(page: Page) -> Iterator[str]:
    """HTML of the notes and tables in their order."""
    for note in page.notes:
        yield f"<pre>{html.escape(note)}</pre>"
    for table in page.tables:
        yield _table(table)
        if table.note:
            yield f"<pre>{html.escape(table.note)}</pre>"


def _table(table: Table) -> str:
    kinds = ["" if side == "r" else ' class="text"' for side in table.align or ""]
    caption = f"<caption>{html.escape(table.title)}</caption>" if table.title else ""
    head = "".join(
        f"<th{kind}>{html.escape(cell)}</th>"
        for kind, cell in zip(kinds, table.columns, strict=True)
    )
    body = "".join(
        "<tr>"
        + "".join(f"<td{kind}>{html.escape(c)}</td>" for kind, c in zip(kinds, row, strict=True))
        + "</tr>"
        for row in table.rows
    )
    found = f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f'<div class="wide">{found}</div>'
