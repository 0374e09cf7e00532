"""Zhang et al. 2011, Table 2 and Figure 1: web pages with links between them."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from ..common.fresh import in_fresh_process
from ..common.memory import PeakMemory, Stopwatch
from ..common.output import Table, duration, percent, say, show
from ..common.protocol import run
from ..common.records import RecordFile, digest, record_of
from ..common.reports import Report, finish
from ._webkb import CATEGORIES, Pages, pages_of, with_graph

# Accuracies of the pages without label, the chosen parameters, the times of the chosen fit.
Outcome = tuple[np.ndarray, Any, dict[str, float]]

# Published, Table 2 (20 % labelled): accuracy in percent, seconds.
PUBLISHED = {
    ("course", "milsd-cocitation"): (97.2, 49.1),
    ("course", "lc-mf"): (95.9, 648.5),
    ("course", "mi-svm"): (94.3, 23.9),
    ("course", "misvm"): (94.5, 95.6),
    ("faculty", "milsd-cocitation"): (95.2, 73.9),
    ("faculty", "lc-mf"): (95.3, 360.6),
    ("faculty", "mi-svm"): (93.3, 29.7),
    ("faculty", "misvm"): (93.4, 591.6),
    ("student", "milsd-cocitation"): (92.7, 245.7),
    ("student", "lc-mf"): (91.7, 526.3),
    ("student", "mi-svm"): (89.5, 41.2),
    ("student", "misvm"): (89.1, 540.4),
}
TITLES = {
    "milsd-cocitation": "MILSD, co-citation",
    "milsd-coupling": "MILSD, coupling",
    "milsd-direct": "MILSD, direct links",
    "mu=0": "MILSD, mu = 0 (MI-SVM, bag slack)",
    "misvm": "MISVC, linear, instance slack",
    "mi-svm": "InstanceMISVC, linear (mi-SVM)",
    "lc-mf": "LinkContentMF, co-citation",
    "baseline": "baseline: whole page, LinearSVC",
}
# Costs of MILSD: C over the number of labelled pages, and mu over C. Both are means, so that a C
# that suits 15 labels is too small for 1,000.
GRID_C = (0.3, 1.0, 3.0)
GRID_MU = (1.0, 3.0)
# Of the SVMs that count a cost per bag.
GRID_BAG = (0.1, 1.0, 10.0)
N_INNER = 5
# The last digits of a fit cost most of its time and no page changes sides for them.
TOL = 0.1


# -- one run of one method -------------------------------------------------------------------------


@dataclass(frozen=True)
class WebTask:
    """One random split at one share of labels."""

    dataset: str
    method: str
    ratio: float
    repeat: int

    @property
    def settings(self) -> dict[str, Any]:
        return {
            "C over labels": GRID_C,
            "mu over C": GRID_MU,
            "C per bag": GRID_BAG,
            "inner": f"StratifiedBagKFold({N_INNER}), C before mu",
            "tol": TOL,
            "split": f"BagShuffleSplit(train_size={self.ratio}, random_state={self.repeat})",
        }

    @property
    def key(self) -> str:
        name = f"webkb/{self.dataset}/{self.ratio:g}/{self.method}/{self.repeat}"
        return f"{name}@{digest(self.settings)}"

    @property
    def work(self) -> Callable[[Any], dict[str, Any]]:
        return _result


def labelled(task: WebTask, y: np.ndarray) -> np.ndarray:
    """The bags whose labels are known, sorted."""
    from milearn.model_selection import BagShuffleSplit

    splitter = BagShuffleSplit(1, train_size=task.ratio, random_state=task.repeat)
    train, _ = next(splitter.split(np.zeros((len(y), 1)), y))
    return train


def _result(task: WebTask) -> dict[str, Any]:
    pages = pages_of(task.dataset)
    train = labelled(task, pages.y)
    watch = Stopwatch()
    if task.method == "mu=0" or task.method.startswith("milsd"):
        found, chosen, seconds = _milsd(task, pages, train)
    else:
        found, chosen, seconds = _OTHERS[task.method](pages, train)
    hidden = np.ones(len(pages.y), dtype=bool)
    hidden[train] = False
    return {
        "n_labelled": len(train),
        "n_test": int(hidden.sum()),
        "accuracy": float(np.mean(found[hidden] == pages.y[hidden])),
        **seconds,
        **watch.seconds("search_"),
        "chosen": chosen,
    }


def _inner_scores(
    task: WebTask, pages: Pages, train: np.ndarray, kind: str | None, grid: list[dict[str, float]]
) -> list[float]:
    """Mean inner accuracy of MILSD along one graph at each of the parameters."""
    from milearn.model_selection import StratifiedBagKFold, transductive_grid_search
    from milearn.structured import MILSD

    search = transductive_grid_search(
        MILSD(tol=TOL),
        [{name: [value] for name, value in params.items()} for params in grid],
        with_graph(pages, kind),
        known_labels(pages.y, train),
        cv=StratifiedBagKFold(N_INNER, shuffle=True, random_state=task.repeat),
        refit=False,
    )
    return search.scores.mean(axis=1).tolist()


def _first_best(grid: list[dict[str, float]], scores: list[float]) -> dict[str, float]:
    return next(
        params for params, score in zip(grid, scores, strict=True) if score >= max(scores) - 1e-12
    )


@lru_cache(maxsize=64)
def _without_graph(dataset: str, ratio: float, repeat: int) -> tuple[float, float]:
    """C chosen without a graph, and its inner accuracy; kept, since every graph needs them."""
    pages = pages_of(dataset)
    task = WebTask(dataset, "mu=0", ratio, repeat)
    train = labelled(task, pages.y)
    grid = [{"C": cost * len(train), "mu": 0.0} for cost in GRID_C]
    scores = _inner_scores(task, pages, train, None, grid)
    chosen = _first_best(grid, scores)
    return chosen["C"], scores[grid.index(chosen)]


def _milsd(task: WebTask, pages: Pages, train: np.ndarray) -> Outcome:
    from milearn.structured import MILSD

    kind = task.method.partition("-")[2] or None
    C, without = _without_graph(task.dataset, task.ratio, task.repeat)
    # C first, then mu at that C: a few dozen labels do not tell the pairs of a grid apart.
    grid, scores = [{"C": C, "mu": 0.0}], [without]
    if kind is not None:
        linked = [{"C": C, "mu": share * C} for share in GRID_MU]
        grid += linked
        scores += _inner_scores(task, pages, train, kind, linked)
    chosen = _first_best(grid, scores)
    watch = Stopwatch()
    model = MILSD(**chosen, tol=TOL).fit(with_graph(pages, kind), known_labels(pages.y, train))
    return model.transduction_, chosen, watch.seconds("fit_")


def known_labels(y: np.ndarray, train: np.ndarray) -> np.ndarray:
    known = np.full(len(y), np.nan)
    known[train] = y[train]
    return known


def _tuned(model: Any, grid: Any, X: Any, y: np.ndarray) -> tuple[Any, Any, dict[str, float]]:
    from sklearn.model_selection import GridSearchCV

    from milearn.model_selection import StratifiedBagKFold

    inner = StratifiedBagKFold(N_INNER, shuffle=True, random_state=0)
    search = GridSearchCV(model, grid, cv=inner, error_score="raise").fit(X, y)
    watch = Stopwatch()
    best = model.set_params(**search.best_params_).fit(X, y)
    return best, search.best_params_, watch.seconds("fit_")


def _misvm(pages: Pages, train: np.ndarray) -> Outcome:
    from milearn.svm import MISVC

    model = MISVC(kernel="linear", slack="instance", tol=1e-3)
    best, chosen, seconds = _tuned(model, {"C": GRID_BAG}, pages.bags[train], pages.y[train])
    return best.predict(pages.bags), chosen, seconds


def _mi_svm(pages: Pages, train: np.ndarray) -> Outcome:
    from milearn.svm import InstanceMISVC

    model = InstanceMISVC(kernel="linear", tol=1e-3)
    best, chosen, seconds = _tuned(model, {"C": GRID_BAG}, pages.bags[train], pages.y[train])
    return best.predict(pages.bags), chosen, seconds


def _baseline(pages: Pages, train: np.ndarray) -> Outcome:
    from sklearn.svm import LinearSVC

    best, chosen, seconds = _tuned(LinearSVC(), {"C": GRID_BAG}, pages.whole[train], pages.y[train])
    return best.predict(pages.whole), chosen, seconds


@lru_cache(maxsize=3)
def _page_factors(dataset: str) -> tuple[np.ndarray, dict[str, float]]:
    """Factors of the pages: no label has a say in them, so that one factorisation serves all."""
    from milearn import Bags
    from milearn.structured import LinkContentMF

    pages = pages_of(dataset)
    X = Bags(pages.whole, np.arange(len(pages.y) + 1), bag_graph=pages.graphs["cocitation"])
    watch = Stopwatch()
    model = LinkContentMF(50, tol=1e-4).fit(X, pages.y)
    return model.factors_, watch.seconds("fit_")


def _lc_mf(pages: Pages, train: np.ndarray) -> Outcome:
    from sklearn.svm import SVC

    name = next(each for each in CATEGORIES if pages_of(each) is pages)
    factors, first = _page_factors(name)
    best, chosen, seconds = _tuned(
        SVC(kernel="linear"), {"C": GRID_BAG}, factors[train], pages.y[train]
    )
    return best.predict(factors), chosen, {name: first[name] + seconds[name] for name in first}


_OTHERS: dict[str, Callable[[Pages, np.ndarray], Outcome]] = {
    "misvm": _misvm,
    "mi-svm": _mi_svm,
    "lc-mf": _lc_mf,
    "baseline": _baseline,
}


@dataclass(frozen=True)
class FitTask:
    """Time and memory of fits along the co-citation graph, compared with those without it."""

    dataset: str
    cost: float
    share: float
    tol: float
    ratio: float = 0.2
    repeat: int = 0
    rounds: int = 3
    method: str = "fit"

    @property
    def settings(self) -> dict[str, Any]:
        return {"C over labels": self.cost, "mu over C": self.share, "tol": self.tol}

    @property
    def key(self) -> str:
        name = f"webkb-fit/{self.dataset}/{self.ratio:g}/{self.repeat}/{self.rounds}"
        return f"{name}@{digest(self.settings)}"

    @property
    def work(self) -> Callable[[Any], dict[str, Any]]:
        return _measured


def _measured(task: FitTask) -> dict[str, Any]:
    """Both peaks, each in a process of its own; times of both in turn, in one process."""
    stated = {name: getattr(task, name) for name in ("dataset", "cost", "tol", "ratio", "repeat")}
    module = "benchmarks.papers.zhang2011:fit_pages"
    alone = in_fresh_process(module, {**stated, "graph_weights": [0.0], "rounds": 0})
    both = in_fresh_process(
        module, {**stated, "graph_weights": [task.share, 0.0], "rounds": task.rounds}
    )
    with_graph, without = both.pop("fits")
    return {
        **both,
        **{f"fit_{name}": value for name, value in with_graph.items()},
        **{f"without_{name}": value for name, value in without.items()},
        "without_peak_mb": alone["peak_mb"],
    }


def run_web(task: WebTask | FitTask) -> dict[str, Any]:
    return record_of(task, task.work, parameters=task.settings)


# -- the table -----------------------------------------------------------------------------------


def web_tasks(repeats: int | None, fast: bool) -> list[WebTask]:
    """5 and 20 % are the points of the text; the curve gets by with a few runs."""
    many = 1 if fast else 20 if repeats is None else repeats
    first = ("mu=0", "milsd-cocitation", "baseline")
    others = ("lc-mf", "misvm", "mi-svm")
    every = (*first, "milsd-direct", *others, "milsd-coupling")
    # The points that matter most come first: a run that is stopped early has them.
    tasks = [
        WebTask(category, method, 0.05, repeat)
        for repeat in range(many)
        for category in CATEGORIES[:2]
        for method in first
    ]

    def at(ratio: float, methods: Sequence[str], most: int) -> list[WebTask]:
        return [
            WebTask(category, method, ratio, repeat)
            for repeat in range(min(most, many))
            for category in (CATEGORIES[:2] if fast else CATEGORIES)
            for method in methods
        ]

    tasks += at(0.05, every, 5)
    if not fast:
        tasks += at(0.2, every, 3)
        for ratio in (0.01, 0.1, 0.5, 0.3, 0.4):
            tasks += at(ratio, (*first, *others), 1)
    return list(dict.fromkeys(tasks))


def fit_tasks(fast: bool) -> list[FitTask]:
    """All pages of the largest set, at the middle of the grid and at its dearest corner."""
    if fast:
        return [FitTask("course", 0.3, 1.0, TOL, rounds=1)]
    return [
        FitTask("student", cost, share, tol)
        for cost, share, tol in ((1.0, 1.0, TOL), (1.0, 3.0, TOL), (1.0, 1.0, 0.3 * TOL))
    ]


def run_webkb(args: argparse.Namespace) -> int:
    from milearn.structured import homophily

    tasks, fits = web_tasks(args.repeats, args.fast), fit_tasks(args.fast)
    for category in dict.fromkeys(task.dataset for task in tasks):
        pages = pages_of(category)
        percentages = ", ".join(
            f"{kind} {100 * homophily(graph, pages.y):.0f} / "
            f"{100 * homophily(graph, pages.y, average='node'):.0f} / "
            f"{100 * np.mean(graph.sum(axis=0) + graph.sum(axis=1) > 0):.0f}"
            for kind, graph in pages.graphs.items()
        )
        say(
            f"{category}: {len(pages.y)} linked pages, {pages.bags.n_instances} passages, "
            f"{pages.bags.shape[1]} stems; {percentages}"
        )
    say("graphs: % of links within one side / the same, mean over pages / % of pages with a link")
    with RecordFile(args.out / "zhang2011-webkb.jsonl", fresh=args.fresh) as file:
        at_first = [task for task in tasks if task.ratio == 0.05]
        order = [*at_first, *fits, *(task for task in tasks if task.ratio != 0.05)]
        records, complete = run(order, file, jobs=args.jobs, label="webkb", function=run_web)
    for table in web_tables(tasks, records):
        show(table)
    table = fit_table(fits, records)
    if table.rows:
        show(table)
        say(
            "CPU time: shortest of three in turn; peaks: memory above the process before the fit, "
            "without / with the graph, each in\na process of its own (0: memory "
            "that was free after loading the data was enough); process: whole process, with data\n"
            "and libraries."
        )
    say(
        "\nAccuracy over the pages without label (transductive), mean +- standard deviation over "
        "random splits of one draw\nof pages; over mu = 0: mean difference +- its standard error. "
        f"C by inner cross-validation ({N_INNER} folds,\nC over labels {GRID_C}), then mu at that "
        f"C likewise (0 and C times {GRID_MU}); the published grid,\n2^-5..2^5 and 0..1, is in "
        f"units that are not known. tol={TOL}. fit: the chosen fit alone.\n"
        "published: Table 2, 20 % labelled, direct links, another tokenisation, unlinked pages "
        "deleted as here."
    )
    return finish(records, complete, file, len(order))


def _groups(
    tasks: Sequence[WebTask], records: dict[str, Any]
) -> dict[tuple[str, float, str], list[dict[str, Any]]]:
    groups: dict[tuple[str, float, str], list[dict[str, Any]]] = {}
    for task in tasks:
        record = records.get(task.key)
        if record is not None and "result" in record:
            found = {**record["result"], "repeat": task.repeat}
            groups.setdefault((task.dataset, task.ratio, task.method), []).append(found)
    return groups


def web_tables(tasks: Sequence[WebTask], records: dict[str, Any]) -> list[Table]:
    """One table per category and fraction of labels."""
    groups, tables = _groups(tasks, records), []
    for category, ratio in dict.fromkeys((task.dataset, task.ratio) for task in tasks):
        rows = []
        base = {each["repeat"]: each for each in groups.get((category, ratio, "mu=0"), [])}
        for method, title in TITLES.items():
            found = groups.get((category, ratio, method))
            if not found:
                continue
            values = [result["accuracy"] for result in found]
            spread = float(np.std(values, ddof=1)) if len(values) > 1 else None
            lead = ""
            steps = [
                each["accuracy"] - base[each["repeat"]]["accuracy"]
                for each in found
                if each["repeat"] in base
            ]
            if method.startswith("milsd") and steps:
                lead = f"{100 * np.mean(steps):+.1f}"
            if lead and len(steps) > 1:
                lead += f" +- {100 * np.std(steps, ddof=1) / len(steps) ** 0.5:.1f}"
            fit = np.mean([result["fit_cpu_seconds"] for result in found])
            there = PUBLISHED.get((category, method)) if ratio == 0.2 else None
            printed = f"{there[0]} / {there[1]:.0f} s" if there else ""
            rows.append(
                [
                    title,
                    percent(float(np.mean(values)), spread),
                    lead,
                    duration(float(fit)),
                    str(len(found)),
                    printed,
                ]
            )
        if rows:
            columns = ["method", "accuracy %", "over mu = 0", "fit, CPU time", "runs", "published"]
            tables.append(Table(columns, rows, title=f"{category}, {100 * ratio:g} % labelled"))
    return tables


def fit_table(fits: Sequence[FitTask], records: dict[str, Any]) -> Table:
    rows = []
    for task in fits:
        found = records.get(task.key, {}).get("result")
        if found is None:
            continue
        rows.append(
            [
                f"{task.dataset}, {found['n_bags']} pages, {found['n_labelled']} labelled",
                f"{task.cost:g}, {task.share:g}, {task.tol:g}",
                duration(found["without_cpu_seconds"]),
                duration(found["fit_cpu_seconds"]),
                f"{found['fit_cpu_seconds'] / found['without_cpu_seconds']:.1f}",
                f"{found['without_peak_mb']:.0f} / {found['peak_mb']:.0f} MB",
                f"{found['process_mb']:.0f} MB",
                f"{found['dense_mb']:.0f} MB",
            ]
        )
    columns = [
        *("fit", "C/n, mu/C, tol", "mu = 0, CPU time", "graph, CPU time", "ratio"),
        *("peaks", "process", "dense data"),
    ]
    return Table(columns, rows, title="Time and memory, co-citation graph")


def fit_pages(task: dict[str, Any]) -> dict[str, Any]:
    """Shortest times of fits with and without the graph in turn, and peak memory of the first."""
    from milearn.structured import MILSD

    pages = pages_of(task["dataset"])
    train = labelled(WebTask(task["dataset"], "", task["ratio"], task["repeat"]), pages.y)
    known = known_labels(pages.y, train)
    X = with_graph(pages, "cocitation")
    C = task["cost"] * len(train)

    def fit(share: float) -> Any:
        return MILSD(C=C, mu=share * C, tol=task["tol"]).fit(X, known)

    # What is imported at the first fit does not count: a few pages take that away.
    few = np.concatenate([train[pages.y[train] == side][:5] for side in (0, 1)])
    MILSD(tol=0.1).fit(X[few], pages.y[few])
    with PeakMemory() as memory:
        fit(task["graph_weights"][0])
    times: list[list[dict[str, float]]] = [[] for _ in task["graph_weights"]]
    for _ in range(task["rounds"]):
        for share, each in zip(task["graph_weights"], times, strict=True):
            watch = Stopwatch()
            fit(share)
            each.append(watch.seconds())
    instances = X.instances
    return {
        "n_labelled": len(train),
        "n_bags": len(X),
        "n_instances": X.n_instances,
        "n_features": X.shape[1],
        "n_links": int(X.bag_graph.nnz),
        "data_mb": (instances.data.nbytes + instances.indices.nbytes) / 2**20,
        "dense_mb": 8 * X.n_instances * X.shape[1] / 2**20,
        "peak_mb": memory.above / 2**20,
        "process_mb": memory.peak / 2**20,
        "fits": [
            {name: min(time[name] for time in each) for name in each[0]} if each else {}
            for each in times
        ],
    }


REPORTS = (
    Report("zhang2011-webkb", "Table 2 and Figure 1: web pages, 1 to 50 % labelled", run_webkb),
)
