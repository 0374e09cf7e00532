"""Branch and bound on the disjunctions, with the node of the lowest bound first.

A node allows some points of each bag. One of its children allows only one point of a bag, which
makes the bag a constraint with a sign (with reductions), and the other one all other points.
"""

from __future__ import annotations

import heapq
import itertools
from dataclasses import dataclass, field

import numpy as np

from .column_generation import BoostingOptions, Budget, Incumbent, LearnerSet, Relaxed, relax
from .pools import LearnerPool
from .problem import DisjunctiveProblem


@dataclass(order=True)
class _Node:
    """A subproblem; nodes are ordered by their bounds."""

    lower_bound: float
    number: int
    members: list[np.ndarray] = field(compare=False)
    scores: np.ndarray = field(compare=False)
    learners: LearnerSet = field(compare=False)


def branch_and_bound(
    best: Incumbent,
    root: Relaxed,
    pool: LearnerPool,
    budget: Budget,
    options: BoostingOptions,
    history: list[tuple[float, float]],
) -> tuple[float, int, str]:
    """Close the gap of a disjunctive program whose relaxation has been solved.

    Returns
    -------
    lower_bound : float
        Lower bound of all open nodes, or the value of the incumbent.
    n_nodes : int
    stopped : str
    """
    problem, tol = best.problem, options.tol
    count = itertools.count()
    scores = root.relaxation.scores
    open_nodes = [_Node(root.lower_bound, next(count), problem.members, scores, root.learners)]
    n_nodes, stopped, closed = 1, "", np.inf
    while open_nodes:
        # Bounds are computed to a relative tolerance of tol.
        if open_nodes[0].lower_bound >= best.objective - 2.0 * tol * max(1.0, best.objective):
            break
        if budget.stops() or n_nodes >= options.max_nodes:
            stopped = budget.cut or "max_nodes"
            break
        node = heapq.heappop(open_nodes)
        bag, point = _choice(problem, node.members, node.scores)
        if bag < 0:
            # Every bag has one point and cannot be divided. The gap is due to an early stop of the
            # linear program.
            closed = min(closed, node.lower_bound)
            stopped = "n_estimators"
            continue
        members = node.members[bag]
        for allowed in (np.array([point]), members[members != point]):
            child = [allowed if k == bag else block for k, block in enumerate(node.members)]
            solved = relax(
                problem.restricted(child),
                pool,
                budget,
                options,
                start=node.learners,
                cutoff=best.objective,
                on_round=lambda found, _: best.offer(found.learners, found.H, found.alpha),
            )
            n_nodes += 1
            lower = max(node.lower_bound, solved.lower_bound)
            if lower < best.objective:
                scores = solved.relaxation.scores
                heapq.heappush(
                    open_nodes, _Node(lower, next(count), child, scores, solved.learners)
                )
        lowest = _lowest(open_nodes, closed, best.objective)
        history.append((best.objective, lowest))
        budget.report(
            best.objective,
            lower_bound=lowest,
            n_learners=len(node.learners[0]),
            n_nodes=n_nodes,
        )
    return _lowest(open_nodes, closed, best.objective), n_nodes, stopped


def _lowest(open_nodes: list[_Node], closed: float, objective: float) -> float:
    return min(open_nodes[0].lower_bound if open_nodes else np.inf, closed, objective)


def _choice(
    problem: DisjunctiveProblem, members: list[np.ndarray], scores: np.ndarray
) -> tuple[int, int]:
    """The bag with the largest loss and several points, and its highest point; -1 if none."""
    places = [k for k, block in enumerate(members) if len(block) > 1]
    if not places:
        return -1, -1
    short = [
        problem.member_costs[k] * max(0.0, 1.0 - float(scores[members[k]].max())) for k in places
    ]
    bag = places[int(np.argmax(short))]
    block = members[bag]
    return bag, int(block[int(np.argmax(scores[block]))])
