"""Fits against the size of the data: one kind of task and one kind of table for all reports.

Each fit runs in a process of its own: memory that an earlier fit left behind would hide the next
one's peak.
"""

from __future__ import annotations

import argparse
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import is_regressor
from sklearn.preprocessing import StandardScaler, normalize
from sklearn.svm import SVC, LinearSVC

from milearn import Bags
from milearn.datasets import make_bags
from milearn.utils import all_estimators

from ..common.data import load
from ..common.fresh import in_fresh_process, scratch_folder
from ..common.memory import anonymous, measured, resident
from ..common.output import Table, say, show
from ..common.protocol import run
from ..common.records import RecordFile, digest, record_of, source_digest
from ..common.reports import Report, finish

FIT = "benchmarks.scales.series:fit"
# A short fit is repeated.
_ENOUGH_SECONDS, _MAX_FITS = 0.5, 5
_NUMBERS_AT_ONCE = 10**7
_WORDS = 50
# What a fitted model says of its solution.
_SAID = ("objective_", "lower_bound_", "dual_gap_", "n_passes_", "n_iter_", "n_cuts_", "converged_")


# -- tasks and tables ------------------------------------------------------------------------------


@dataclass(frozen=True)
class SizeTask:
    """One measurement.

    Attributes
    ----------
    dataset, method : str
        What the table calls them.
    function : str
        As ``benchmarks.measure`` takes it.
    stated : tuple of (name, value)
        What the function gets. For ``"shape"``, a memory map is written first.
    seconds : float, default=None
        CPU time after which the process is ended.
    """

    dataset: str
    method: str
    function: str
    stated: tuple[tuple[str, Any], ...]
    seconds: float | None = None

    @property
    def key(self) -> str:
        return f"{self.dataset}/{self.method}@{digest([asdict(self), source_digest()])}"

    def __getitem__(self, name: str) -> Any:
        return dict(self.stated)[name]


def task_of(
    dataset: str, method: str, function: str = FIT, seconds: float | None = None, /, **stated: Any
) -> SizeTask:
    """A task whose function gets the named values."""
    return SizeTask(dataset, method, function, tuple(stated.items()), seconds)


def run_task(task: SizeTask) -> dict[str, Any]:
    """The record of a task."""
    return record_of(task, measure)


def measure(task: SizeTask) -> dict[str, Any]:
    """What the function finds in a fresh process, or ``{"timeout": seconds}``."""
    stated = dict(task.stated)
    if "shape" not in stated:
        return _ended(task, stated)
    n_instances, n_features, _ = stated["shape"]
    dtype = np.dtype(stated.setdefault("dtype", "float32"))
    with scratch_folder(dtype.itemsize * n_instances * n_features) as folder:
        stated["path"] = str(folder / "instances.npy")
        write_rows(Path(stated["path"]), stated["shape"], dtype)
        return _ended(task, stated)


def _ended(task: SizeTask, stated: dict[str, Any]) -> dict[str, Any]:
    try:
        return in_fresh_process(task.function, stated, cpu_timeout=task.seconds)
    except TimeoutError:
        # Not an error, which would be tried again: it says how the method grows.
        return {"timeout": task.seconds}


Found = list[tuple[SizeTask, dict[str, Any]]]


def found_of(
    args: argparse.Namespace, name: str, tasks: list[SizeTask]
) -> tuple[Found, Callable[[], int]]:
    """Tasks that have a result, with it, and a function that ends the report."""
    with RecordFile(args.out / f"{name}.jsonl", fresh=args.fresh) as file:
        records, complete = run(tasks, file, jobs=1, label=name, function=run_task)
    kept = [(task, records.get(task.key, {})) for task in tasks]
    found = [(task, record["result"]) for task, record in kept if "result" in record]
    return found, lambda: finish(records, complete, file, len(tasks))


@dataclass(frozen=True)
class Series:
    """A report with one row for each task.

    Attributes
    ----------
    name, title : str
    tasks : callable
        ``tasks(args)`` are the tasks.
    labels : dict of callable
        Columns of a task.
    figures : dict of callable
        Columns of a task and its result.
    note : str
    """

    name: str
    title: str
    tasks: Callable[[argparse.Namespace], list[SizeTask]]
    labels: dict[str, Callable[[SizeTask], str]]
    figures: dict[str, Callable[[SizeTask, dict[str, Any]], str]]
    note: str

    def report(self) -> Report:
        """As the command lists it."""
        return Report(self.name, self.title, self.run)

    def run(self, args: argparse.Namespace) -> int:
        """Measure and show."""
        found, end = found_of(args, self.name, self.tasks(args))
        rows = []
        for task, result in found:
            named = [label(task) for label in self.labels.values()]
            if "timeout" in result:
                rest = ["-"] * (len(self.figures) - 1)
                rows.append([*named, *rest, f"> {result['timeout']:g} s"])
            else:
                rows.append([*named, *(cell(task, result) for cell in self.figures.values())])
        align = "l" * len(self.labels) + "r" * len(self.figures)
        if "" in self.figures:
            align = align[:-1] + "l"
        show(Table([*self.labels, *self.figures], rows, align))
        say(self.note)
        return end()


