"""``equal``: objectives and accuracies of every estimator, to be compared between two checkouts.

One file that imports public names alone, so that it runs on an older checkout as it is::

    PYTHONPATH=. python .../benchmarks/commands/equal.py --output old.json

Every setting names the parameters whose defaults have changed or may change, so that both
checkouts solve the same problems.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from milearn import Bags
from milearn.cluster import BAMIC, M3IC
from milearn.datasets import load_bags, load_digit_bags
from milearn.ensemble import DPBoost, LPBoost
from milearn.metrics import clustering_accuracy
from milearn.model_selection import StratifiedBagKFold
from milearn.preprocessing import BagStatistics
from milearn.structured import MILSD, LinkContentMF, knn_bag_graph
from milearn.svm import MISVC, MISVR, SDPMIL, CoupledMISVC, CoupledMISVR, InstanceMISVC

try:
    from milearn.baselines import SingleInstance
except ImportError:  # where it stood before
    from milearn.preprocessing import SingleInstance

HELP = "objectives and accuracies of every estimator, compared with another checkout"

DATASETS = ("musk1", "elephant", "digits")
N_FOLDS = 5
OBJECTIVE_TOL = 1e-6

# C and gamma of kernels suit standardised instances; a linear kernel separates the bags at a far
# smaller C.
_RBF = {"kernel": "rbf", "gamma": "scale", "C": 10.0}
_LINEAR = {"kernel": "linear", "C": 0.1}
SETTINGS: dict[str, Callable[[], Any]] = {
    "CoupledMISVC, rbf": partial(CoupledMISVC, **_RBF),
    "CoupledMISVC, linear": partial(CoupledMISVC, **_LINEAR),
    "MISVC, l2, rbf": partial(CoupledMISVC, loss="l2", **_RBF),
    "MISVC, epsilon_insensitive, rbf": partial(CoupledMISVC, loss="epsilon_insensitive", **_RBF),
    "CoupledMISVC, minmax, rbf": partial(CoupledMISVC, bag_kernel="minmax", **_RBF),
    "CoupledMISVC, coupling 0, rbf": partial(CoupledMISVC, coupling=0.0, **_RBF),
    "CoupledMISVC, 50 components, rbf": partial(
        CoupledMISVC, n_components=50, random_state=0, **_RBF
    ),
    "MISVC, max, bag slack, rbf": partial(MISVC, slack="bag", **_RBF),
    "MISVC, max, bag slack, linear": partial(MISVC, slack="bag", **_LINEAR),
    "MISVC, max, instance slack, rbf": partial(MISVC, slack="instance", **_RBF),
    "MISVC, max, instance slack, linear": partial(MISVC, slack="instance", **_LINEAR),
    "MISVC, max, 3 starts, rbf": partial(MISVC, slack="bag", n_init=3, random_state=0, **_RBF),
    "CoupledMISVR, rbf": partial(CoupledMISVR, kernel="rbf", gamma="scale", C=1.0),
    "MISVR, max, linear": partial(MISVR, kernel="linear", C=0.1),
    "InstanceMISVC, rbf": partial(InstanceMISVC, **_RBF),
    "InstanceMISVC, linear": partial(InstanceMISVC, **_LINEAR),
    "SDPMIL, rbf": partial(SDPMIL, **_RBF),
    "SDPMIL, linear": partial(SDPMIL, **_LINEAR),
    "SDPMIL, polished, linear": partial(SDPMIL, polish=True, **_LINEAR),
    "MILSD, no graph": partial(MILSD, C=10.0, mu=0.0),
    "MILSD, graph of bags": partial(MILSD, C=10.0, mu=1.0, graph="bag"),
    "LinkContentMF": partial(LinkContentMF, n_components=10),
    "M3IC": partial(M3IC, 2, random_state=0),
    "BAMIC, mean": partial(BAMIC, 2, metric="mean", random_state=0),
    "BAMIC, min": partial(BAMIC, 2, metric="min", random_state=0),
    "DPBoost, stumps": partial(DPBoost, 0.1, estimator="stump"),
    # A larger C takes minutes on Elephant.
    "LPBoost, stumps": partial(LPBoost, 0.02, estimator="stump"),
    "SingleInstance, SVC": partial(SingleInstance, SVC(C=10.0)),
    "BagStatistics, SVC": partial(make_pipeline, BagStatistics(("min", "max")), SVC(C=10.0)),
}
_CLUSTERERS = (M3IC, BAMIC)

try:
    from milearn import MIClassifier, MIRegressor
    from milearn.baselines import EMDD, MILES, CitationKNN, DiverseDensity, SparseMISVC
    from milearn.embedding import (
        VLAD,
        BagDissimilarity,
        BagOfWords,
        FisherVector,
        MILESEmbedding,
    )
    from milearn.preprocessing import ClippedScaler
    from milearn.svm import BagSVC, BagSVR
except ImportError:  # an older checkout knows none of them
    pass
else:

    def _embedded(embedding: Any) -> Any:
        return make_pipeline(embedding, StandardScaler(), SVC(kernel="linear", C=0.1))

    SETTINGS |= {
        "MIClassifier": partial(MIClassifier, random_state=0),
        "MIRegressor": partial(MIRegressor, random_state=0),
        "BagSVC, average": partial(BagSVC, 10.0, random_state=0),
        "BagSVR, set": partial(BagSVR, C=10.0, bag_kernel="set_median", random_state=0),
        "ClippedScaler, MISVC": partial(
            make_pipeline, ClippedScaler("standard", clip=3.0), MISVC(**_RBF)
        ),
        "MILES": partial(MILES, C=1.0),
        "CitationKNN": partial(CitationKNN, n_references=2, n_citers=4),
        "DiverseDensity": partial(DiverseDensity, n_init=10),
        "EMDD": partial(EMDD, n_init=10),
        "SparseMISVC": partial(SparseMISVC, variant="sbmil"),
        "MILESEmbedding, SVC": lambda: _embedded(MILESEmbedding()),
        "BagDissimilarity, SVC": lambda: _embedded(BagDissimilarity()),
        "BagOfWords, SVC": lambda: _embedded(BagOfWords(20, random_state=0)),
        "VLAD, SVC": lambda: _embedded(VLAD(2, random_state=0)),
        "FisherVector, SVC": lambda: _embedded(FisherVector(2, random_state=0)),
    }

try:
    from milearn.baselines import BLRT, DDSVM, MIForest, MILBoost
    from milearn.embedding import ConceptEmbedding
    from milearn.svm import WellSVC
except ImportError:  # likewise
    pass
else:
    SETTINGS |= {
        "MILBoost": partial(MILBoost, n_estimators=20),
        "MIForest": partial(MIForest, n_estimators=10, random_state=0),
        "BLRT": partial(BLRT, n_estimators=50, random_state=0),
        "DDSVM": partial(DDSVM, n_init=2),
        "ConceptEmbedding, SVC": lambda: _embedded(ConceptEmbedding(n_init=2)),
        "WellSVC": partial(WellSVC),
    }

try:
    from milearn.svm import OrdinalMISVC
except ImportError:  # likewise
    pass
else:
    SETTINGS |= {"OrdinalMISVC": partial(OrdinalMISVC)}

try:
    from milearn.survival import MICoxPH, survival_outcomes
except ImportError:  # likewise
    pass
else:
    SETTINGS |= {"MICoxPH": partial(MICoxPH, C=0.1)}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--out",
        type=Path,
        default=Path(__file__).resolve().parents[1] / "results",
        metavar="DIR",
        help="folder of the results (default: benchmarks/results)",
    )
    parser.add_argument(
        "--output", type=Path, metavar="FILE", help="the JSON to write (default: DIR/equal.json)"
    )
    parser.add_argument(
        "--reference",
        type=Path,
        metavar="FILE",
        help="the JSON of another checkout: prints what differs from it, and fails where an "
        f"objective differs by more than {OBJECTIVE_TOL:g} of itself, or an accuracy at all",
    )
    parser.add_argument(
        "--datasets", nargs="+", default=list(DATASETS), metavar="NAME", help="default: %(default)s"
    )
    parser.add_argument(
        "--settings",
        nargs="+",
        default=list(SETTINGS),
        metavar="NAME",
        help="default: all; for example 'CoupledMISVC, rbf'",
    )


def main(args: argparse.Namespace) -> int:
    for name in args.settings:
        if name not in SETTINGS:
            raise SystemExit(f"There is no setting {name!r}: choose from {'; '.join(SETTINGS)}.")
    reference = None
    if args.reference is not None:  # before the minutes of work, not after them
        reference = json.loads(args.reference.read_text(encoding="utf-8"))["results"]
    results: dict[str, dict[str, Any]] = {}
    for dataset in args.datasets:
        data = load(dataset)
        if data is None:
            print(f"{dataset} is left out: it is not here (set MILEARN_DATA to its folder).")
            continue
        for name in args.settings:
            begin = time.process_time()
            results[f"{dataset}: {name}"] = measure(SETTINGS[name], *data)
            print(f"{dataset}: {name} ({time.process_time() - begin:.1f} CPU s)", file=sys.stderr)
    path = args.output or args.out / "equal.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"results": results}, indent=1) + "\n", encoding="utf-8")
    print(f"written: {path.name} ({len(results)} fits and cross-validations)")
    failed = [name for name, result in results.items() if "error" in result]
    for name in failed:
        print(f"FAILED: {name}: {results[name]['error']}")
    if reference is None:
        return 1 if failed else 0
    differences = compare(results, reference)
    shared = len(set(results) & set(reference))
    if not shared:
        print("Nothing was compared: the reference holds none of these settings.")
        return 1
    for line in differences:
        print("  ".join(line))
    print(f"{shared} of {len(results)} compared, {len(differences)} differences")
    return 1 if differences or failed else 0


def load(name: str) -> tuple[Bags, np.ndarray] | None:
    """Standardised bags and labels 0 and 1; None where the file is not here."""
    if name == "digits":
        bunch = load_digit_bags(n_bags=100, random_state=0)
    else:
        path = _folder() / f"{name}.npz"
        if not path.is_file():
            return None
        bunch = load_bags(path)
    instances = StandardScaler().fit_transform(bunch.data.instances.astype(np.float64))
    bags = Bags(instances, bunch.data.offsets)
    return (
        Bags(instances, bags.offsets, bag_graph=knn_bag_graph(bags, 5)),
        np.asarray(bunch.target).astype(int),
    )


def _folder() -> Path:
    if os.environ.get("MILEARN_DATA"):
        return Path(os.environ["MILEARN_DATA"])
    if __package__:
        from ..common.data import find_data_dir

        return find_data_dir() or Path.home() / "milearn_data"
    return Path.home() / "milearn_data"


def measure(make: Callable[[], Any], bags: Bags, y: np.ndarray) -> dict[str, Any]:
    """Objective and training accuracy of one fit, and the mean accuracy of a cross-validation."""
    with warnings.catch_warnings():
        # A fit that stops at its limit is a result like others: it has to be the same again.
        warnings.simplefilter("ignore")
        try:
            model = make()
            accuracy = _fitted_accuracy(model, bags, y, np.arange(len(y)), np.arange(len(y)))
            objective = getattr(model, "objective_", None)
            folds = StratifiedBagKFold(N_FOLDS, shuffle=True, random_state=0).split(bags, y)
            accuracies = [
                _fitted_accuracy(clone(model), bags, y, train, test) for train, test in folds
            ]
        except Exception as error:
            return {"error": f"{type(error).__name__}: {error}"}
    return {
        "objective": None if objective is None else float(np.sum(objective)),
        "accuracy": accuracy,
        "cv_accuracy": float(np.mean(accuracies)),
    }


def _fitted_accuracy(
    model: Any, bags: Bags, y: np.ndarray, train: np.ndarray, test: np.ndarray
) -> float:
    if isinstance(model, _CLUSTERERS):
        return float(clustering_accuracy(y[test], model.fit(bags[train]).predict(bags[test])))
    if isinstance(model, (MISVR, CoupledMISVR)):
        model.fit(bags[train], 2.0 * y[train] - 1.0)
        return float(np.mean((model.predict(bags[test]) > 0) == (y[test] == 1)))
    if hasattr(model, "predict_survival_function"):
        # Positive bags have an event before all others leave; the score is a concordance.
        outcomes = survival_outcomes(y == 1, np.where(y == 1, 1.0, 2.0))
        return float(model.fit(bags[train], outcomes[train]).score(bags[test], outcomes[test]))
    return float(np.mean(model.fit(bags[train], y[train]).predict(bags[test]) == y[test]))


def compare(
    results: dict[str, dict[str, Any]], reference: dict[str, dict[str, Any]]
) -> list[Sequence[str]]:
    """Setting, quantity, the reference's value and ours, for every value that differs."""
    found: list[Sequence[str]] = []
    for name in (each for each in results if each in reference):
        mine, other = results[name], reference[name]
        for what in dict.fromkeys([*other, *mine]):
            old, new = other.get(what), mine.get(what)
            tol = OBJECTIVE_TOL if what == "objective" else 0.0
            if not _same(old, new, tol):
                change = "" if tol == 0.0 or None in (old, new) else f"{(new - old) / old:+.1e}"
                found.append((name, what, str(old), str(new), change))
    return found


def _same(old: Any, new: Any, tol: float) -> bool:
    if not isinstance(old, float) or not isinstance(new, float):
        return old == new
    return abs(new - old) <= tol * max(abs(old), abs(new)) + 1e-12


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=HELP)
    add_arguments(parser)
    sys.exit(main(parser.parse_args()))
