"""Random problems for all estimators: a fit ends with finite figures that can be made again.

Run as ``python -m tests.common.soak --problems 500``. Each problem draws bags (bags of one, doubled
rows, constant features, sparse, float16 and float32 matrices, features of three values, large bags,
features of huge and tiny scales or far from zero), labels (also names, and a class of one bag),
weights, groups, an estimator and its settings, with C from 1e-8 to 1e8. A problem fails where

- ``fit`` or a prediction raises, or a library warns of its arithmetic;
- a number is not finite, or the pickled model predicts other values;
- a stated objective is not the value of the stated problem;
- a feasible point of another solver contradicts a stated gap or lower bound;
- NaN or a single class are accepted;
- it has not ended after ``--limit`` seconds.

Failures are printed with the seed from which ``--only`` makes them again, and the exit status is 1.
"""

from __future__ import annotations

import argparse
import pickle
import signal
import sys
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from inspect import signature
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, is_classifier, is_clusterer, is_regressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import has_fit_parameter

from milearn import Bags
from milearn.structured import LinkContentMF
from milearn.survival import survival_outcomes
from milearn.utils import all_estimators
from tests.common.certificates import wrong_bounds
from tests.common.objectives import stated_objective

# What an estimator may say of a hard problem; anything else that warns is a failure.
_ALLOWED = ConvergenceWarning
_LARGEST = 1e8
# MIClassifier warns of a class that no two inner folds can have.
_NO_FOLDS = "no two inner folds with bags of every class"


@dataclass(frozen=True)
class Problem:
    """One draw: the model, its data, and words that describe both."""

    seed: int
    model: BaseEstimator
    bags: Bags
    y: np.ndarray
    sample_weight: np.ndarray | None
    traits: tuple[str, ...]
    groups: np.ndarray | None = None
    refusal: str | None = None

    def __str__(self) -> str:
        words = ", ".join(self.traits) or "plain"
        return (
            f"seed {self.seed}: {self.model!r} on {len(self.bags)} bags of "
            f"{self.bags.n_instances} x {self.bags.shape[1]} ({words})"
        )


@dataclass
class Report:
    """Fits, failures and fits without convergence of each estimator."""

    fits: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    warned: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    def table(self) -> str:
        lines = [f"{'estimator':20} {'fits':>6} {'failed':>6} {'not converged':>14}"]
        lines += [
            f"{name:20} {self.fits[name]:6} {self.failed[name]:6} {self.warned[name]:14}"
            for name in sorted(self.fits)
        ]
        total = [each.total() for each in (self.fits, self.failed, self.warned)]
        return "\n".join([*lines, f"{'all':20} {total[0]:6} {total[1]:6} {total[2]:14}"])


# -- drawing ---------------------------------------------------------------------------------------


def draw(seed: int, names: Sequence[str] = ()) -> Problem:
    """The problem of a seed; ``names`` restricts the estimators."""
    rng = np.random.default_rng(seed)
    classes = {name: each for name, each in all_estimators() if hasattr(each, "predict")}
    chosen = list(names) or sorted(classes)
    Model = classes[chosen[rng.integers(len(chosen))]]
    bags, signal, traits = _draw_bags(rng)
    # A stream of its own, so that the problems of older seeds keep their other draws.
    kinds = np.random.default_rng([seed, 1])
    bags, signal = _draw_kind_of_bags(kinds, bags, signal, traits)
    model = _draw_settings(rng, Model, len(bags))
    # A method of links takes some at random; one of them does without links too.
    linked = isinstance(model, LinkContentMF) or rng.random() < 0.5
    if linked and hasattr(model, "unlabeled"):
        links = np.triu(rng.random((len(bags), len(bags))) < 0.1, 1)
        graph = sparse.csr_array((links | links.T).astype(float))
        bags = Bags(bags.instances, bags.offsets, bag_graph=graph)
        traits.append("links")
    y = _draw_labels(rng, model, signal)
    weights = None
    if has_fit_parameter(model, "sample_weight") and rng.random() < 0.3:
        weights = rng.choice([0.5, 1.0, 3.0], size=len(bags))
        traits.append("weights")
    y = _draw_kind_of_labels(kinds, model, y, signal, traits)
    groups = None
    if "groups" in signature(model.fit).parameters and kinds.random() < 0.3:
        groups = np.arange(len(y)) // 2
        traits.append("groups")
    bags, y, refusal = _draw_refusal(kinds, model, bags, y, traits)
    return Problem(seed, model, bags, y, weights, tuple(traits), groups, refusal)