def slope(sizes: list[int], values: list[float]) -> float:
    """Exponent of the growth over the last three sizes by least squares."""
    sizes, values = sizes[-3:], values[-3:]
    if len(sizes) < 2 or min(values) <= 0:
        return np.nan
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


# -- data ------------------------------------------------------------------------------------------


def generated(task: dict[str, Any]) -> tuple[Bags, np.ndarray]:
    """Bags that no classifier separates; ``easy`` ones have five wrong labels in a hundred."""
    size = task["bag_size"]
    wrong = {"flip_y": 0.05} if task["data"] == "easy" else {"concept_distance": 3.0, "flip_y": 0.1}
    return make_bags(
        task["n_bags"],
        task["n_features"],
        bag_size=size if isinstance(size, int) else tuple(size),
        random_state=0,
        **wrong,
    )


def clusters(task: dict[str, Any]) -> tuple[Bags, np.ndarray]:
    """Bags with one instance in the direction of their cluster, and numbers of clusters."""
    rng = np.random.default_rng(0)
    n_bags, size, k = task["n_bags"], task["bag_size"], task["n_clusters"]
    instances = rng.normal(size=(n_bags * size, task["n_features"]))
    y = np.arange(n_bags) % k
    centres = rng.normal(size=(k, task["n_features"]))
    instances[::size] += 5.0 * normalize(centres)[y]
    return Bags(instances, np.arange(0, n_bags * size + 1, size)), y


def texts(task: dict[str, Any]) -> tuple[Bags, np.ndarray]:
    """Bags of 20 texts of unit length with few frequent words and many rare ones.

    One text of a positive bag has eight words of the topic; five in a hundred bags have the wrong
    label.
    """
    rng = np.random.default_rng(0)
    n_bags, n_features = task["n_bags"], task["n_features"]
    n = 20 * n_bags
    words = (n_features * rng.random((n, _WORDS)) ** 2).astype(np.int32)
    y = np.arange(n_bags) % 2
    topic = rng.choice(n_features, 40, replace=False)
    concepts = 20 * np.flatnonzero(y)
    words[concepts, :8] = rng.choice(topic, size=(len(concepts), 8))
    starts = np.arange(0, _WORDS * n + 1, _WORDS, dtype=np.int32)
    counts = rng.exponential(size=n * _WORDS)
    rows = sparse.csr_array((counts, words.ravel(), starts), shape=(n, n_features))
    rows.sum_duplicates()
    y = np.where(rng.random(n_bags) < 0.05, 1 - y, y)
    return Bags(normalize(rows, copy=False), np.arange(0, n + 1, 20)), y


def linked(task: dict[str, Any]) -> tuple[Bags, np.ndarray]:
    """Generated bags with links of bags, or of instances where the task asks for them."""
    bags, y = generated(task)
    of_instances = task["parameters"].get("graph") == "instance"
    graph = class_graph(y[bags.bag_index] if of_instances else y, task["n_links"])
    links = {"instance_graph" if of_instances else "bag_graph": graph}
    return Bags(bags.instances, bags.offsets, **links), y


