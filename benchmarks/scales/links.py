"""MILSD against the number of links, and compared with linear MISVC."""

from __future__ import annotations

import argparse
from dataclasses import asdict, dataclass
from typing import Any

from ..common.fresh import in_fresh_process
from ..common.page import say, show
from ..common.protocol import run
from ..common.records import RecordFile, digest, source_digest
from ..common.reports import Report, finish
from ..common.table import Table, duration
from ..common.tasks import record_of
from .sizes import slope

__all__ = ["REPORTS", "LinksTask"]

# Joined pairs of generated data, ten for each bag of five instances with 20 features.
SIZES = (1_000, 10_000, 100_000, 1_000_000)
PAIRS_A_BAG = 10
# Title, joined pairs (0: co-citation), C a bag, mu over C.
POINTS: dict[str, tuple[str, int, float, float]] = {
    "elephant": ("Elephant, links of instances", 100_000, 0.1, 1.0),
    "student-passages": ("WebKB student, passages, co-citation", 0, 0.1, 1.0),
    "student-passages+": ("WebKB student, passages, drawn links", 100_000, 0.1, 1.0),
    "course-pages": ("WebKB course, pages, co-citation", 0, 10.0, 1.0),
}
_TIMEOUT = 600.0


@dataclass(frozen=True)
class LinksTask:
    """One process; ``dataset`` is "generated" or a name of ``POINTS``."""

    dataset: str
    n_links: int
    rounds: int
    method: str = "milsd"

    @property
    def key(self) -> str:
        settings = digest([asdict(self), source_digest()])
        return f"milsd-links/{self.dataset}/{self.n_links}@{settings}"


def run_task(task: LinksTask) -> dict[str, Any]:
    return record_of(task, measure)


def measure(task: LinksTask) -> dict[str, Any]:
    """What ``_links_fit`` measures in a fresh process."""
    if task.dataset == "generated":
        stated = {"data": "generated", "n_bags": task.n_links // PAIRS_A_BAG, "C": 0.1, "mu": 1.0}
    else:
        _, _, C, mu = POINTS[task.dataset]
        stated = {"data": task.dataset.rstrip("+"), "C": C, "mu": mu}
    stated |= {"n_links": task.n_links, "rounds": task.rounds}
    try:
        return in_fresh_process("benchmarks.scales._links_fit", stated, timeout=_TIMEOUT)
    except TimeoutError:
        # Not an error, which would be tried again: it says where the method ends.
        return {"timeout": _TIMEOUT}


def run_links(args: argparse.Namespace) -> int:
    """Both tables of the report."""
    rounds = args.repeats or (1 if args.fast else 2)
    sizes = SIZES[:2] if args.fast else SIZES
    tasks = [LinksTask("generated", size, 1 if size >= 10**6 else rounds) for size in sizes]
    points = ["elephant"] if args.fast else list(POINTS)
    tasks += [LinksTask(name, POINTS[name][1], rounds) for name in points]
    with RecordFile(args.out / "milsd-links.jsonl", fresh=args.fresh) as file:
        records, complete = run(tasks, file, jobs=1, label="milsd-links", function=run_task)
    found = [(task, records.get(task.key, {}).get("result")) for task in tasks]
    rows = [_row(_title(task), result) for task, result in found if result is not None]
    grown = [
        (result["n_pairs"], result["linked_cpu_seconds"])
        for task, result in found
        if task.dataset == "generated" and result is not None and "timeout" not in result
    ]
    if len(grown) > 1:
        exponent = slope(*map(list, zip(*grown, strict=True)))
        rows.append(["slope of generated, last three", "", "", "", f"{exponent:.2f}", "", "", ""])
    columns = ["data", "pairs", "MISVC", "mu=0, ratio", "links", "ratio", "gap", "memory"]
    show(Table(columns, rows, "lrrrrrrr"))
    say(
        f"\nCPU time in one process, in turn, shortest of {rounds} (one from 1,000,000 pairs on). "
        "MISVC: linear; mu=0, ratio: MILSD "
        "without links over MISVC;\nlinks: MILSD with links, ratio: over MISVC; "
        "gap: relative duality gap; memory:\npeak above the process with the data. Joined pairs "
        "are two links each. Generated: ten\npairs a "
        "bag, five instances a bag, 20 features, C = 0.1 a bag, mu = C."
    )
    return finish(records, complete, file, len(tasks))


def _title(task: LinksTask) -> str:
    if task.dataset != "generated":
        return POINTS[task.dataset][0]
    return f"generated, {task.n_links // PAIRS_A_BAG:,} bags"


def _row(title: str, result: dict[str, Any]) -> list[str]:
    if "timeout" in result:
        return [title, "", "", "", f"> {result['timeout']:g} s", "", "", ""]
    alone = result["misvc_cpu_seconds"]
    return [
        title,
        f"{result['n_pairs']:,}",
        duration(alone),
        f"{result['unlinked_cpu_seconds'] / alone:.1f}",
        duration(result["linked_cpu_seconds"]),
        f"{result['linked_cpu_seconds'] / alone:.1f}",
        f"{result['linked_gap']:.0e}",
        f"{result['peak_mb']:.0f} MB",
    ]


REPORTS = (
    Report("milsd-links", "MILSD: time and number of links, compared with MISVC", run_links),
)
