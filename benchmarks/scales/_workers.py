"""A fit over worker processes: what ``scale dask`` measures, with Dask's own packages.

Workers are processes of a ``LocalCluster``, with one thread each.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import dask
import numpy as np
from distributed import Client, Future, LocalCluster
from distributed.protocol.pickle import dumps
from scipy import sparse

from milearn import MISVC
from milearn.datasets import make_bags
from milearn.distributed import DistributedBags

from ..common.memory import Stopwatch

N_FEATURES, N_WORKERS = 100, 2
# Bags have 20 instances on average.
BAG_SIZE = (10, 30)


def model(**parameters: Any) -> MISVC:
    return MISVC(1.0, kernel="linear", random_state=0, **parameters)


@contextmanager
def cluster() -> Iterator[Client]:
    with (
        # A busy machine may need longer to start a worker again than a LocalCluster waits for it.
        dask.config.set({"distributed.deploy.lost-worker-timeout": "120s"}),
        LocalCluster(n_workers=N_WORKERS, threads_per_worker=1, dashboard_address=":0") as made,
        Client(made) as client,
    ):
        yield client


def fit(fitted: MISVC, bags: Any, y: np.ndarray) -> dict[str, Any]:
    watch = Stopwatch()
    fitted.fit(bags, y)
    return {
        **watch.seconds(),
        "objective": float(fitted.objective_),
        "gap": float(fitted.dual_gap_),
        "n_passes": int(fitted.n_passes_),
    }


def workers(task: dict[str, Any]) -> dict[str, Any]:
    """Fits by two threads and over two workers, in turn, and the bytes of another one."""
    bags, y = make_bags(task["n_bags"], N_FEATURES, bag_size=BAG_SIZE, flip_y=0.05, random_state=0)
    # The first fit imports solver libraries: a few bags take that away.
    model().fit(bags[:60], y[:60])
    with cluster() as client:
        watch = Stopwatch()
        there = DistributedBags.from_bags(bags, local_bytes=0)
        there.source().map(_nothing)
        sent = watch.seconds()["wall_seconds"]
        here, over = [], []
        for _ in range(task["rounds"]):
            here.append(fit(model(n_jobs=N_WORKERS), bags, y))
            over.append(fit(model(), there, y))
        with counted(client) as counts:
            model().fit(there, y)
        n_partitions = there.n_partitions
    return {
        "n_instances": bags.n_instances,
        "n_partitions": n_partitions,
        "send_seconds": sent,
        "largest_pass": max(pair["down"] + pair["up"] for pair in counts),
        "largest_down": max(pair["down"] for pair in counts),
        "largest_up": max(pair["up"] for pair in counts),
        "largest_rows": max(pair["rows"] for pair in counts),
        "here": min(here, key=lambda result: result["wall_seconds"]),
        "workers": min(over, key=lambda result: result["wall_seconds"]),
    }


# -- bytes -----------------------------------------------------------------------------------------


@contextmanager
def counted(client: Client) -> Iterator[list[dict[str, int]]]:
    """Bytes of the pickled arguments and results of each round of tasks, between two gathers.

    ``rows`` is the working set that came up, instances with their numbers; ``up`` leaves it out.
    """
    counts: list[dict[str, int]] = []
    down = 0
    submit, send, gather = client.submit, client.map, client.gather

    def counting_submit(function: Any, *arguments: Any, **options: Any) -> Future:
        nonlocal down
        down += sent_bytes(function, arguments)
        return submit(function, *arguments, **options)

    def counting_map(function: Any, *columns: Any, **options: Any) -> list[Future]:
        nonlocal down
        # As if each task had a message of its own, which is an upper bound.
        down += sum(sent_bytes(function, arguments) for arguments in zip(*columns, strict=True))
        return send(function, *columns, **options)

    def counting_gather(futures: Any, **options: Any) -> Any:
        nonlocal down
        found = gather(futures, **options)
        rows = row_bytes(found)
        counts.append({"down": down, "up": len(dumps(found)) - rows, "rows": rows})
        down = 0
        return found

    client.submit, client.map, client.gather = counting_submit, counting_map, counting_gather
    try:
        yield counts
    finally:
        client.submit, client.map, client.gather = submit, send, gather


def sent_bytes(function: Any, arguments: Any) -> int:
    """Bytes of a task."""
    keys = [each.key if isinstance(each, Future) else each for each in arguments]
    return len(dumps((function, keys)))


def row_bytes(value: Any) -> int:
    """Bytes of the matrices in a result, and of what tells where their rows come from."""
    if sparse.issparse(value):
        return int(value.data.nbytes + value.indices.nbytes + value.indptr.nbytes)
    if isinstance(value, np.ndarray):
        return value.nbytes if value.ndim == 2 else 0
    if dataclasses.is_dataclass(value):
        parts = [getattr(value, each.name) for each in dataclasses.fields(value)]
        lengths = {part.shape[0] for part in parts if getattr(part, "ndim", 0) == 2}
        numbers = [part for part in parts if getattr(part, "ndim", 0) == 1]
        ranks = [part.nbytes for part in numbers if part.dtype.kind == "i" and len(part) in lengths]
        return sum(ranks) + sum(map(row_bytes, parts))
    if isinstance(value, (list, tuple)):
        return sum(map(row_bytes, value))
    return 0


def _nothing(block: Any) -> None:
    return None