def class_graph(labels: np.ndarray, n_links: int) -> sparse.csr_array:
    """A symmetric graph of so many joined pairs, four of five within a class."""
    rng, n = np.random.default_rng(1), len(labels)
    found = np.zeros(0, dtype=np.int64)
    while len(found) < n_links:
        pairs = np.sort(rng.integers(n, size=(2, 2 * n_links)), axis=0)
        same = labels[pairs[0]] == labels[pairs[1]]
        kept = (pairs[0] < pairs[1]) & (same | (rng.random(pairs.shape[1]) < 0.25))
        found = np.union1d(found, pairs[0, kept] * n + pairs[1, kept])
    found = rng.permutation(found)[:n_links]
    half = sparse.coo_array((np.ones(n_links), (found // n, found % n)), shape=(n, n))
    return sparse.csr_array(half + half.T)


def labels_of(n_bags: int) -> tuple[np.ndarray, np.ndarray]:
    """Classes of the bags of a map, and their labels: five in a hundred are wrong."""
    classes = np.arange(n_bags) % 2
    wrong = np.random.default_rng(2).random(n_bags) < 0.05
    return classes, np.where(wrong, 1 - classes, classes)


def write_rows(path: Path, shape: tuple[int, int, int], dtype: Any) -> None:
    """Noise; one instance in twenty of a positive bag, at least one, is at the concept.

    The shape is the number of instances, of features, and of instances of a bag.
    """
    n, d, size = shape
    out = np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=(n, d))
    direction = np.random.default_rng(0).normal(size=d)
    concept = (4.0 * direction / np.linalg.norm(direction)).astype(np.float32)
    classes, _ = labels_of(n // size)
    step = max(1, _NUMBERS_AT_ONCE // d)
    for first in range(0, n, step):
        rows = np.arange(first, min(first + step, n))
        block = np.random.default_rng([1, first]).standard_normal((len(rows), d), dtype=np.float32)
        deciding = (rows % size < max(1, size // 20)) & (classes[rows // size] == 1)
        block[deciding] += concept
        out[first : first + len(rows)] = block
    del out


def mapped(task: dict[str, Any]) -> tuple[Bags, np.ndarray]:
    """Bags of the file of the task, in memory where it says so."""
    instances = np.load(task["path"], mmap_mode=None if task.get("in_memory") else "r")
    bags = Bags(instances, np.arange(0, len(instances) + 1, task["shape"][2]))
    return bags, labels_of(len(bags))[1]


def real(name: str) -> tuple[Bags, np.ndarray]:
    """A data set, scaled."""
    data = load(name)
    return scaled(data.bags), data.y


def scaled(bags: Bags) -> Bags:
    """Standardised instances; texts of unit length."""
    scale = normalize if bags.is_sparse else StandardScaler().fit_transform
    return bags.with_instances(scale(bags.instances))


DATA: dict[str, Callable[[dict[str, Any]], tuple[Bags, np.ndarray]]] = {
    "overlapping": generated,
    "easy": generated,
    "clusters": clusters,
    "texts": texts,
    "linked": linked,
    "map": mapped,
}


# -- the measurement -------------------------------------------------------------------------------


def fit(task: dict[str, Any]) -> dict[str, Any]:
    """Times and memory of a fit, and what the model says of its solution.

    The task names the ``estimator`` and its ``parameters``, the ``data`` and their sizes, and
    perhaps an estimator of scikit-learn ``beside`` it, on the instances with inherited labels.
    """
    make = DATA.get(task["data"])
    bags, y = real(task["data"]) if make is None else make(task)
    model = estimator_of(task["estimator"], task.get("parameters", {}))
    target = np.where(y == 1, 1.0, -1.0) if is_regressor(model) else y
    reading = anonymous if task["data"] == "map" else resident
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warm_up(model, bags, target, y)
        caught.clear()
        found, model = measured(
            lambda: model.fit(bags, target),
            enough=_ENOUGH_SECONDS,
            most=_MAX_FITS,
            reading=reading,
        )
    found |= {name.strip("_"): _figure(model, name) for name in _SAID if hasattr(model, name)}
    found |= {"n_bags": len(bags), "n_instances": bags.n_instances}
    found["warnings"] = dict(Counter(item.category.__name__ for item in caught))
    if "beside" in task:
        found |= _beside(task["beside"], bags, y)
    return found


def warm_up(model: Any, bags: Bags, target: np.ndarray, y: np.ndarray) -> None:
    """A fit of a few bags of each class, which imports the libraries of the solvers."""
    labels = np.unique(y)
    each = max(2, 40 // len(labels))
    few = np.sort(np.concatenate([np.flatnonzero(y == label)[:each] for label in labels]))
    model.fit(bags[few], target[few])


def estimator_of(name: str, parameters: dict[str, Any]) -> Any:
    """A public estimator; the seed is 0 where it has one."""
    made = _estimators()[name]()
    seeds = {key: 0 for key in made.get_params(deep=False) if key == "random_state"}
    return made.set_params(**seeds, **parameters)


@cache
def _estimators() -> dict[str, Any]:
    return dict(all_estimators())


def _figure(model: Any, name: str) -> float:
    return float(np.max(getattr(model, name)))


def _beside(stated: dict[str, Any], bags: Bags, y: np.ndarray) -> dict[str, float]:
    """Time of a support vector machine of scikit-learn."""
    parameters = dict(stated)
    plain = {"LinearSVC": LinearSVC, "SVC": SVC}[parameters.pop("name")](**parameters)
    labels = y[bags.bag_index]
    result, _ = measured(
        lambda: plain.fit(bags.instances, labels), enough=_ENOUGH_SECONDS, most=_MAX_FITS
    )
    return {"beside_cpu_seconds": result["cpu_seconds"]}


def gap_of(result: dict[str, Any]) -> float:
    """The relative gap of a result."""
    return result["dual_gap"] / max(abs(result["objective"]), 1e-300)
