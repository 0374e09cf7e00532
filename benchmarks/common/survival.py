"""Bags like those of patients: the worst of their instances set the hazard, and many are censored.

A bag is a patient with a severity drawn uniformly between 0 and 1. Most of its instances come from
six tissues, with noise that all bags have in common and a stain of the bag. A share of them, at
least one, is moved away from its tissue, in proportion to the severity. The hazard of the patient
is constant in time and grows exponentially with the severity. The end of the observation is
exponential too, with the mean that censors the wanted share of the patients.

Test bags have times without censoring. No method but the true risk knows the severity.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq

from milearn import Bags
from milearn.survival import survival_outcomes

N_TISSUES, N_DIRECTIONS = 6, 4
COMMON, NOISE, STAIN = 0.7, 0.7, 0.3
# Length of the move at the highest severity, and logarithm of the hazard there.
MOVE, EFFECT = 6.0, 4.0
SIZE_SPREAD = 0.4


@dataclass(frozen=True)
class Cohort:
    """Numbers of a cohort.

    Attributes
    ----------
    n_bags, n_test : int
        Training bags and test bags.
    size : int
        Median number of instances of a bag.
    n_features : int
    share : float
        Share of deciding instances.
    censored : float
        Expected share of censored training bags.
    """

    n_bags: int
    n_test: int
    size: int
    n_features: int
    share: float
    censored: float


@dataclass(frozen=True)
class Patients:
    """Training bags and test bags with their outcomes, and the severity of the test bags."""

    train: Bags
    y: np.ndarray
    test: Bags
    y_test: np.ndarray
    risk: np.ndarray


def draw_patients(cohort: Cohort, seed: int) -> Patients:
    """Draw the bags of a cohort."""
    rng = np.random.default_rng(seed)
    d = cohort.n_features
    tissues = rng.normal(size=(N_TISSUES, d))
    directions = rng.normal(scale=COMMON, size=(N_DIRECTIONS, d))
    move = rng.normal(size=d)
    move *= MOVE / np.linalg.norm(move)
    parts = []
    for n_bags in (cohort.n_bags, cohort.n_test):
        severity = rng.uniform(size=n_bags)
        blocks = [_block(cohort, tissues, directions, each * move, rng) for each in severity]
        parts.append(
            (Bags.from_list(blocks), severity, rng.exponential(np.exp(-EFFECT * severity)))
        )
    (train, severity, times), (test, risk, test_times) = parts
    ends = rng.exponential(_mean_end(cohort.censored), size=cohort.n_bags)
    return Patients(
        train,
        survival_outcomes(times <= ends, np.minimum(times, ends)),
        test,
        survival_outcomes(np.ones(cohort.n_test, dtype=bool), test_times),
        risk,
    )


def _block(
    cohort: Cohort,
    tissues: np.ndarray,
    directions: np.ndarray,
    move: np.ndarray,
    rng: np.random.Generator,
) -> np.ndarray:
    size = max(2, round(rng.lognormal(0, SIZE_SPREAD) * cohort.size))
    rows = tissues[rng.choice(N_TISSUES, size, p=rng.dirichlet(np.ones(N_TISSUES)))]
    rows += rng.normal(size=(size, N_DIRECTIONS)) @ directions
    rows += rng.normal(scale=NOISE, size=rows.shape)
    rows += rng.normal(scale=STAIN, size=cohort.n_features)
    moved = rng.choice(size, max(1, round(cohort.share * size)), replace=False)
    rows[moved] += move
    return rows.astype(np.float32)


def _mean_end(censored: float) -> float:
    """Mean end of the observation with which this share of the patients is censored."""
    severity = (np.arange(1000) + 0.5) / 1000
    hazard = np.exp(EFFECT * severity)

    def excess(log_mean: float) -> float:
        rate = np.exp(-log_mean)
        return float(np.mean(rate / (rate + hazard))) - censored

    return float(np.exp(brentq(excess, -20.0, 20.0)))
