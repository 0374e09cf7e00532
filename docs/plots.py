"""The plots of the results, drawn from the recorded tables of docs/results.

``python docs/plots.py`` writes results-*.png in docs/_static. Names draw only those, and ``--out``
takes another folder: ``python docs/plots.py rare time --out plots``.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import binomtest

DOCS = Path(__file__).resolve().parent
sys.path.insert(0, str(DOCS.parent))

from benchmarks.common.output import (  # noqa: E402 (the path comes first)
    SUFFIX,
    Table,
    number,
    read_page,
)

BLUE, ORANGE, GREEN, RED, GREY = "tab:blue", "tab:orange", "tab:green", "tab:red", "0.45"
# Legible at 390 pixels, to which a telephone scales them.
FONTS = {"font.size": 11.0, "axes.titlesize": 11.5, "axes.grid": True, "grid.alpha": 0.3}


def table(name: str, title: str = "", column: str = "") -> Table:
    """The first table of a file with these words in its title and such a column."""
    for each in read_page(DOCS / "results" / f"{name}{SUFFIX}").tables:
        if title in each.title and (not column or column in each.columns):
            return each
    raise ValueError(f"{name}{SUFFIX} has no table of {title!r} with {column!r}.")


def rows(found: Table) -> list[dict[str, str]]:
    return [dict(zip(found.columns, row, strict=True)) for row in found.rows]


def row(found: Table, begin: str) -> dict[str, str]:
    """The row whose first cell begins so."""
    return next(each for each in rows(found) if each[found.columns[0]].startswith(begin))


def numbers(cell: str) -> list[float]:
    """All figures of a cell, such as mean and deviation."""
    return [float(each.replace(",", "")) for each in re.findall(r"-?\d[\d,]*\.?\d*", cell)]


# Ours first, then the plain models, then the net.
PUBLIC_STYLES = {
    "MIClassifier": ("MIClassifier", "o", BLUE),
    "BagSVC, average of kernels": ("BagSVC", "D", "black"),
    "MISVC, max loss": ("MISVC", "^", GREEN),
    "ShareDiscriminant()": ("ShareDiscriminant", "s", "tab:purple"),
    "mean, LogisticRegression": ("means, linear", "<", "tab:brown"),
    "mean, min, max, sd, LogisticRegression": ("statistics, linear", ">", RED),
    "mean, min, max, sd, ExtraTrees": ("statistics, trees", "v", ORANGE),
    "gated attention": ("gated attention", "P", GREY),
}
N_OWN, N_PLAIN = 4, 3


def public() -> Any:
    """Figures of real sets with their intervals, by the lead over the best plain baseline."""
    found: dict[str, dict[str, np.ndarray]] = {}
    for each in rows(table("public")):
        values = [float(each[name]) / 100 for name in ("AUC or R2 x 100", "low", "high")]
        found.setdefault(each["data"], {})[each["method"]] = np.array(values)
    titles = list(PUBLIC_STYLES)

    def lead(name: str) -> float:
        plain = [found[name][each][0] for each in titles[N_OWN:][:N_PLAIN]]
        return float(found[name][titles[0]][0] - max(plain))

    names = sorted(found, key=lead)
    panels = {"AUC on bags left out": [name for name in names if name != "chembl1862"]}
    panels |= {"R2 on bags left out": [name for name in names if name == "chembl1862"]}
    figure, axes = plt.subplots(
        2, 1, figsize=(6.8, 10.5), height_ratios=(8, 1.15), layout="constrained"
    )
    for ax, (words, shown) in zip(axes, panels.items(), strict=True):
        for place, name in enumerate(shown):
            ax.axhspan(place - 0.5, place + 0.5, color=GREY, alpha=0.1 * (place % 2), lw=0)
            for offset, (title, (label, marker, colour)) in enumerate(PUBLIC_STYLES.items()):
                if title in found[name]:
                    value, low, high = found[name][title]
                    ax.errorbar(
                        *(value, place + 0.33 - 0.095 * offset),
                        xerr=[[value - low], [high - value]],
                        **{"fmt": marker, "c": colour, "ms": 5, "elinewidth": 1.2},
                        **{"mfc": colour if offset < N_OWN else "white"},
                        label=label if place == 0 and ax is axes[0] else "",
                    )
        labels = [f"{name.partition('_')[0]}\n{100 * lead(name):+.1f}" for name in shown]
        ax.set_yticks(range(len(shown)), labels)
        ax.set(xlabel=words, ylim=(-0.5, len(shown) - 0.5))
        ax.grid(visible=False, axis="y")
    figure.legend(loc="outside upper center", ncols=3, fontsize=9.5)
    return figure


SHOWN_SHARES = {
    "MIClassifier": ("MIClassifier", "o", BLUE),
    "MISVC, linear, clipped z-scores": ("linear MISVC", "^", GREEN),
    "mean, min, max, sd, ExtraTrees": ("trees on statistics", "v", ORANGE),
    "oracle: share": ("oracle: true share", "D", "black"),
}
NETS_OF_SHARES = ("gated attention", "AutoPool")


def rare() -> Any:
    """AUC over the share of deciding instances, by number of training slides."""
    draws = table("needles", "by draw")
    shown = {
        "oracle": ("oracle", "black"),
        "MIClassifier": ("MIClassifier", BLUE),
        "MISVC, linear, clipped z-scores": ("linear MISVC", GREEN),
        "mean, LogisticRegression": ("means + LogisticRegression", ORANGE),
        "gated attention": ("gated attention", RED),
    }
    figure, panels = plt.subplots(1, 3, figsize=(6.8, 4.2), sharey=True, layout="constrained")
    for ax, n_bags in zip(panels, (50, 100, 200), strict=True):
        begin = f"witness-{n_bags}x300x128-"
        found = [each for each in rows(draws) if each["data"].startswith(begin)]
        shares = [number(each["data"].removeprefix(begin)) for each in found]
        for place, (column, (label, colour)) in enumerate(shown.items()):
            median, lowest, highest = np.transpose([numbers(each[column]) for each in found]) / 100
            moved = np.array(shares) * 1.09 ** (place - 2)
            spread = [median - lowest, highest - median]
            ax.errorbar(moved, median, spread, marker="o", ms=4, capsize=3, label=label, c=colour)
        ax.set(xscale="log", title=f"{n_bags} slides", xlabel="deciding patches, %")
        ax.set_xticks(shares, [f"{share:g}" for share in shares])
        ax.minorticks_off()
    panels[0].set(ylabel="AUC on new simulated slides", ylim=(0.35, 1.02))
    figure.legend(
        *panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False
    )
    return figure


def shares() -> Any:
    """AUC where both classes have deciding instances, one row per world."""
    found = rows(table("needles-shares", "both classes"))
    figure, ax = plt.subplots(figsize=(6.8, 5.2), layout="constrained")
    labels = []
    for place, each in enumerate(found[:-1]):
        kind, *_, high, low = each["data"].replace("cells-60", "cells-1%-0.1%").split("-")
        labels.append(f"{kind.replace('shares', 'slides')}, {high} or {low}".replace("%", " %"))
        best = max(number(each[name]) for name in NETS_OF_SHARES)
        for value, style in zip(
            (*(number(each[name]) for name in SHOWN_SHARES), best),
            (*SHOWN_SHARES.values(), ("better of two nets", "s", RED)),
            strict=True,
        ):
            label, marker, colour = style
            face = "none" if marker in "sD" else colour
            label = "" if place else label
            ax.plot(value / 100, place, marker, c=colour, mfc=face, label=label)
    ax.set_yticks(range(len(labels)), labels)
    ax.invert_yaxis()
    ax.set(xlabel="AUC on new bags", ylabel="share in positive bags, or in negative bags")
    ax.axvline(0.5, c=GREY, lw=1)
    figure.legend(loc="outside upper center", ncols=3, fontsize=9.5)
    return figure


KINDS = {"molecules": BLUE, "images": GREEN, "texts": ORANGE}
CLASSICAL = {"musk1": "molecules", "musk2": "molecules"} | dict.fromkeys(
    ("elephant", "fox", "tiger"), "images"
)
MOLECULES, IMAGES = ("mutagenesis1", "trx_protein"), ("corel1000_10class",)


def classical_leads() -> list[dict[str, Any]]:
    """Points above the best baseline on the five sets, for the default and for BagSVC."""
    found = table("automatic", "on the five sets")
    default, own = row(found, "MIClassifier"), row(found, "BagSVC")
    leads = []
    for name, kind in CLASSICAL.items():
        plain = [numbers(each[name])[0] for each in rows(found) if each not in (default, own)]
        (mean, sd), (bags, sd_bags), best = numbers(default[name]), numbers(own[name]), max(plain)
        leads.append(
            {"name": name, "kind": kind, "guide": True, "lead": mean - best, "sd": sd}
            | {"bags": bags - best, "sd_bags": sd_bags}
        )
    return leads


def default() -> Any:
    """Points of accuracy above the best baseline, one row per data set."""
    leads = classical_leads()
    for title in ("half 'guide'", "half 'aside'", "new texts"):
        for each in rows(table("automatic", title)):
            name = each["data"]
            kind = "molecules" if name in MOLECULES else "images" if name in IMAGES else "texts"
            lead = {"name": name, "kind": kind, "guide": "guide" in title}
            leads.append(lead | {"lead": number(each["to the best"])})
    leads.sort(key=lambda each: each["lead"])
    figure, ax = plt.subplots(figsize=(6.8, 7.2), layout="constrained")
    for place, each in enumerate(leads):
        colour = KINDS[each["kind"]]
        face = "none" if each["guide"] else colour
        ax.errorbar(each["lead"], place, xerr=each.get("sd"), fmt="o", c=colour, mfc=face, ms=7)
        if "bags" in each:
            ax.errorbar(
                each["bags"], place + 0.25, xerr=each["sd_bags"], fmt="x", c="black", elinewidth=0.8
            )
    ax.axvline(0, color="black", lw=1)
    ax.axvspan(-1, 0, color=GREY, alpha=0.15, lw=0)
    names = [each["name"].removeprefix("newsgroups/") for each in leads]
    ax.set_yticks(range(len(leads)), names)
    ax.tick_params(axis="y", labelsize=9.5)
    ax.set(xlabel="accuracy, points above the best plain baseline", ylim=(-0.7, len(leads)))
    for kind, colour in KINDS.items():
        ax.plot([], [], "o", c=colour, label=f"MIClassifier, {kind}")
    ax.plot([], [], "o", c=GREY, mfc="none", label="hollow: set used for development")
    ax.plot([], [], "x", c="black", label="BagSVC, classical sets")
    figure.legend(loc="outside lower center", ncols=2, fontsize=9.5)
    return figure


# Names of classes have changed since, and the default has more models.
RENAMED = {
    "MISVC, l1 loss": "CoupledMISVC, l1 loss",
    "MISVC, max loss": "MISVC",
    "MISVC, max loss, instance slack": "MISVC, instance slack",
    "MISVC, max loss, linear": "linear MISVC",
}


def ranks() -> Any:
    """Mean ranks, with those that Nemenyi's test does not distinguish from the best."""
    figure, panels = plt.subplots(
        2, 1, figsize=(6.8, 8.4), height_ratios=(34, 7), layout="constrained"
    )
    for ax, name, words in zip(
        panels,
        ("classical", "stored-folds"),
        ("4 classical sets, {} classifiers, accuracy", "10 sets, {} classifiers, AUC"),
        strict=True,
    ):
        found = table(name, "rank", "rank")
        (limit,) = numbers(re.findall(r"less than ([\d.]+\d)", found.note)[0])
        named = [(each["method"], float(each["rank"])) for each in rows(found)]
        best = named[0][1]
        ax.axvspan(best, best + limit, color=GREY, alpha=0.2, lw=0, label="not distinguished")
        for place, (method, rank) in enumerate(named):
            colour = {"MIClassifier": BLUE, "BagSVC, average of kernels": "black"}.get(method, GREY)
            ax.plot(rank, place, "o", c=colour, ms=6)
        labels = [RENAMED.get(method, method) for method, _ in named]
        ax.set_yticks(range(len(named)), labels, fontsize=9)
        ax.invert_yaxis()
        ax.set(xlabel="mean rank (1 is best)", title=words.format(len(named)))
        ax.legend(loc="upper right", fontsize=9)
    return figure


