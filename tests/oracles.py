"""Oracles of fits: losses, convex steps and enumerations, without code of the package."""

from __future__ import annotations

import itertools

import cvxpy as cp
import numpy as np
import qpsolvers
from scipy.special import logsumexp

# -- parts -----------------------------------------------------------------------------------------


def blocks_of(values, offsets):
    """The values of each bag."""
    return np.split(values, offsets[1:-1])


def highest_of(values, offsets):
    """Highest value of each range, as one expression: cvxpy takes a millisecond for each."""
    first, last = np.asarray(offsets)[:-1, None], np.asarray(offsets)[1:, None] - 1
    longest = int((last - first).max()) + 1
    # The last value of a range stands in for those that it has less than the longest one.
    rows = np.minimum(first + np.arange(longest), last)
    return cp.max(cp.reshape(values[rows.ravel()], rows.shape, order="C"), axis=1)


def selections(bags, y):
    """Every choice of one row from each positive bag."""
    spans = [range(a, b) for a, b in itertools.pairwise(bags.offsets)]
    return itertools.product(*(span for span, label in zip(spans, y, strict=True) if label))


# -- the hard maximum ------------------------------------------------------------------------------


def maximum_loss(scores, offsets, positive, costs, slack):
    """Hinge losses of bags that score as their highest instance, times the costs of the bags.

    With ``slack="instance"`` each instance of a negative bag has a loss of its own.
    """
    total = 0.0
    for block, label, cost in zip(blocks_of(scores, offsets), positive, costs, strict=True):
        if label:
            total += cost * max(0.0, 1 - block.max())
        elif slack == "bag":
            total += cost * max(0.0, 1 + block.max())
        else:
            total += cost * np.maximum(0.0, 1 + block).sum()
    return total


def maximum_steps(bags, positive, costs, slack, choices):
    """Optima of the linear problem with given witnesses of the positive bags, for each choice."""
    w, b = cp.Variable(bags.shape[1]), cp.Variable()
    # A parameter: cvxpy takes ten times as long to read a problem as to solve it.
    witnesses = cp.Parameter((int(np.sum(positive)), bags.shape[1]))
    cost = 0.5 * cp.sum_squares(w)
    cost += costs[positive] @ cp.pos(1 - witnesses @ w - b)
    negative = np.where(positive, 0.0, costs)
    hinges = cp.pos(1 + bags.instances @ w + b)
    if slack == "bag":
        cost += negative @ highest_of(hinges, bags.offsets)
    else:
        cost += negative[bags.bag_index] @ hinges
    stated = cp.Problem(cp.Minimize(cost))
    for rows in choices:
        witnesses.value = bags.instances[list(rows)]
        yield stated.solve(solver=cp.CLARABEL)


def maximum_step(bags, positive, costs, slack, witnesses):
    """Optimum of the linear problem with given witnesses of the positive bags."""
    return next(maximum_steps(bags, positive, costs, slack, [witnesses]))


def maximum_optimum(bags, y, C, slack):
    """The least value over all choices of witnesses, each a convex program."""
    costs = np.full(len(bags), float(C))
    return min(maximum_steps(bags, y == 1, costs, slack, selections(bags, y)))


# -- one instance of each positive bag -----------------------------------------------------------


def selection_value(gram, rows, signs, costs):
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


def selection_optimum(gram, bags, y, C, weights=None):
    """Problem (3) of Guo (2009): the best choice of one instance of each positive bag."""
    weights = np.ones(len(bags)) if weights is None else weights
    negative = np.flatnonzero(y[bags.bag_index] == 0)
    costs = C * np.append(weights[y == 1], weights[bags.bag_index[negative]])
    signs = np.repeat([1.0, -1.0], [int(y.sum()), len(negative)])
    return min(
        selection_value(gram, np.append(choice, negative), signs, costs)
        for choice in selections(bags, y)
    )


# -- noisy-or --------------------------------------------------------------------------------------


def noisy_or_loss(blocks, positive, costs):
    """Negative log-likelihood of bags with at least one positive instance, in a loop.

    ``blocks`` holds the probabilities of the instances of each bag.
    """
    total = 0.0
    for block, label, cost in zip(blocks, positive, costs, strict=True):
        none = 1.0
        for probability in block:
            none *= 1.0 - probability
        total -= cost * np.log(1.0 - none if label else none)
    return total


# -- proportional hazards --------------------------------------------------------------------------


def risk_sums(events, times, weights, ties):
    """Weight and coefficients of each sum of a partial likelihood, in a loop over event times."""
    for time in np.unique(times[events & (weights > 0)]):
        tied, at_risk = events & (times == time) & (weights > 0), times >= time
        total = weights[tied].sum()
        if ties == "breslow":
            yield total, weights * at_risk
            continue
        number = 0
        while number < total - 1e-12:
            coefs = weights * at_risk * np.where(tied, 1.0 - number / total, 1.0)
            yield min(1.0, total - number), coefs
            number += 1


def partial_likelihood(risks, events, times, weights, ties):
    """Negative logarithm of Cox's partial likelihood."""
    total = -float(weights[events] @ risks[events])
    for weight, coefs in risk_sums(events, times, weights, ties):
        there = np.flatnonzero(coefs)
        total += weight * logsumexp(risks[there], b=coefs[there])
    return total


def cox_program(bags, outcomes, C):
    """Solves the convex problem with given witnesses of the bags: its optimum, and where.

    ``outcomes`` has the events, times and weights of the bags, and the treatment of ties.
    """
    events, times, weights, ties = outcomes
    w, held = cp.Variable(bags.shape[1]), cp.Parameter(bags.shape[1])
    scores = highest_of(bags.instances @ w, bags.offsets)
    cost = 0.5 * cp.sum_squares(w) - C * (held @ w)
    for weight, coefs in risk_sums(events, times, weights, ties):
        there = np.flatnonzero(coefs)
        cost += C * weight * cp.log_sum_exp(scores[there] + np.log(coefs[there]))
    program = cp.Problem(cp.Minimize(cost))

    def solve(witnesses):
        held.value = (weights * events) @ bags.instances[list(witnesses)]
        program.solve(solver=cp.CLARABEL)
        return program.value, w.value

    return solve


def cox_step(bags, outcomes, C, witnesses):
    """Optimum with given witnesses, and where it is attained."""
    return cox_program(bags, outcomes, C)(witnesses)


def cox_optimum(bags, outcomes, C):
    """The least value over all choices of witnesses of bags with events."""
    events, solve = outcomes[0], cox_program(bags, outcomes, C)
    witnesses, found = bags.offsets[:-1].copy(), []
    for chosen in selections(bags, events):
        witnesses[events] = chosen
        found.append(solve(witnesses)[0])
    return min(found)
