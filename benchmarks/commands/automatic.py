"""``automatic``: the estimators that need no settings, on both halves of the data sets.

The halves were committed before the first run. Everything that the default estimators decide once
and for all (kernels, scalings, costs, candidates, how to choose between them) is decided by results
on ``GUIDE`` and on generated bags. ``ASIDE`` is run once, when nothing is open any more, and
nothing is changed because of what it shows.

The design that the default started from is older than this division: it had been tried on Musk1,
Musk2, Elephant, Fox, Tiger and TREC 1, 2, 4, 7 and 9, which is why all of them are in ``GUIDE``. It
had also been tried on a few of the twenty newsgroups; which ones is not recorded, so those in
``ASIDE`` may be among them. The texts of ``ASIDE`` were looked at more than once before the way in
which texts are learnt today was decided, again by ``GUIDE`` alone. ``FRESH`` are problems that were
made after that decision, of pages of the same web corpus: classes and universities that no earlier
run asked for. They are no other corpus, but nobody had seen a figure of them.
"""

from __future__ import annotations

import argparse

import numpy as np
from sklearn.metrics import mean_squared_error

from milearn.auto import MIRegressor

from ..common.carbonneau import ACCURACY, AUC, SETS
from ..common.data import load_file
from ..common.folds import (
    BINS,
    Found,
    Records,
    accuracy,
    cross_validated,
    mean,
    repeated,
    total,
)
from ..common.memory import Stopwatch
from ..common.methods import METHODS
from ..common.output import Table, duration, percent, say, show
from ..common.runner import add_options

HELP = "MIClassifier() and MIRegressor() without settings, and baselines on the same folds"

PLAIN = (
    *("plain-mean", "plain-minmax", "plain-set", "plain-linear", "plain-single"),
    "plain-trees",
)
# On the five sets also the model that is most often the best one there.
FOR_FIVE = ("default", *PLAIN, "all-bagsvc")
# Names of files, without their ending, and tasks made from them; lj_*: regression.
GUIDE = (
    *("musk1", "musk2", "elephant", "fox", "tiger"),
    *("trec9/tst1", "trec9/tst2", "trec9/tst4", "trec9/tst7", "trec9/tst9"),
    *("newsgroups/alt_atheism", "lj_16_30_2"),
)
ASIDE = (
    *("trec9/tst3", "trec9/tst10", "newsgroups/comp_graphics", "newsgroups/rec_autos"),
    *("newsgroups/sci_med", "newsgroups/talk_politics_guns", "mutagenesis1", "trx_protein"),
    *("corel1000_10class", "webkb:course", "webkb:faculty", "webkb:student"),
    *("lj_80_166_1", "lj_160_166_1"),
)
FRESH = tuple(f"webkb:{kind}" for kind in ("department", "project", "staff", "texas", "wisconsin"))
LJ = ("lj_16_30_2", "lj_80_166_1", "lj_160_166_1")
FURTHER = tuple(name for name in (*GUIDE, *ASIDE, *FRESH) if name not in (*SETS, *LJ))
GENERATED = ("digits", "concept")
CALIBRATED = ("musk1", "elephant", "fox", "tiger", *GENERATED)
CALIBRATED_METHODS = ("default", "misvc-calibrated")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_options(parser, jobs=1)
    for name, default, words in (
        ("repeats", 10, "classical and generated sets"),
        ("further-repeats", 1, "elsewhere"),
        ("folds", 10, "classical and generated sets"),
        ("further-folds", 5, "elsewhere"),
    ):
        words = f"{words} (default: {default})"
        parser.add_argument(f"--{name}", type=int, default=default, metavar="N", help=words)
    parser.add_argument("--sets", nargs="+", default=list(FURTHER), metavar="NAME")


def main(args: argparse.Namespace) -> None:
    cv, repeats = repeated(args.folds), args.repeats
    five = cross_validated(args, SETS, FOR_FIVE, cv, repeats)
    show_five({name: five[name, "default"] for name in SETS})
    show_generated(cross_validated(args, GENERATED, ("default", "misvc-default"), cv, repeats))
    further = repeated(args.further_folds), args.further_repeats
    show_further(args, cross_validated(args, args.sets, ("default", *PLAIN), *further))
    rows = []
    for method in FOR_FIVE:
        sum_of = sum(mean(five[name, method], "accuracy") for name in SETS)
        cells = [accuracy(five[name, method]) for name in SETS]
        rows.append([METHODS[method].title, *cells, percent(sum_of)])
    title = "accuracy % on the five sets, baselines and BagSVC with C by inner folds"
    show(Table(["method", *SETS, "sum"], rows, title=title))
    show_calibration(cross_validated(args, CALIBRATED, CALIBRATED_METHODS, cv))
    show_regression()


def show_five(found: dict[str, Records]) -> None:
    """Accuracy and AUC compared with the sixteen methods of Carbonneau et al. 2018."""
    for measure, theirs in (("accuracy", ACCURACY), ("auc", AUC)):
        own = [mean(records, measure) for records in found.values()]
        cells = map(accuracy, found.values()) if measure == "accuracy" else map(percent, own)
        rows = [["MIClassifier()", *cells, percent(sum(own))]]
        bests = [max(column) for column in zip(*theirs.values(), strict=True)]
        for name, row in {"best of the 16, column by column": bests, **theirs}.items():
            rows.append([name, *map(str, row), f"{sum(row):.1f}"])
        words = "AUC" if measure == "auc" else measure
        title = f"{words} x 100; rows 2 to 18 by Carbonneau et al. 2018, on other folds"
        show(Table(["method", *SETS, "sum"], rows, title=title))
    times = [f"{name} {duration(mean(each, 'cpu_seconds'))}" for name, each in found.items()]
    say(f"CPU time of a fit: {', '.join(times)}.")