def time() -> Any:
    """CPU time and peak memory of a fit over the numbers in the data."""
    lines: dict[str, list[list[float]]] = {}

    def add(name: str, size: float, seconds: str = "", memory: str = "") -> None:
        used = number(memory) if memory else np.nan
        lines.setdefault(name, []).append([size, number(seconds) if seconds else np.nan, used])

    for each in rows(table("linear")):
        if (
            each["slack"] == "bag"
            and each["C"] == "1"
            and "CSR" not in each["instances x features"]
        ):
            size = float(np.prod(numbers(each["instances x features"])))
            add("linear MISVC", size, each["MISVC"])
            add("LinearSVC on instances", size, each["LinearSVC()"])
    out = row(table("out-of-core"), "bag")
    add("linear MISVC", 1e9, out["CPU time"], out["peak"])
    cohort = table("cohort")
    for name, begin in (("linear MISVC", "MISVC"), ("MIClassifier", "MIClassifier")):
        add(name, 1.024e9, row(cohort, begin)["CPU time"], row(cohort, begin)["memory"])
    sizes = {"A": 2000 * 10 * 20, "B": 300 * 300 * 50, "C": 20000 * 10 * 50}
    shown = {"MIClassifier": "MIClassifier", "BagSVC": "BagSVC", "BLRT": "BLRT (trees)"}
    for begin, name in shown.items():
        found = row(table("estimators"), begin)
        for letter, size in sizes.items():
            add(name, size, found[f"fit, {letter}"], found[f"MiB, {letter}"] + " MiB")
    colours = {"linear MISVC": GREEN, "LinearSVC on instances": RED, "MIClassifier": BLUE}
    colours |= {"BagSVC": "black", "BLRT (trees)": ORANGE}
    figure, panels = plt.subplots(1, 2, figsize=(6.8, 4.2), layout="constrained")
    for ax, place, words in zip(
        panels, (1, 2), ("CPU time of a fit, s", "peak memory, MB"), strict=True
    ):
        for name, points in lines.items():
            of = np.array(sorted(points))
            of = of[np.isfinite(of[:, place])]
            if len(of):
                ax.loglog(of[:, 0], of[:, place], "o-", label=name, c=colours[name])
        ax.set(xlabel="instances x features", ylabel=words)
    size = np.array([1e8, 1.5e9])
    panels[1].loglog(size, 2 * size / 1e6, ":", c=GREY)
    panels[1].annotate("data in float16", (9e8, 2.3e3), ha="right", fontsize=9.5)
    panels[1].set_xlim(panels[0].get_xlim())
    figure.legend(
        *panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False
    )
    return figure


