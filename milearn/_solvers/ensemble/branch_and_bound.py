"""Branch and bound on the disjunctions: the node with the lowest bound first.

A node allows some points of each bag. Its two children allow one point of a bag alone, which makes
the bag an ordinary constraint (and a partner of every reduction), or all others.
"""

from __future__ import annotations

import heapq
import itertools
from typing import Any

import numpy as np

from .column_generation import (
    Incumbent,
    Limits,
    Relaxed,
    relax,
)
from .relaxation import Relaxation

__all__ = ["branch_and_bound"]


def branch_and_bound(
    best: Incumbent,
    root: Relaxed,
    pool: Any,
    limits: Limits,
    *,
    max_nodes: int,
    history: list[float],
    bounds: list[float],
    tol: float,
    max_learners: int,
    max_rows: int,
) -> tuple[float, int, str]:
    """Close the gap of a disjunctive program whose relaxation was solved.

    Returns
    -------
    lower_bound : float
        Of all nodes that are left open, or the incumbent's value.
    n_nodes : int
    stopped : str
    """
    problem = best.problem
    options: dict[str, Any] = {"tol": tol, "max_learners": max_learners, "max_rows": max_rows}
    count = itertools.count()
    first = (problem.members, root.relaxation.scores, _seed(root.relaxation))
    open_nodes: list[Any] = [(root.lower_bound, next(count), first)]
    n_nodes, stopped, closed = 1, "", np.inf
    while open_nodes:
        bound = open_nodes[0][0]
        # The bound of a node falls short of its value by tol, relatively, where both meet.
        if bound >= best.objective - 2.0 * tol * max(1.0, best.objective):
            break
        if limits.over() or n_nodes >= max_nodes:
            stopped = limits.reason or "max_nodes"
            break
        _, _, (members, scores, seed) = heapq.heappop(open_nodes)
        bag, point = _choice(problem, members, scores)
        if bag < 0:
            # Every bag has one point and nothing is left to divide: a gap here is what an early
            # stop of its linear program left.
            closed = min(closed, bound)
            stopped = "max_learners"
            continue
        for inside in (np.array([point]), members[bag][members[bag] != point]):
            child = [inside if k == bag else block for k, block in enumerate(members)]
            solved = relax(
                problem.restricted(child),
                pool,
                limits,
                start=seed,
                cutoff=best.objective,
                on_round=lambda relaxation, _: best.offer(relaxation),
                **options,
            )
            n_nodes += 1
            lower = max(bound, solved.lower_bound)
            if lower < best.objective:
                relaxation = solved.relaxation
                node = (child, relaxation.scores, _seed(relaxation))
                heapq.heappush(open_nodes, (lower, next(count), node))
        lowest = _lowest(open_nodes, closed, best.objective)
        history.append(best.objective)
        bounds.append(lowest)
        limits.tell(
            objective=best.objective, lower_bound=lowest, n_learners=len(seed[0]), n_nodes=n_nodes
        )
    return _lowest(open_nodes, closed, best.objective), n_nodes, stopped


def _lowest(open_nodes: list[Any], closed: float, objective: float) -> float:
    return min(open_nodes[0][0] if open_nodes else np.inf, closed, objective)


def _seed(relaxation: Relaxation) -> tuple[list[Any], np.ndarray]:
    return relaxation.learners, relaxation.H


def _choice(problem: Any, members: list[np.ndarray], scores: np.ndarray) -> tuple[int, int]:
    """The costliest bag that no point satisfies yet, and its highest point; -1 where none is."""
    places = [k for k, block in enumerate(members) if len(block) > 1]
    if not places:
        return -1, -1
    short = [
        problem.member_costs[k] * max(0.0, 1.0 - float(scores[members[k]].max())) for k in places
    ]
    bag = places[int(np.argmax(short))]
    block = members[bag]
    return bag, int(block[int(np.argmax(scores[block]))])
