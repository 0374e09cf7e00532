"""Ranks of methods over data sets: who is ahead on the whole, and by more than chance?

Friedman's test on the ranks, then all pairs by Nemenyi's critical difference, as Demsar (Journal
of Machine Learning Research 7, 2006) proposes, and by Wilcoxon's signed-rank test with Holm's
correction, which does not depend on what other methods are in the table (Benavoli, Corani and
Mangili, Journal of Machine Learning Research 17, 2016).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import friedmanchisquare, rankdata, studentized_range

__all__ = ["Ranks", "plot_ranks", "rank_methods"]

ALPHA = 0.05


@dataclass(frozen=True)
class Ranks:
    """Average ranks, best first.

    Attributes
    ----------
    methods : tuple of str
    ranks : tuple of float
        1 is best; methods that tie share the mean of their ranks.
    n_datasets : int
    p_value : float
        Of Friedman's test that all methods are alike; NaN for fewer than three methods.
    critical_difference : float
        Nemenyi: two methods whose ranks differ by less are not distinguished at the 5 % level.
    nemenyi, wilcoxon : DataFrame
        p-values of all pairs by Nemenyi's test and by Wilcoxon's with Holm's correction.
    """

    methods: tuple[str, ...]
    ranks: tuple[float, ...]
    n_datasets: int
    p_value: float
    critical_difference: float
    nemenyi: Any
    wilcoxon: Any


def _posthocs() -> Any:
    try:
        import scikit_posthocs
    except ImportError as error:
        raise SystemExit(
            "Ranks need scikit-posthocs (pip install 'milearn[benchmark]')."
        ) from error
    return scikit_posthocs


def rank_methods(scores: np.ndarray, methods: Sequence[str]) -> Ranks:
    """Rank methods by scores of shape (n_datasets, n_methods), larger being better."""
    from pandas import DataFrame

    n_datasets, n_methods = scores.shape
    mean = rankdata(-scores, axis=1).mean(axis=0)
    order = np.argsort(mean, kind="stable")
    names = [methods[i] for i in order]
    scores = scores[:, order]
    alike = bool((scores == scores[:, :1]).all())
    p_value = (
        float(friedmanchisquare(*scores.T).pvalue)
        if n_methods > 2 and n_datasets > 1 and not alike
        else float("nan")
    )
    q = studentized_range.ppf(1.0 - ALPHA, n_methods, np.inf) / np.sqrt(2.0)
    posthocs = _posthocs()
    # Data sets on which two methods tie count half for each of them, as Demsar has it.
    wilcoxon = posthocs.posthoc_wilcoxon(list(scores.T), zero_method="zsplit", p_adjust="holm")
    return Ranks(
        methods=tuple(names),
        ranks=tuple(float(mean[i]) for i in order),
        n_datasets=n_datasets,
        p_value=p_value,
        critical_difference=float(q * np.sqrt(n_methods * (n_methods + 1) / (6.0 * n_datasets))),
        nemenyi=posthocs.posthoc_nemenyi_friedman(DataFrame(scores, columns=names)),
        wilcoxon=wilcoxon.set_axis(names, axis=0).set_axis(names, axis=1),
    )


def plot_ranks(ranks: Ranks, titles: dict[str, str], path: Path) -> Path:
    """Critical-difference diagram: a bar joins what Wilcoxon's test does not distinguish."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    shown = {method: titles.get(method, method) for method in ranks.methods}
    figure = Figure(figsize=(12.0, 1.6 + 0.3 * len(shown)), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    _posthocs().critical_difference_diagram(
        dict(zip(shown.values(), ranks.ranks, strict=True)),
        ranks.wilcoxon.rename(index=shown, columns=shown),
        cd=ranks.critical_difference,
        alpha=ALPHA,
        ax=axes,
    )
    axes.set_title(
        f"average rank over {ranks.n_datasets} data sets; bars: not distinguished by Wilcoxon's "
        "test (Holm); CD: Nemenyi",
        loc="left",
        fontsize=10,
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    return path
