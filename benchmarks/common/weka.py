"""WEKA's multi-instance classifiers, over an ARFF file that our writer wrote.

Where WEKA, Java and its compiler are there (Debian: ``weka``, ``default-jdk-headless``), each is
timed inside one JVM by ``WekaTimer.java``: neither the start of the JVM nor
the reading of the file counts.
"""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from milearn import Bags
from milearn.datasets import save_bags

__all__ = ["WEKA", "Repeats", "WekaClassifier", "find_jar", "installed", "measure", "missing"]

_CLASSES = "weka.classifiers.mi."
_TIMER = Path(__file__).resolve().parent / "WekaTimer.java"
# The attributes of a bag are its name, its instances and its class.
_PLACE_OF_CLASS = 2


@dataclass(frozen=True)
class WekaClassifier:
    """One of WEKA's classifiers.

    Attributes
    ----------
    title : str
    problem : str or None
        As for :class:`benchmarks.common.peers.Peer`.
    kernels : tuple of str
        The tables that it stands in.
    options : callable
        ``options(kernel, gamma, C)``; a number with ``@`` behind it is multiplied by the number
        of bags over that of instances.
    skips : bool
        Whether its kernels leave out the feature that stands where the class stands among the
        attributes of a bag (seen in 3.6.14): a column of zeros then takes that place.
    varying : bool
        Whether it is given the features that vary over the instances alone: it divides by the
        range, and a constant feature turns all predictions into one class (seen in 3.6.14).
    """

    title: str
    problem: str | None
    kernels: tuple[str, ...]
    options: Callable[[str, float, float], list[str]]
    skips: bool = False
    varying: bool = False


def _kernel(prefix: str, names: tuple[str, str]) -> Callable[[str, float], str]:
    def option(kernel: str, gamma: float) -> str:
        if kernel == "linear":
            return f"{prefix}{names[0]} -E 1.0"
        return f"{prefix}{names[1]} -G {gamma!r}"

    return option


_on_bags = _kernel(f"{_CLASSES}supportVector.", ("MIPolyKernel", "MIRBFKernel"))
_on_instances = _kernel("weka.classifiers.functions.supportVector.", ("PolyKernel", "RBFKernel"))

# -N 2: the instances are standardised already.
WEKA: dict[str, WekaClassifier] = {
    # With its own tolerance of 1e-3 it stops above the optimum where the bags can be separated.
    # Every bag weighs as many as a bag has instances in the mean, by which C is multiplied.
    "MISMO": WekaClassifier(
        "weka MISMO",
        "setkernel-sum",
        ("linear", "rbf"),
        lambda kernel, gamma, C: [
            "-C",
            f"{C!r}@",
            "-N",
            "2",
            "-L",
            "1e-4",
            "-K",
            _on_bags(kernel, gamma),
        ],
        skips=True,
    ),
    "MISVM": WekaClassifier(
        "weka MISVM (mi-SVM)",
        "instancemisvc",
        ("linear", "rbf"),
        lambda kernel, gamma, C: ["-C", repr(C), "-N", "2", "-K", _on_instances(kernel, gamma)],
    ),
    "MILR": WekaClassifier("weka MILR", None, ("none",), lambda kernel, gamma, C: []),
    "CitationKNN": WekaClassifier(
        "weka CitationKNN", None, ("none",), lambda kernel, gamma, C: [], varying=True
    ),
    "MIEMDD": WekaClassifier("weka MIEMDD", None, ("none",), lambda kernel, gamma, C: ["-N", "2"]),
    "MIDD": WekaClassifier("weka MIDD", None, ("none",), lambda kernel, gamma, C: ["-N", "2"]),
}


class Repeats(NamedTuple):
    """How often fits and predictions are repeated.

    Attributes
    ----------
    enough : float
        Seconds after which no fit (and no prediction) is repeated.
    most : int
        Maximum number of fits, and of predictions.
    longest : float
        Seconds of a fit above which the accuracies are left out.
    """

    enough: float
    most: int
    longest: float


def find_jar() -> Path | None:
    """WEKA's jar: the environment variable ``WEKA_JAR``, else where Debian puts it."""
    path = Path(os.environ.get("WEKA_JAR") or "/usr/share/java/weka.jar")
    return path if path.is_file() else None