def calibration() -> Any:
    """Reliability, slopes of recalibration and Brier scores."""
    figure, panels = plt.subplot_mosaic("ab;cc", figsize=(6.8, 6.2), layout="constrained")
    reliability, slopes, brier = (panels[name] for name in "abc")
    found = table("automatic", "stated probability")
    reliability.plot([0, 1], [0, 1], ":", c=GREY)
    for place, label, colour in ((1, "MIClassifier", BLUE), (4, "calibrated MISVC", ORANGE)):
        stated = np.array([float(each[place]) for each in found.rows])
        share = np.array([float(each[place + 1]) for each in found.rows])
        bags = [int(each[place + 2]) for each in found.rows]
        limits = [
            binomtest(round(part * n), n).proportion_ci(method="wilson")
            for part, n in zip(share, bags, strict=True)
        ]
        reliability.plot(stated, share, "o-", c=colour, label=label)
        low, high = np.transpose([(each.low, each.high) for each in limits])
        reliability.fill_between(stated, low, high, color=colour, alpha=0.2, lw=0)
    reliability.set(xlabel="stated probability", ylabel="share of positive bags", title="real sets")
    reliability.legend(fontsize=9)
    for label, colour in (("1:1", BLUE), ("1:20", RED), ("1:2", GREEN)):
        of = [
            each
            for each in rows(table("calibration", "probabilities"))
            if each["classes"].endswith(label)
        ]
        words = f"three classes, {label}" if label == "1:2" else f"two classes, {label}"
        slopes.plot(
            [number(each["training bags"]) for each in of],
            [number(each["slope"]) for each in of],
            "o-",
            c=colour,
            label=words,
        )
    slopes.axhline(1, color=GREY, ls=":")
    slopes.set(
        xlabel="training bags", title="generated bags", xticks=(40, 100, 200), ylim=(0.7, 2.6)
    )
    slopes.set_ylabel("slope (above 1: too cautious)")
    slopes.legend(fontsize=9, loc="upper right")
    scores = [each for each in rows(table("automatic", "Brier")) if each["data"] != "all"]
    places = np.arange(len(scores))
    for column, label, colour in (
        ("MIClassifier()", "MIClassifier", BLUE),
        ("CalibratedClassifierCV(MISVC())", "calibrated MISVC", ORANGE),
    ):
        brier.plot([float(each[column]) for each in scores], places, "o", c=colour, label=label)
    brier.set_yticks(places, [each["data"] for each in scores])
    brier.invert_yaxis()
    brier.set(xlabel="Brier score (0 is best)", xlim=(0, None), title="real sets")
    return figure


