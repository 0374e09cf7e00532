"""Both sides of ``n_components="auto"``: exact kernels and landmarks just above its thresholds."""

from __future__ import annotations

import argparse
from dataclasses import asdict, dataclass
from typing import Any

from milearn._fit.components import BagLimits, ComponentLimits, RelaxationLimits, StoredLimits

from ..common.fresh import in_fresh_process
from ..common.page import say, show
from ..common.protocol import run
from ..common.records import RecordFile, digest, source_digest
from ..common.reports import Report, finish
from ..common.table import Table
from ..common.tasks import record_of

__all__ = ["CASES", "REPORTS", "ApproximateTask", "run_approximate"]

BAG_SIZE, N_FEATURES = 10, 20
# Every estimator with landmarks, the limits of its rule, and further numbers of landmarks.
CASES: dict[str, tuple[ComponentLimits, tuple[int, ...]]] = {
    "MISVC": (ComponentLimits(), (100,)),
    "InstanceMISVC": (ComponentLimits(), ()),
    "MISVR": (ComponentLimits(), ()),
    "CoupledMISVC": (ComponentLimits(), ()),
    "CoupledMISVR": (ComponentLimits(), ()),
    "SDPMIL": (RelaxationLimits(), ()),
    "SparseMISVC": (StoredLimits(), ()),
    "SingleInstance": (StoredLimits(), ()),
    "BagSVC": (BagLimits(), (BagLimits().fewest,)),
    "BagSVR": (BagLimits(), (BagLimits().fewest,)),
}
# CPU seconds after which an exact fit is ended.
_SECONDS = 120.0
_FAST = {"MISVC": 60, "SparseMISVC": 60}


@dataclass(frozen=True)
class ApproximateTask:
    """A fit of one estimator; ``dataset`` is the size."""

    dataset: str
    method: str
    n_bags: int
    n_components: int | str | None

    @property
    def key(self) -> str:
        settings = digest([asdict(self), source_digest()])
        return f"{self.method}/{self.n_bags}/{self.n_components}@{settings}"


def run_task(task: ApproximateTask) -> dict[str, Any]:
    return record_of(task, measure)


def measure(task: ApproximateTask) -> dict[str, Any]:
    """What ``_approximate_fit`` measures in a fresh process."""
    stated = {
        "estimator": task.method,
        "n_bags": task.n_bags,
        "bag_size": BAG_SIZE,
        "n_features": N_FEATURES,
        "n_components": task.n_components,
        "seconds": _SECONDS,
    }
    return in_fresh_process("benchmarks.scales._approximate_fit", stated)


def tasks_of(fast: bool) -> list[ApproximateTask]:
    """The exact fit, the one of the rule, and those with other numbers of landmarks."""
    found = []
    for name, (limits, further) in CASES.items():
        if fast and name not in _FAST:
            continue
        # One bag more than the largest exact fit.
        n_bags = _FAST[name] if fast else min(limits.bags, limits.instances // BAG_SIZE) + 1
        size = f"{n_bags:,} x {BAG_SIZE} x {N_FEATURES}"
        for n_components in (None, *further, "auto") if not fast else (None, 20):
            found.append(ApproximateTask(size, name, n_bags, n_components))
    return found


def run_approximate(args: argparse.Namespace) -> int:
    """The table of exact and approximate fits."""
    tasks = tasks_of(args.fast)
    with RecordFile(args.out / "approximate.jsonl", fresh=args.fresh) as file:
        records, complete = run(tasks, file, jobs=1, label="approximate", function=run_task)
    rows, last = [], ""
    for task in tasks:
        if task.key in records:
            named = ["", ""] if task.method == last else [task.method, task.dataset]
            rows.append([*named, *_cells(records[task.key])])
            last = task.method
    columns = ["estimator", "bags x instances x features", "landmarks", "fit", "predict", "peak"]
    columns += ["objective", "test score", "test AUC"]
    show(Table(columns, rows, "lllrrrrrr"))
    say(
        "\nCPU seconds of fit and prediction, peak memory of the process in MiB; score: accuracy, "
        "or R2 of a regressor, on as many further bags.\nExact kernels, and the landmarks of "
        'n_components="auto" (the last row of each estimator), one bag above the largest exact fit '
        "of the rule.\nDefaults, random_state=0; bags of make_bags(concept_distance=3, flip_y=0.1, "
        "random_state=0): 90 % is the best accuracy. One thread, a process each. SparseMISVC "
        "labels instances by its first SVM, so the objectives of its second one are not comparable."
    )
    return finish(records, complete, file, len(tasks))


def _cells(record: dict[str, Any]) -> list[str]:
    if "error" in record:
        return ["", "failed", "-", "-", "-", "-", record["error"]]
    found = record["result"]
    objective, auc, count = found["objective"], found["auc"], found["n_components"]
    return [
        "exact" if count is None else str(count),
        f"{found['fit_cpu_seconds']:.1f}",
        f"{found['predict_cpu_seconds']:.1f}",
        f"{found['peak_mib']:.0f}",
        "-" if objective is None else f"{objective:.4g}",
        f"{found['score']:.3f}",
        "-" if auc is None else f"{auc:.3f}",
    ]


REPORTS = (
    Report("approximate", "exact kernels against landmarks, at the thresholds", run_approximate),
)
