"""``defaults``: settings without any search, over many data sets, each chosen on the other sets."""

from __future__ import annotations

import argparse

import numpy as np

from ..common.methods import FIXED, FIXED_C, FIXED_GAMMA, METHODS
from ..common.page import say, show
from ..common.protocol import Summary
from ..common.table import Table, percent
from .nested import add_nested_options, run_nested

HELP = "settings of the support vector machines without a search, on average over data sets"

# The smaller sets: ninety settings would take hours on the others.
DATASETS = ("musk1", "elephant", "fox", "tiger", "digits", "concept")

# C and gamma that the package takes when nothing is said (gamma="scale" after standardisation).
DEFAULT = (10.0, 1.0)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    names = [name for name, method in METHODS.items() if method.fixed]
    add_nested_options(parser, DATASETS, names)


def main(args: argparse.Namespace) -> int:
    status, summaries, _ = run_nested(args, "defaults", "defaults", tables=False)
    datasets, table = accuracies(summaries)
    if len(datasets) < 2:
        say("\nNo comparison: fewer than two data sets with all folds of all settings.")
        return status
    show(averages(table, datasets))
    show(by_dataset(datasets, table))
    show(left_out(datasets, table))
    return status


def accuracies(summaries: list[Summary]) -> tuple[list[str], dict[str, np.ndarray]]:
    """Data sets with all folds of all settings; accuracies over them by setting."""
    good = {
        (item.dataset, item.method): item.accuracy
        for item in summaries
        if item.folds and not item.missing and not item.failed
    }
    names = list(dict.fromkeys(item.method for item in summaries))
    datasets = [
        dataset
        for dataset in dict.fromkeys(item.dataset for item in summaries)
        if all((dataset, name) in good for name in names)
    ]
    return datasets, {
        name: np.array([good[dataset, name] for dataset in datasets]) for name in names
    }


def averages(table: dict[str, np.ndarray], datasets: list[str]) -> Table:
    """One row per estimator, one column per setting."""
    settings = [(C, gamma) for C in FIXED_C for gamma in FIXED_GAMMA]
    rows = []
    for title in FIXED:
        cells = [table.get(f"{title} C={C:g} gamma={gamma:g}") for C, gamma in settings]
        rows.append([title, *("-" if cell is None else percent(cell.mean()) for cell in cells)])
    columns = ["estimator", *(f"C={C:g}, gamma={gamma:g}" for C, gamma in settings)]
    title = (
        f"mean accuracy over {', '.join(datasets)}; gamma as a multiple of 1 / n_features\n"
        "(of 1 for texts of unit length), instances standardised (texts: unit length)"
    )
    return Table(columns, rows, title=title)


def by_dataset(datasets: list[str], table: dict[str, np.ndarray]) -> Table:
    """One row per estimator at ``DEFAULT``, one column per data set."""
    C, gamma = DEFAULT
    named = {title: table.get(f"{title} C={C:g} gamma={gamma:g}") for title in FIXED}
    rows = [
        [title, *(percent(value) for value in values)]
        for title, values in named.items()
        if values is not None
    ]
    title = f"by data set, with the defaults: C = {C:g}, gamma = {gamma:g} / n_features"
    return Table(["estimator", *datasets], rows, title=title)


def left_out(datasets: list[str], table: dict[str, np.ndarray]) -> Table:
    """For each data set the setting that the others would choose, and the best one there."""
    names = list(table)
    values = np.array([table[name] for name in names])
    rows = []
    for number, dataset in enumerate(datasets):
        others = np.delete(values, number, axis=1).mean(axis=1)
        chosen, best = int(others.argmax()), int(values[:, number].argmax())
        figures = [percent(values[place, number]) for place in (chosen, best)]
        rows.append([dataset, figures[0], names[chosen], figures[1], names[best]])
    columns = ["data", "chosen elsewhere", "setting", "best here", "setting"]
    title = "each data set by the setting that is best on average over the other sets"
    return Table(columns, rows, "lrlrl", title=title)
