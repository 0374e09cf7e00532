"""The pictures of README, landing page and "Getting started".

``python docs/picture.py`` writes witness.png and start-*.png in docs/_static.
"""

from __future__ import annotations

import doctest
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from milearn import MISVC
from milearn.datasets import load_digit_bags
from milearn.inspection import InstanceScoresDisplay, WitnessDisplay
from milearn.preprocessing import InstanceTransformer

DOCS = Path(__file__).parent
TARGET = DOCS / "_static"


def draw() -> None:
    X, y = load_digit_bags(n_bags=200, return_X_y=True)
    model = make_pipeline(InstanceTransformer(StandardScaler()), MISVC()).fit(X[:120], y[:120])
    test = np.arange(120, 200)
    positive = test[y[test] == 1]
    bag = positive[np.flatnonzero(X.sizes[positive] == 8)[0]]
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(10.0, 3.6), width_ratios=(1.25, 1.0), layout="constrained"
    )
    display = InstanceScoresDisplay.from_estimator(
        model, X, bag=bag, instance_shape=(8, 8), ax=left
    )
    left.get_legend().remove()
    left.set_title("one bag: the highest instance decides", fontsize=11)
    left.set_ylabel("score of the digit")
    left.set_xlabel("", labelpad=display.ax_.xaxis.labelpad)
    order = positive[np.argsort(-model.decision_function(X[positive]))][:24]
    WitnessDisplay.from_estimator(model, X, bags=order, instance_shape=(8, 8), ax=right)
    right.set_title("deciding instances of 24 new bags", fontsize=11)
    figure.savefig(TARGET / "witness.png", dpi=110, metadata={"Software": None})


def draw_start() -> None:
    """What the lines of "Getting started" draw, as they stand there."""
    names: dict[str, Any] = {}
    text = (DOCS / "start.rst").read_text(encoding="utf-8")
    for example in doctest.DocTestParser().get_examples(text):
        if not example.options.get(doctest.SKIP):
            exec(example.source, names)
    for name, display in (("scores", names["one"]), ("witnesses", names["many"])):
        display.figure_.savefig(TARGET / f"start-{name}.png", dpi=100, metadata={"Software": None})


if __name__ == "__main__":
    draw()
    draw_start()