def missing() -> str | None:
    """Why WEKA is there and cannot be timed, in words; None otherwise."""
    if find_jar() is None or (shutil.which("java") and shutil.which("javac")):
        return None
    return "WEKA is here but not Java's compiler (Debian: default-jdk-headless): no rows of WEKA."


def installed() -> dict[str, WekaClassifier]:
    """WEKA's classifiers where they can be timed."""
    there = find_jar() is not None and shutil.which("java") and shutil.which("javac")
    return {f"weka-{name}": item for name, item in WEKA.items()} if there else {}


def measure(
    name: str,
    task: dict[str, Any],
    bags: Bags,
    y: np.ndarray,
    *,
    gamma: float,
    repeats: Repeats,
    split: tuple[Bags, np.ndarray] | None = None,
    timeout: float | None = None,
) -> tuple[dict[str, Any], tuple[float, np.ndarray] | None]:
    """Times and memory of a classifier, and |w|^2 and scores where it is a support vector machine.

    Parameters
    ----------
    name : str
        ``"weka-MISMO"``.
    task : dict
        With ``kernel`` and ``C``.
    bags : Bags
    y : ndarray of shape (n_bags,)
    gamma : float
    repeats : Repeats
    split : (Bags, ndarray), default=None
        All bags scaled as the training bags among them ask for, and the numbers of these: for
        accuracies.
    timeout : float, default=None
        Seconds after which the JVM is ended, by an exception.
    """
    jar = find_jar()
    assert jar is not None
    classifier = WEKA[name.removeprefix("weka-")]
    options = classifier.options(task["kernel"], gamma, task["C"])

    varies = np.arange(bags.shape[1])
    if classifier.varying:
        varies = np.flatnonzero(np.ptp(bags.instances, axis=0) > 0)

    def placed(bags: Bags) -> Bags:
        bags = bags if len(varies) == bags.shape[1] else bags[:, varies]
        if not classifier.skips:
            return bags
        return bags.with_instances(np.insert(bags.instances, _PLACE_OF_CLASS, 0.0, axis=1))

    with tempfile.TemporaryDirectory(prefix="milearn-weka-") as folder:
        path = Path(folder) / "bags.arff"
        save_bags(path, placed(bags), y)
        split_file = "-"
        if split is not None:
            split_file = str(Path(folder) / "split.txt")
            save_bags(Path(folder) / "split.arff", placed(split[0]), y)
            numbers = " ".join(map(str, split[1].tolist()))
            Path(split_file).write_text(f"{Path(folder) / 'split.arff'}\n{numbers}\n")
        printed = _run(
            [
                *("java", "-XX:+UseSerialGC", "-Xmx3g", "-Djava.awt.headless=true"),
                *("-cp", os.pathsep.join([_compiled(jar), str(jar)]), _TIMER.stem),
                *(*map(str, repeats), str(path), split_file),
                _CLASSES + name.removeprefix("weka-"),
                *options,
            ],
            timeout,
        )
    return _read(printed)


@cache
def _compiled(jar: Path) -> str:
    """A folder with the compiled timer, which is removed when this process ends."""
    folder = tempfile.mkdtemp(prefix="milearn-weka-timer-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    _run(["javac", "-cp", str(jar), "-d", folder, str(_TIMER)])
    return folder


def _run(command: list[str], timeout: float | None = None) -> str:
    """What a command of Java prints; its first line of errors in an exception if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        raise RuntimeError(
            lines[0] if lines else f"{command[0]} ended with status {done.returncode}"
        )
    return done.stdout


def _read(text: str) -> tuple[dict[str, Any], tuple[float, np.ndarray] | None]:
    values = {}
    for line in text.splitlines():
        name, *numbers = line.split()
        values[name] = np.array(numbers, dtype=float)
    result: dict[str, Any] = {
        "cpu_seconds": float(values["fit"].min()),
        "wall_seconds": float(values["fit_wall"].min()),
        "fits": len(values["fit"]),
        "peak_mb": max(0.0, float(values["fit_memory"][0])) / 2**20,
        "predict_cpu_seconds": float(values["predict"].min()),
        "predict_wall_seconds": float(values["predict_wall"].min()),
        "predict_peak_mb": max(0.0, float(values["predict_memory"][0])) / 2**20,
    }
    for side in ("train_accuracy", "test_accuracy"):
        if side in values:
            result[side] = float(values[side][0])
    if "scores" not in values:
        return result, None
    return result, (float(values["square_norm"][0]), values["scores"])