# Accuracy in percent: label, file, words of the title, begin of the row, our column, theirs.
ACCURACY = ("accuracy %", "published")
PAPERS = (
    ("DPBoost, plane", "andrews2003-figure2", "", "DPBoost", *ACCURACY),
    ("CoupledMISVC, Corel", "cheung2006-table1", "", "Gaussian, Coupled", *ACCURACY),
    *(
        (f"SDPMIL, {data}", f"guo2009-table{part}", "", "SDPMIL, linear", data, "publ.")
        for part, data in (
            *((1, "musk1"), (1, "musk2"), (2, "elephant"), (2, "fox"), (2, "tiger")),
            *((3, f"trec9/tst{topic}") for topic in (1, 2, 3, 7, 10)),
        )
    ),
    ("M3IC, images, best of grid", "zhang2009-table3", "", "M3IC, best", *ACCURACY),
    ("BAMIC, images, best run", "zhang2009-table3", "", "BAMIC min", *ACCURACY),
    *(
        (f"{name}, WebKB {data}", "zhang2011-webkb", f"{data}, 20 %", begin, *ACCURACY)
        for data in ("course", "faculty", "student")
        for name, begin in (("MILSD", "MILSD, co-c"), ("LinkContentMF", "LinkC"))
    ),
    ("MILSD, proteins", "zhang2011-protein", "", "MILSD, surr", *ACCURACY),
)


