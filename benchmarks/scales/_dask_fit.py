"""One measurement in a process of its own: ``python -m benchmarks.scales._dask_fit JSON``.

Workers are processes of a ``LocalCluster``, with one thread each. Prints one line of JSON.
"""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import dask
import numpy as np
from distributed import Client, Future, LocalCluster
from distributed.protocol.pickle import dumps
from scipy import sparse
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from milearn import M3IC, MISVC, Bags
from milearn.datasets import make_bags
from milearn.distributed import DistributedBags
from milearn.model_selection import StratifiedBagKFold
from milearn.preprocessing import InstanceTransformer

from ..common.memory import Stopwatch
from ..common.methods import gap_of

__all__ = ["measure"]

N_FEATURES = 100
N_WORKERS = 2
# The pass in which a worker is killed.
_KILLED_IN_ROUND = 3
# Bags have 20 instances on average.
BAG_SIZE = (10, 30)


def measure(task: dict[str, Any]) -> dict[str, Any]:
    """What one kind of measurement found, for a number of bags."""
    bags, y = make_bags(task["n_bags"], N_FEATURES, bag_size=BAG_SIZE, flip_y=0.05, random_state=0)
    # The first fit imports solver libraries: a few bags take that away.
    model().fit(bags[:60], y[:60])
    return KINDS[task["kind"]](bags, y)


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
        "gap": gap_of(fitted),
        "n_passes": int(fitted.n_passes_),
    }


def workers(bags: Bags, y: np.ndarray) -> dict[str, Any]:
    """A fit by two threads and one over two workers, in turn, and the bytes of another one."""
    with cluster() as client:
        watch = Stopwatch()
        there = DistributedBags.from_bags(bags, local_bytes=0)
        there.source().map(_nothing)
        sent = watch.seconds()["wall_seconds"]
        here, over = [], []
        for _ in range(2):
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


def killed(bags: Bags, y: np.ndarray) -> dict[str, Any]:
    """A fit in the middle of which a worker is killed, against one without."""
    with cluster() as client:
        there = DistributedBags.from_bags(bags, partition_bytes=2**22, local_bytes=0)
        undisturbed = fit(model(), there, y)
        victim = next(iter(client.run(os.getpid).values()))
        with killing(client, victim, _KILLED_IN_ROUND):
            disturbed = fit(model(), there, y)
        client.wait_for_workers(N_WORKERS, timeout=120)
        after = client.run(os.getpid)
    return {
        "n_instances": bags.n_instances,
        "undisturbed": undisturbed,
        "disturbed": disturbed,
        "round": _KILLED_IN_ROUND,
        "replaced": victim not in after.values(),
    }


def search(bags: Bags, y: np.ndarray) -> dict[str, Any]:
    """A grid search over distributed bags against one over the same bags here."""
    found = {}
    with cluster():
        there = DistributedBags.from_bags(bags, partition_bytes=2**22)
        for name, X in (("workers", there), ("here", bags)):
            searched = GridSearchCV(
                make_pipeline(InstanceTransformer(), model()),
                {"misvc__C": [0.1, 1.0]},
                cv=StratifiedBagKFold(3),
                scoring="roc_auc",
            )
            watch = Stopwatch()
            searched.fit(X, y)
            found[name] = {
                **watch.seconds(),
                "scores": searched.cv_results_["mean_test_score"].tolist(),
                "best": searched.best_params_["misvc__C"],
            }
    return {"n_instances": bags.n_instances, **found}


def clusters(bags: Bags, y: np.ndarray) -> dict[str, Any]:
    """M3IC over the workers and here."""
    estimator = M3IC(2, C=10.0, n_init=1, random_state=0)
    with cluster():
        there = DistributedBags.from_bags(bags, partition_bytes=2**24)
        values = [float(estimator.fit(X).objective_) for X in (bags, there)]
    return {"n_instances": bags.n_instances, "here": values[0], "workers": values[1]}


def refused(bags: Bags, y: np.ndarray) -> dict[str, Any]:
    """What an estimator that cannot says."""
    with cluster():
        there = DistributedBags.from_bags(bags)
        try:
            MISVC().fit(there, y)
        except TypeError as error:
            return {"sentence": str(error)}
    raise AssertionError("MISVC with an RBF kernel took distributed bags")


KINDS: dict[str, Callable[[Bags, np.ndarray], dict[str, Any]]] = {
    "workers": workers,
    "killed": killed,
    "search": search,
    "clusters": clusters,
    "refused": refused,
}


# -- bytes -----------------------------------------------------------------------------------------


@contextmanager
def killing(client: Client, pid: int, in_round: int) -> Iterator[None]:
    """Kill a process when a round of tasks has been sent."""
    send, rounds = client.map, 0

    def killing_map(*arguments: Any, **options: Any) -> Any:
        nonlocal rounds
        futures = send(*arguments, **options)
        rounds += 1
        if rounds == in_round:
            os.kill(pid, signal.SIGKILL)
        return futures

    client.map = killing_map
    try:
        yield
    finally:
        client.map = send


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


if __name__ == "__main__":
    begin = time.perf_counter()
    print(json.dumps({**measure(json.loads(sys.argv[1])), "total": time.perf_counter() - begin}))