def show_generated(found: Found) -> None:
    """Bags where one instance decides: MIClassifier compared with MISVC."""
    rows = []
    for name in GENERATED:
        mine, other = (mean(found[name, each], "accuracy") for each in ("default", "misvc-default"))
        rows.append([name, percent(mine), percent(other), f"{100 * (mine - other):+.1f}"])
    title = "one instance decides: accuracy %"
    show(Table(["data", "MIClassifier()", "MISVC()", "difference"], rows, title=title))


def show_further(args: argparse.Namespace, found: Found) -> None:
    """Every further set compared with the best of the baselines, by halves."""
    columns = ["data", "chosen", "MIClassifier()", *(METHODS[method].title for method in PLAIN)]
    columns += ["to the best", "AUC", "best AUC", "fit, CPU time"]
    for part, names in (
        ("the sets of the half 'guide'", GUIDE),
        ("the sets of the half 'aside'", ASIDE),
        ("new texts", FRESH),
    ):
        rows, leads = [], []
        for name in (name for name in args.sets if name in names):
            mine = found[name, "default"]
            others = [mean(found[name, method], "accuracy") for method in PLAIN]
            leads.append(100 * (mean(mine, "accuracy") - max(others)))
            taken = {
                key.partition(" ")[2]: sum(key in each for each in mine)
                for key in dict.fromkeys(key for each in mine for key in each)
                if key.startswith("chosen ")
            }
            counts = sorted(taken.items(), key=lambda item: -item[1])
            areas = [mean(mine, "auc"), max(mean(found[name, each], "auc") for each in PLAIN)]
            rows.append(
                [
                    *(name, ", ".join(f"{each} {count}" for each, count in counts)),
                    *map(percent, (mean(mine, "accuracy"), *others)),
                    f"{leads[-1]:+.1f}",
                    *("-" if area != area else f"{area:.3f}" for area in areas),
                    duration(mean(mine, "cpu_seconds")),
                ]
            )
        if rows:
            title = f"accuracy % on {part}, compared with six baselines on the same folds"
            show(Table(columns, rows, "ll" + "r" * (len(columns) - 2), title=title))
            near = sum(round(lead, 6) >= -1.0 for lead in leads)
            say(
                f"Within a point of the best of six baselines, or above, on {near} of "
                f"{len(leads)} sets; on average {np.mean(leads):+.1f} points."
            )
    say(
        f"Guide (used to choose the defaults): {', '.join(GUIDE)}.\nAside: {', '.join(ASIDE)}.\n"
        f"New texts, generated after all choices were made: {', '.join(FRESH)}.\n"
        "The texts aside had been used before the last change, see the results; the other sets "
        "aside only after all choices were made."
    )


def show_calibration(found: Found) -> None:
    """Brier scores, and how often bags of a stated probability were positive."""
    pooled = dict(found)
    for method in CALIBRATED_METHODS:
        pooled["all", method] = [each for name in CALIBRATED for each in found[name, method]]
    rows = [
        [
            name,
            *(
                f"{total(pooled[name, each], 'squares') / total(pooled[name, each], 'bags'):.3f}"
                for each in CALIBRATED_METHODS
            ),
        ]
        for name in (*CALIBRATED, "all")
    ]
    columns = ["data", "MIClassifier()", METHODS["misvc-calibrated"].title]
    show(Table(columns, rows, title="Brier score of bags left out (0 is best)"))
    rows = []
    for low, high in BINS:
        row = [f"{low:.1f} to {high:.1f}"]
        for method in CALIBRATED_METHODS:
            bags, *sums = (
                total(pooled["all", method], f"{name} {low}")
                for name in ("bags", "stated", "positive")
            )
            row += [f"{each / bags:.2f}" if bags else "-" for each in sums] + [f"{bags:.0f}"]
        rows.append(row)
    columns = ["stated", *("mean", "positive", "bags") * 2]
    title = "stated probability, and the share of positive bags; left MIClassifier()"
    show(Table(columns, rows, title=title))


def show_regression() -> None:
    """MIRegressor on the published split of the artificial molecules."""
    rows = []
    for name in LJ:
        bunch = load_file(name)
        train, test = (np.flatnonzero(np.asarray(bunch.split) == part) for part in (0, 1))
        y = np.asarray(bunch.target, dtype=float)
        watch = Stopwatch()
        model = MIRegressor(random_state=0).fit(bunch.data[train], y[train])
        seconds = watch.seconds()["cpu_seconds"]
        predicted = model.predict(bunch.data[test])
        wrong = float(np.mean((predicted > 0.5) != (y[test] > 0.5)))
        cells = [f"{mean_squared_error(y[test], predicted):.4f}", percent(wrong), duration(seconds)]
        half = "guide" if name in GUIDE else "aside"
        rows.append([name, half, model.paradigm_, *cells])
    columns = ["data", "half", "chosen", "MSE", "err %", "fit, CPU time"]
    title = "MIRegressor() on the published split of the artificial molecules"
    show(Table(columns, rows, "lllrrr", title=title))