def papers() -> Any:
    """Published accuracies and ours."""
    figure, ax = plt.subplots(figsize=(6.8, 6.4), layout="constrained")
    for place, (_, name, title, begin, ours, theirs) in enumerate(PAPERS):
        found = table(name, title)
        cells = next(
            each for each in found.rows if each[0].startswith(begin) or each[2].startswith(begin)
        )
        at = found.columns.index(ours)
        mean, *sd = numbers(cells[at])
        # Of several columns of this name, the one of our column follows it.
        published = numbers(cells[list(found.columns).index(theirs, at)])[0]
        colour = RED if mean < published else BLUE
        ax.plot([published, mean], [place, place], c=colour, lw=1)
        ax.errorbar(mean, place, xerr=sd[0] if sd else None, fmt="o", c=colour, alpha=0.9)
        ax.plot(published, place, "D", mfc="white", mec="black", ms=6)
    ax.set_yticks(range(len(PAPERS)), [each[0] for each in PAPERS], fontsize=9.5)
    ax.invert_yaxis()
    ax.set(xlabel="accuracy, %")
    for label, style in (
        ("published", {"marker": "D", "mfc": "white", "mec": "black"}),
        ("milearn, at least as high", {"marker": "o", "c": BLUE}),
        ("milearn, lower", {"marker": "o", "c": RED}),
    ):
        ax.plot([], [], ls="", label=label, **style)
    ax.legend(loc="lower left", fontsize=9.5)
    return figure


PLOTS: dict[str, Callable[[], Any]] = {
    each.__name__: each
    for each in (rare, public, shares, default, ranks, time, calibration, papers)
}


def main(args: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(PLOTS)}; all")
    parser.add_argument("--out", type=Path, default=DOCS / "_static", metavar="DIR")
    parsed = parser.parse_args(args)
    with plt.rc_context(FONTS):
        for name in parsed.names or PLOTS:
            figure = PLOTS[name]()
            figure.savefig(parsed.out / f"results-{name}.png", dpi=120, metadata={"Software": None})
            plt.close(figure)


if __name__ == "__main__":
    main()
