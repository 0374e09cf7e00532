"""Problem (3) of Guo (2009) by enumeration: every choice of one instance a positive bag."""

from __future__ import annotations

import itertools

import numpy as np
import qpsolvers

from milearn import Bags


def random_bags(seed, *, n_positive=3, n_negative=4, d=3, most=3, shift=0.0):
    """Few small bags, positive ones first; ``shift`` moves one instance of each positive bag."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, most + 1, size=n_positive + n_negative)
    offsets = np.r_[0, np.cumsum(sizes)]
    instances = rng.normal(size=(offsets[-1], d))
    instances[offsets[:n_positive], 0] += shift
    y = (np.arange(n_positive + n_negative) < n_positive).astype(int)
    return Bags(instances, offsets), y


def value_of(gram, rows, signs, costs):
    """Value of the support vector machine on some rows: the optimum of its dual."""
    signed = gram[np.ix_(rows, rows)] * np.outer(signs, signs)
    n = len(rows)
    dual = qpsolvers.solve_qp(
        signed,
        -np.ones(n),
        A=signs[None],
        b=np.zeros(1),
        lb=np.zeros(n),
        ub=costs,
        solver="piqp",
        **dict.fromkeys(("eps_abs", "eps_rel"), 1e-9),
    )
    return dual.sum() - 0.5 * dual @ signed @ dual


def selections(bags, y):
    """Every choice of one row from each positive bag."""
    spans = [range(a, b) for a, b in itertools.pairwise(bags.offsets)]
    return itertools.product(*(span for span, label in zip(spans, y, strict=True) if label))


def enumerated(gram, bags, y, C, weights=None):
    """The optimum of (3)."""
    weights = np.ones(len(bags)) if weights is None else weights
    negative = np.flatnonzero(y[bags.bag_index] == 0)
    costs = C * np.append(weights[y == 1], weights[bags.bag_index[negative]])
    signs = np.repeat([1.0, -1.0], [int(y.sum()), len(negative)])
    return min(
        value_of(gram, np.append(choice, negative), signs, costs) for choice in selections(bags, y)
    )
