"""Distributed bags: two worker processes against two threads, and the bytes of a pass.

Workers are processes of a ``LocalCluster``, with one thread each.
"""

from __future__ import annotations

import argparse
import dataclasses
from typing import Any

import numpy as np

from milearn import MISVC
from milearn.datasets import make_bags

from ..common.fresh import in_fresh_process
from ..common.memory import Stopwatch
from ..common.output import Table, duration, say, show
from ..common.runner import run

# Of instances; bags have 20 on average.
N_BAGS, FAST = 50_000, 100
N_FEATURES, BAG_SIZE, N_WORKERS = 100, (10, 30), 2
TIME_GOAL, PASS_GOAL, GAP = 1.5, 2**20, 1e-3


def fits(task: dict[str, Any]) -> dict[str, Any]:
    """Fits by two threads and over two workers, in turn, and the bytes of another one."""
    import dask
    from distributed import Client, LocalCluster

    from milearn.distributed import DistributedBags

    bags, y = make_bags(task["n_bags"], N_FEATURES, bag_size=BAG_SIZE, flip_y=0.05, random_state=0)
    # The first fit imports solver libraries: a few bags take that away.
    _fit(bags[:60], y[:60])
    with (
        # A busy machine may need longer to start a worker again than a LocalCluster waits for it.
        dask.config.set({"distributed.deploy.lost-worker-timeout": "120s"}),
        LocalCluster(n_workers=N_WORKERS, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        watch = Stopwatch()
        there = DistributedBags.from_bags(bags, local_bytes=0)
        there.source().map(_nothing)
        sent = watch.seconds()["wall_seconds"]
        both = [(_fit(bags, y, n_jobs=N_WORKERS), _fit(there, y)) for _ in range(task["rounds"])]
        counts = counted(client)
        _fit(there, y)
        n_partitions = there.n_partitions
    fastest = [
        min(each, key=lambda found: found["wall_seconds"]) for each in zip(*both, strict=True)
    ]
    return {
        "fits": fastest,
        "n_instances": bags.n_instances,
        "n_partitions": n_partitions,
        "send_seconds": sent,
        **{name: max(each[name] for each in counts) for name in ("pass", "down", "up", "rows")},
    }


def _fit(bags: Any, y: np.ndarray, **parameters: Any) -> dict[str, Any]:
    model, watch = MISVC(1.0, kernel="linear", random_state=0, **parameters), Stopwatch()
    model.fit(bags, y)
    found = {"objective": float(model.objective_), "gap": float(model.dual_gap_)}
    return {**watch.seconds(), **found, "n_passes": int(model.n_passes_)}


def _nothing(block: Any) -> None:
    return None


def counted(client: Any) -> list[dict[str, int]]:
    """Bytes of the pickled arguments and results of each round of tasks, between two gathers.

    ``rows`` is the working set that came up, the matrices of instances; ``up`` leaves it out. Each
    task counts as if it had a message of its own, which is an upper bound.
    """
    from distributed import Future
    from distributed.protocol.pickle import dumps

    counts: list[dict[str, int]] = []
    sent: list[int] = []
    submit, send, gather = client.submit, client.map, client.gather

    def size(function: Any, arguments: Any) -> int:
        return len(dumps((function, [a.key if isinstance(a, Future) else a for a in arguments])))

    def counting_submit(function: Any, *arguments: Any, **options: Any) -> Any:
        sent.append(size(function, arguments))
        return submit(function, *arguments, **options)

    def counting_map(function: Any, *columns: Any, **options: Any) -> Any:
        sent.extend(size(function, arguments) for arguments in zip(*columns, strict=True))
        return send(function, *columns, **options)

    def counting_gather(futures: Any, **options: Any) -> Any:
        found = gather(futures, **options)
        rows = _row_bytes(found)
        down, up = sum(sent), len(dumps(found)) - rows
        counts.append({"pass": down + up, "down": down, "up": up, "rows": rows})
        sent.clear()
        return found

    client.submit, client.map, client.gather = counting_submit, counting_map, counting_gather
    return counts


def _row_bytes(value: Any) -> int:
    """Bytes of the matrices in a result, and of what tells where their rows come from."""
    if isinstance(value, np.ndarray):
        return value.nbytes if value.ndim == 2 else 0
    if not isinstance(value, (list, tuple)):
        if not dataclasses.is_dataclass(value):
            return 0
        value = [getattr(value, each.name) for each in dataclasses.fields(value)]
    arrays = [each for each in value if isinstance(each, np.ndarray)]
    lengths = {len(each) for each in arrays if each.ndim == 2}
    ranks = [each for each in arrays if each.ndim == 1 and each.dtype.kind == "i"]
    own = sum(each.nbytes for each in ranks if len(each) in lengths)
    return own + sum(map(_row_bytes, value))


def over_workers(n_bags: int, rounds: int) -> dict[str, Any]:
    task = {"n_bags": n_bags, "rounds": rounds}
    return in_fresh_process("benchmarks.scales.dask:fits", task)


def dask(args: argparse.Namespace) -> None:
    """Wall times and bytes of a fit."""
    (found,) = run(args, over_workers, [(FAST, 1) if args.fast else (N_BAGS, 2)])
    if found is None:
        return
    local, workers = found["fits"]
    rows = [
        [
            name,
            *(duration(each["wall_seconds"]), duration(each["cpu_seconds"]), str(each["n_passes"])),
            *(f"{each['objective']:.4f}", f"{each['gap'] / abs(each['objective']):.1e}"),
        ]
        for name, each in (("two threads", local), ("two worker processes", workers))
    ]
    show(Table(["", "wall time", "CPU time here", "passes", "objective", "gap"], rows))
    ratio = workers["wall_seconds"] / local["wall_seconds"]
    apart = abs(workers["objective"] / local["objective"] - 1.0)
    goals = ((ratio, TIME_GOAL), (apart, GAP), (found["pass"], PASS_GOAL))
    late, other, large = ("" if value <= goal else ", MISSED" for value, goal in goals)
    say(
        f"\n{found['n_instances']:,} x 100, MISVC(C=1, kernel='linear'), slack 'bag': ratio of "
        f"wall times {ratio:.2f} (goal {TIME_GOAL}{late}); objectives differ by {apart:.0e} (goal "
        f"{GAP:g}{other}).\nLargest pass without the working set: {found['pass']:,} bytes "
        f"(goal {PASS_GOAL:,}{large}), of which {found['down']:,} at most are "
        f"sent to the workers and {found['up']:,} are sent back;\nlargest working set: "
        f"{found['rows'] / 2**20:.1f} MiB. {found['n_partitions']} partitions, sent "
        f"once in {duration(found['send_seconds'])}. Times are the shorter of two, in turn."
    )


REPORTS = {"dask": ("MISVC over two worker processes: 10^6 x 100", dask)}