def _draw_bags(rng: np.random.Generator) -> tuple[Bags, np.ndarray, list[str]]:
    """Bags, the strength of each one's signal, and the traits that were drawn."""
    n_bags = int(rng.integers(6, 31))
    n_features = int(rng.choice([1, 2, 3, 8, 25]))
    most = int(rng.choice([1, 4, 12]))
    traits = ["bags of one"] if most == 1 else []
    offsets = np.r_[0, np.cumsum(rng.integers(1, most + 1, size=n_bags))]
    matrix = rng.normal(size=(offsets[-1], n_features))
    signal = rng.normal(size=n_bags)
    matrix[offsets[:-1], 0] += 2.0 * signal

    def drawn(trait: str, chance: float = 0.15) -> bool:
        if rng.random() < chance:
            traits.append(trait)
            return True
        return False

    if drawn("doubled rows"):
        rows = rng.integers(len(matrix), size=len(matrix) // 2 + 1)
        matrix[rng.integers(len(matrix), size=len(rows))] = matrix[rows]
    if drawn("constant features"):
        matrix[:, rng.integers(n_features)] = rng.choice([0.0, 1.0, -7.0])
    if drawn("whole numbers"):
        matrix = np.rint(matrix)
    if drawn("one scale"):
        matrix *= _LARGEST ** rng.uniform(-1, 1)
    if drawn("scales by feature"):
        matrix *= 10.0 ** rng.uniform(-4, 4, size=n_features)
    if drawn("shifted"):
        matrix += 10.0 ** rng.uniform(2, 6)
    if drawn("sparse", 0.25):
        matrix[rng.random(matrix.shape) < 0.6] = 0.0
        return Bags(sparse.csr_array(matrix), offsets), signal, traits
    if drawn("float32"):
        matrix = matrix.astype(np.float32)
    return Bags(matrix, offsets), signal, traits


def _draw_labels(rng: np.random.Generator, model: BaseEstimator, signal: np.ndarray) -> np.ndarray:
    noisy = signal + 0.3 * rng.normal(size=len(signal))
    if is_regressor(model):
        return noisy * 10.0 ** rng.uniform(-3, 3)
    if hasattr(model, "predict_survival_function"):
        times = np.round(-noisy, int(rng.integers(0, 4)))
        events = rng.random(len(times)) < rng.uniform(0.3, 1.0)
        events[0] = True
        return survival_outcomes(events, times)
    n_classes = 3 if _many_classes(model) and rng.random() < 0.3 and len(signal) > 8 else 2
    share = rng.uniform(0.25, 0.75) if n_classes == 2 else None
    edges = [np.quantile(noisy, share)] if share else np.quantile(noisy, [1 / 3, 2 / 3])
    return np.digitize(noisy, edges)


def _draw_kind_of_bags(
    rng: np.random.Generator, bags: Bags, signal: np.ndarray, traits: list[str]
) -> tuple[Bags, np.ndarray]:
    kind = rng.random()
    if kind < 0.06:
        traits.append("large bags")
        signal = rng.normal(size=20)
        matrix = rng.normal(size=(3000, 4))
        offsets = np.arange(0, 3001, 150)
        matrix[offsets[:-1], 0] += 3 * signal
        return Bags(matrix, offsets), signal
    if kind < 0.16:
        traits.append("one positive bag in 51")
        signal = rng.normal(size=51)
        offsets = np.r_[0, np.cumsum(rng.integers(1, 5, size=51))]
        matrix = rng.normal(size=(offsets[-1], 3))
        matrix[offsets[:-1], 0] += 2 * signal
        return Bags(matrix, offsets), signal
    dense = not sparse.issparse(bags.instances)
    if dense and kind < 0.3 and np.abs(bags.instances).max() < 1e4:
        traits.append("float16")
        return Bags(bags.instances.astype(np.float16), bags.offsets), signal
    if dense and 0.3 <= kind < 0.42:
        traits.append("features of -1, 0 and 1")
        ranks = rng.integers(-1, 2, size=bags.instances.shape).astype(np.float64)
        ranks[bags.offsets[:-1], 0] = np.clip(np.rint(signal), -1, 1)
        return Bags(ranks, bags.offsets), signal
    if not dense and kind < 0.5:
        traits.append("stored values far from zero")
        far = sparse.csr_array(bags.instances, copy=True)
        far.data += 1e5
        return Bags(far, bags.offsets), signal
    return bags, signal


def _draw_kind_of_labels(
    rng: np.random.Generator,
    model: BaseEstimator,
    y: np.ndarray,
    signal: np.ndarray,
    traits: list[str],
) -> np.ndarray:
    if not is_classifier(model):
        return y
    if "one positive bag in 51" in traits or rng.random() < 0.06:
        traits.append("a class of one bag")
        y = (signal == signal.max()).astype(int)
    if rng.random() < 0.3:
        names = np.array(["cancer", "normal", "other"])
        if rng.random() < 0.5:
            names = names[[1, 0, 2]]
        traits.append(f"names of classes, {names[0]} first")
        y = names[y]
        if len(set(y)) == 2 and "pos_label" in model.get_params():
            model.set_params(pos_label=names[1])
    return y


def _draw_refusal(
    rng: np.random.Generator,
    model: BaseEstimator,
    bags: Bags,
    y: np.ndarray,
    traits: list[str],
) -> tuple[Bags, np.ndarray, str | None]:
    """Sometimes input that has to be refused, and a word of the message."""
    kind = rng.random()
    if kind < 0.03 and not model.__sklearn_tags__().input_tags.allow_nan:
        X = bags.instances.copy()
        values = X.data if sparse.issparse(X) else X.reshape(-1)
        if values.dtype.kind == "f" and len(values):
            values[rng.integers(len(values))] = np.nan
            traits.append("NaN")
            return bags.with_instances(X), y, "NaN"
    if 0.03 < kind < 0.06 and is_classifier(model):
        traits.append("one class")
        return bags, np.repeat(y[:1], len(y)), "class"
    return bags, y, None


def _many_classes(model: BaseEstimator) -> bool:
    tags = model.__sklearn_tags__().classifier_tags
    return tags is not None and tags.multi_class


# Values from which a parameter of that name is drawn, where an estimator has it.
_VALUES: dict[str, Sequence[Any]] = {
    "kernel": ("linear", "rbf"),
    "slack": ("bag", "instance"),
    "ties": ("breslow", "efron"),
    "pooling": ("max", "mean"),
    "loss": ("l1", "l2", "epsilon_insensitive"),
    "solver": ("auto", "dual"),
    "class_weight": (None, "balanced"),
    "random_state": (0,),
    "n_init": (1, 2),
    "n_estimators": (20,),
}


def _draw_settings(
    rng: np.random.Generator, Model: type[BaseEstimator], n_bags: int
) -> BaseEstimator:
    parameters = Model().get_params(deep=False)
    settings = {
        name: values[rng.integers(len(values))]
        for name, values in _VALUES.items()
        # A value that is of another kind than the default belongs to another parameter.
        if name in parameters and rng.random() < 0.6
    }
    if "C" in parameters and rng.random() < 0.6:
        settings["C"] = float(10.0 ** rng.uniform(-8, 8))
    if is_clusterer(Model()):
        settings["n_clusters"] = int(rng.integers(2, max(3, n_bags // 3)))
    try:
        return _checked(Model(**settings))
    except ValueError:
        return Model()


def _checked(model: BaseEstimator) -> BaseEstimator:
    if hasattr(model, "_parameter_constraints"):
        model._validate_params()
    return model


# -- judging ---------------------------------------------------------------------------------------


def judge(problem: Problem) -> tuple[bool, bool, int]:
    """Whether the fit converged, whether its objective was made again, and bounds compared.

    Raises
    ------
    Exception
        What the estimator raised, or an ``AssertionError`` that says what is wrong.
    """
    model, bags, y = problem.model, problem.bags, problem.y
    weights = {} if problem.sample_weight is None else {"sample_weight": problem.sample_weight}
    if problem.groups is not None:
        weights["groups"] = problem.groups
    if problem.refusal is not None:
        return _refused(problem, weights), False, 0
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(bags, y, **weights)
        before = predictions(model, bags)
        after = predictions(pickle.loads(pickle.dumps(model)), bags)
    for each in caught:
        lonely = "a class of one bag" in problem.traits and _NO_FOLDS in str(each.message)
        assert lonely or issubclass(each.category, _ALLOWED), (
            f"{each.category.__name__}: {each.message}"
        )
    for name, values in before.items():
        if values.dtype.kind == "f":
            assert np.isfinite(values).all(), f"{name} is not finite"
        assert np.array_equal(values, after[name]), f"{name} differs after pickling"
    assert np.isfinite(getattr(model, "objective_", 0.0)).all(), "objective_ is not finite"
    stated = stated_objective(model, bags, y, problem.sample_weight)
    if stated is not None:
        value, rounding = stated
        error = abs(model.objective_ - value)
        assert error <= 1e-6 * abs(value) + rounding, (
            f"objective_ is {model.objective_!r} and the stated problem has {value!r}"
        )
    compared, wrong = wrong_bounds(model, bags, y, problem.sample_weight)
    assert not wrong, "; ".join(wrong)
    return not caught, stated is not None, compared


def _refused(problem: Problem, weights: dict[str, np.ndarray]) -> bool:
    """Whether bad input is refused in a sentence that names it, before anything is fitted."""
    model = problem.model
    try:
        model.fit(problem.bags, problem.y, **weights)
    except ValueError as error:
        message = str(error)
    else:
        raise AssertionError(f"{problem.traits[-1]} was accepted")
    assert problem.refusal in message, f"the message does not name it: {message}"
    left = [name for name in vars(model) if name.endswith("_") and not name.startswith("_")]
    assert not left, f"a refused fit left {left}"
    return True


def predictions(model: BaseEstimator, bags: Bags) -> dict[str, np.ndarray]:
    """Everything that the model predicts of bags and of their instances."""
    names = ["predict"]
    if is_classifier(model):
        names += ["decision_function", "predict_proba", "instance_decision_function"]
    if is_regressor(model):
        names += ["predict_instances"]
    return {name: np.asarray(getattr(model, name)(bags)) for name in names if hasattr(model, name)}


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise ``TimeoutError`` after some seconds, when the library that runs then returns.

    Windows has no such signal, and no limit.
    """
    if not hasattr(signal, "SIGALRM"):
        yield
        return

    def stop(*_: Any) -> None:
        raise TimeoutError(f"it has not ended after {seconds:g} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def soak(
    seeds: Sequence[int],
    names: Sequence[str] = (),
    say: Callable[[str], None] = print,
    drawn: Callable[[int, Sequence[str]], Problem] = draw,
    limit: float = 120.0,
) -> Report:
    """Judge the problems of the seeds, each for at most ``limit`` seconds."""
    report = Report()
    for seed in seeds:
        problem = drawn(seed, names)
        name = type(problem.model).__name__
        report.fits[name] += 1
        try:
            with time_limit(limit):
                converged, _, _ = judge(problem)
        except Exception as error:
            report.failed[name] += 1
            report.failures.append(f"{problem}\n    {type(error).__name__}: {error}")
            say(report.failures[-1])
            say("    " + traceback.format_exc().strip().replace("\n", "\n    "))
        else:
            report.warned[name] += not converged
    return report


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.common.soak", description=__doc__)
    parser.add_argument("--problems", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0, help="seed of the first problem")
    parser.add_argument("--only", type=int, nargs="+", help="seeds of these problems alone")
    parser.add_argument("--estimators", nargs="+", default=(), help="names of estimators")
    parser.add_argument("--limit", type=float, default=120.0, help="seconds for each problem")
    args = parser.parse_args(arguments)
    seeds = args.only or range(args.seed, args.seed + args.problems)
    report = soak(seeds, args.estimators, limit=args.limit)
    print(report.table())
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())
