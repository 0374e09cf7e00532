"""The search over several estimators: one pipeline, one list of grids, shown in the guide."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.metrics import accuracy_score, roc_auc_score
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import Normalizer, StandardScaler

from milearn import Bags
from milearn.preprocessing import BagStatistics, InstanceTransformer
from milearn.svm import MISVC, CoupledMISVC

__all__ = ["search_grid", "search_pipeline", "search_score"]

STATISTICS = ("min", "max")


def search_pipeline(text: bool = False) -> Pipeline:
    """Instances scaled, bags as they are, one SVM; the grids replace the last steps."""
    scaler = Normalizer() if text else StandardScaler()
    return Pipeline(
        [
            ("scale", InstanceTransformer(scaler)),
            ("rows", "passthrough"),
            ("scale_rows", "passthrough"),
            ("estimator", CoupledMISVC()),
        ]
    )


def search_score(model: Any, X: Bags, y: np.ndarray) -> float:
    """Mean of accuracy and AUC: the one alone ties and is noisy, the other knows no threshold."""
    auc = roc_auc_score(y, model.decision_function(X))
    return float(accuracy_score(y, model.predict(X)) + auc) / 2


def search_grid(
    n_features: int,
    text: bool = False,
    costs: tuple[float, ...] = (10.0, 100.0),
    gammas: tuple[float, ...] = (0.1, 0.3, 1.0, 3.0),
) -> list[dict[str, list[Any]]]:
    """A kernel between bags, a row of statistics per bag, and MI-SVM."""
    # Of texts of unit length distances are about 1, of standardised features about n_features.
    unit = 1.0 if text else 1.0 / n_features
    whole = {
        "estimator": [CoupledMISVC(coupling=0.0)],
        "estimator__C": list(costs),
        "estimator__gamma": [gamma * unit for gamma in gammas],
    }
    rows = {
        "rows": [BagStatistics(STATISTICS, sparse_output=text)],
        "scale_rows": [Normalizer() if text else StandardScaler()],
        "estimator": [
            CoupledMISVC(coupling=0.0),
            CoupledMISVC(coupling=0.0, kernel="laplacian"),
        ],
        "estimator__C": list(costs),
        "estimator__gamma": [
            gamma * (unit if text else unit / len(STATISTICS)) for gamma in gammas
        ],
    }
    single = {
        "estimator": [MISVC()],
        "estimator__C": [costs[0]],
        "estimator__gamma": [gamma * unit for gamma in gammas if 0.3 <= gamma <= 1.0],
    }
    return [whole, rows, single]
