r"""Deterministic annealing of the starts of MI-SVM and mi-SVM (Gehler & Chapelle 2007).

The choice of an instance is replaced by a distribution whose entropy H is rewarded at a temperature
T. For MI-SVM the instances of a positive bag have weights p_ij that sum to one,

    min_{w,b,p}  1/2 |w|^2 + sum_{y_i>0} c_i (sum_j p_ij [1 - f(x_ij)]_+ - T H(p_i))
                 + (negative bags),

and for mi-SVM every instance of a positive bag has a probability q_ij of being positive; the
expected number of positive instances of a bag is at least one,

    min_{w,b,q}  1/2 |w|^2 + sum_{y_i>0} c_i sum_j (q_ij [1 - f(x_ij)]_+
                 + (1 - q_ij) [1 + f(x_ij)]_+ - T H(q_ij)) + (negative bags)
    s.t.         sum_j q_ij >= 1  for y_i > 0 .

For given distributions the problem is a weighted support vector machine. For given f, p_ij is
proportional to exp(-[1 - f(x_ij)]_+ / T), and q_ij is the logistic function of the difference of
the two losses plus a multiplier of the bag, divided by T. Both steps lower the objective. At the
first temperature all instances have nearly the same weight; at the last, one is chosen.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from ...._bags.segments import gather_rows, segment_index, segment_max
from ...common.gram import Gram
from ..problem import BinaryProblem
from .dual import WitnessLayout, witness_rule
from .grouped_hinge import Patterns, SVMSolution, solve_grouped_svm
from .labels_dual import best_labels

# In units of the hinge loss: 1 on the boundary, 2 on the margin of the other class.
TEMPERATURES = tuple(4.0 * 0.5**k for k in range(8))
_ROUNDS = 4
# Change of a distribution at which to lower the temperature.
_CONVERGED = 1e-2
# Smallest weight, because weights of patterns have to be positive.
_SMALLEST = 1e-6
_TOL = 1e-4
_HALVINGS = 60


def annealed_witnesses(problem: BinaryProblem, slack: str) -> np.ndarray:
    """Row of the witness of each positive bag at the lowest temperature.

    Parameters
    ----------
    problem : BinaryProblem
    slack : {"bag", "instance"}
        Whether a negative bag or each of its instances has a slack.

    Returns
    -------
    ndarray of shape (n_positive_bags,)
    """
    layout = WitnessLayout(problem, slack)
    rows, offsets = layout.positive_rows, layout.positive_offsets
    bag = segment_index(offsets)
    costs = problem.weights[problem.positive][bag]
    n = len(problem.positive)
    rest = layout.group_offsets[n:] - n
    p = 1.0 / np.diff(offsets)[bag]
    patterns = Patterns(
        np.concatenate([rows, layout.negative_rows]),
        None,
        np.concatenate([np.arange(len(rows)), len(rows) + rest]),
        np.concatenate([np.ones(len(rows)), layout.group_signs[n:]]),
        np.empty(0),
    )
    solution = None
    for temperature in TEMPERATURES:
        for _ in range(_ROUNDS):
            patterns.weights = np.concatenate(
                [costs * np.maximum(p, _SMALLEST), layout.group_weights[n:]]
            )
            solution = _solved(problem.gram, patterns, solution)
            losses = np.maximum(0.0, 1.0 - solution.scores[rows] - solution.intercept)
            last, p = p, _gibbs(-losses / temperature, offsets)
            if np.abs(p - last).max() <= _CONVERGED:
                break
    assert solution is not None
    return witness_rule(problem).of(solution.scores)


def annealed_labels(problem: BinaryProblem) -> np.ndarray:
    """Labels of all instances at the lowest temperature, +1.0 or -1.0.

    Parameters
    ----------
    problem : BinaryProblem

    Returns
    -------
    ndarray of shape (n_instances,)
    """
    rows, offsets = gather_rows(problem.offsets, problem.positive)
    others = gather_rows(problem.offsets, problem.negative)[0]
    costs = problem.instance_weights
    q, n = np.ones(len(rows)), len(rows)
    chosen = np.concatenate([rows, rows, others])
    patterns = Patterns(
        chosen,
        None,
        np.arange(len(chosen) + 1),
        np.repeat([1.0, -1.0], [n, n + len(others)]),
        np.empty(0),
    )
    solution = None
    for temperature in TEMPERATURES:
        for _ in range(_ROUNDS):
            sides = np.maximum(np.concatenate([q, 1.0 - q]), _SMALLEST)
            patterns.weights = costs[chosen] * np.concatenate([sides, np.ones(len(others))])
            solution = _solved(problem.gram, patterns, solution)
            f = solution.scores[rows] + solution.intercept
            gains = np.maximum(0.0, 1.0 + f) - np.maximum(0.0, 1.0 - f)
            last, q = q, _probabilities(gains / temperature, offsets)
            if np.abs(q - last).max() <= _CONVERGED:
                break
    assert solution is not None
    scores = solution.scores + solution.intercept
    witnesses = witness_rule(problem).of(solution.scores)
    return best_labels(scores, problem.offsets, problem.signs, witnesses)


def _solved(gram: Gram, patterns: Patterns, last: SVMSolution | None) -> SVMSolution:
    start = None if last is None else last.working
    return solve_grouped_svm(gram, patterns, tol=_TOL, start=start, sharp=False)


def _gibbs(values: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Softmax in each segment."""
    bag = segment_index(offsets)
    weights = np.exp(values - segment_max(values, offsets)[bag])
    return np.asarray(weights / np.add.reduceat(weights, offsets[:-1])[bag])


def _probabilities(values: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Logistic function of the values, shifted in each segment whose sum is below one."""
    bag = segment_index(offsets)
    # The largest shift gives the highest instance a probability of one up to rounding.
    low, high = np.zeros(len(offsets) - 1), np.maximum(0.0, 40.0 - segment_max(values, offsets))
    short = np.add.reduceat(expit(values), offsets[:-1]) < 1.0
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        enough = np.add.reduceat(expit(values + middle[bag]), offsets[:-1]) >= 1.0
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return np.asarray(expit(values + np.where(short, high, 0.0)[bag]))
