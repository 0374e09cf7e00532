"""MI-SVM in the primal, by a handful of passes over the instances.

The problem is that of :mod:`.mi_svm` for a linear kernel, J(w, b). A convex step (witnesses of the
positive bags fixed) is solved over a working set of rows: the witnesses, and of the negative bags
the rows near or beyond the margin; with one slack per instance those far beyond it pay C each
whatever happens nearby and are summed up in one vector. A pass scores all rows. It gives

* the value of the step over all rows, whose distance from the dual value of the working set is the
  gap of the step as stated: rows that were missing count in it,
* the objective J itself, the next witnesses, and the next working set.

So a pass ends one convex step and begins the next. Witnesses move only where J falls.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from ..._bags.segments import gather_rows, segment_argmax, segment_max
from ..common.cccp import CCCPSolution
from ..common.options import SolverOptions
from ..common.passes import ArraySource, Block, PassSource
from .group_newton import GroupProblem, GroupSolution, solve_groups

__all__ = ["PrimalResult", "solve_mi_svm_primal"]

# Rows that score at least this much below what counts belong to the working set.
_BAND = 0.3
# A start is looked for on as many instances.
_SAMPLE = 5_000
_MAX_PASSES = 200


@dataclass(kw_only=True)
class PrimalResult(CCCPSolution):
    """A local minimum.

    Attributes
    ----------
    w : ndarray of shape (n_features,)
    intercept : float
    n_passes : int
        Passes over all instances.
    """

    w: np.ndarray
    intercept: float
    n_passes: int


@dataclass(frozen=True)
class _Bags:
    """Labels of the bags and the price of slacks."""

    signs: np.ndarray
    weights: np.ndarray
    by_instance: bool


@dataclass
class _Reply:
    """What a pass found, of a block or of all."""

    top: np.ndarray
    witnesses: np.ndarray
    vectors: Any
    rows: Any
    numbers: np.ndarray
    groups: np.ndarray
    far: np.ndarray
    far_cost: float
    quiet: np.ndarray
    quiet_cost: float
    negative_loss: float


def _look(block: Block, w: np.ndarray, b: float, bags: _Bags) -> _Reply:
    scores = block.scores(w) + b
    signs, weights = bags.signs[block.bags], bags.weights[block.bags]
    top = segment_max(scores, block.offsets)
    witnesses = segment_argmax(scores, block.offsets)
    positive = np.flatnonzero(signs > 0)
    negative = np.flatnonzero(signs < 0)
    rows, offsets = gather_rows(block.offsets, negative)
    owner = np.repeat(negative, np.diff(offsets))
    u = 1.0 + scores[rows]
    far = np.zeros(len(w))
    far_cost = 0.0
    if bags.by_instance:
        near = u > -_BAND
        beyond = u > 1.0 + _BAND
        loss = float(weights[owner] @ np.maximum(u, 0.0))
        if beyond.any():
            costs = np.zeros(len(scores))
            costs[rows[beyond]] = weights[owner[beyond]]
            far = np.asarray(block.instances.T @ costs.astype(block.instances.dtype), dtype=np.float64)
            far_cost = float(costs.sum())
            near &= ~beyond
    else:
        near = u > np.maximum(1.0 + top[owner], 0.0) - _BAND
        loss = float(weights[negative] @ np.maximum(1.0 + top[negative], 0.0))
    silent = negative[1.0 + top[negative] <= -_BAND]
    quiet = np.asarray(
        _gathered(block.instances, witnesses[silent]).T @ weights[silent], dtype=np.float64
    )
    return _Reply(
        top,
        witnesses + block.first_row,
        _gathered(block.instances, witnesses[positive]),
        _gathered(block.instances, rows[near]),
        rows[near] + block.first_row,
        owner[near] + block.first_bag,
        far,
        far_cost,
        quiet,
        float(weights[silent].sum()),
        loss,
    )


def _gathered(instances: Any, rows: np.ndarray) -> Any:
    return instances[rows].astype(np.float64)


def _stacked(parts: list[Any]) -> Any:
    if sparse.issparse(parts[0]):
        return sparse.vstack(parts, format="csr")
    return np.concatenate(parts)


def _passed(source: PassSource, w: np.ndarray, b: float, bags: _Bags) -> _Reply:
    parts = source.map(_look, w, b, bags)
    return _Reply(
        np.concatenate([part.top for part in parts]),
        np.concatenate([part.witnesses for part in parts]),
        _stacked([part.vectors for part in parts]),
        _stacked([part.rows for part in parts]),
        np.concatenate([part.numbers for part in parts]),
        np.concatenate([part.groups for part in parts]),
        np.sum([part.far for part in parts], axis=0),
        sum(part.far_cost for part in parts),
        np.sum([part.quiet for part in parts], axis=0),
        sum(part.quiet_cost for part in parts),
        sum(part.negative_loss for part in parts),
    )


def _take(block: Block, rows: np.ndarray) -> Any:
    mine = rows[(rows >= block.rows.start) & (rows < block.rows.stop)] - block.first_row
    return _gathered(block.instances, mine)


def _means(block: Block, signs: np.ndarray) -> Any:
    positive = np.flatnonzero(signs[block.bags] > 0)
    rows, offsets = gather_rows(block.offsets, positive)
    sizes = np.diff(offsets)
    pool = sparse.csr_array(
        (np.repeat(1.0 / sizes, sizes), rows, offsets), shape=(len(positive), block.instances.shape[0])
    )
    return pool @ block.instances.astype(np.float64)


def _step_problem(vectors: Any, reply: _Reply, bags: _Bags) -> GroupProblem:
    """The convex step over the working set: positive bags first, sums of rows last."""
    positive = np.flatnonzero(bags.signs > 0)
    n_positive, n_rows = len(positive), reply.rows.shape[0]
    sums = [
        (total / cost, cost)
        for total, cost in ((reply.far, reply.far_cost), (reply.quiet, reply.quiet_cost))
        if cost > 0
    ]
    parts = [-vectors, reply.rows]
    if sums:
        means = np.stack([mean for mean, _ in sums])
        parts.append(sparse.csr_array(means) if sparse.issparse(vectors) else means)
    if bags.by_instance:
        offsets = np.arange(n_positive + n_rows + 1)
        group_costs = bags.weights[reply.groups]
    else:
        new_group = np.r_[n_rows > 0, reply.groups[1:] != reply.groups[:-1]]
        starts = np.flatnonzero(new_group[:n_rows])
        offsets = np.r_[np.arange(n_positive), n_positive + starts, n_positive + n_rows]
        group_costs = bags.weights[reply.groups[starts]]
    n_all = n_positive + n_rows + len(sums)
    return GroupProblem(
        Z=_stacked(parts),
        E=np.r_[-np.ones(n_positive), np.ones(n_all - n_positive)][:, None],
        c=np.ones(n_all),
        offsets=np.r_[offsets, np.arange(n_positive + n_rows + 1, n_all + 1)],
        costs=np.r_[bags.weights[positive], group_costs, [cost for _, cost in sums]],
        q=np.zeros(parts[0].shape[1]),
        p=np.zeros(1),
    )


def solve_mi_svm_primal(
    source: PassSource,
    signs: np.ndarray,
    weights: np.ndarray,
    slack: str,
    start: Any,
    options: SolverOptions,
    gap_tol: float,
) -> PrimalResult:
    """MI-SVM with a linear kernel.

    Parameters
    ----------
    source : PassSource
    signs, weights : ndarray of shape (n_bags,)
    slack : {"bag", "instance"}
    start : "auto", "mean" or ndarray of int
        First witnesses of the positive bags: the better of two starts on a sample of the bags,
        the means of the bags, or given rows.
    options : SolverOptions
    gap_tol : float
        Relative gap of a convex step.
    """
    bags = _Bags(signs, weights, slack == "instance")
    positive = signs > 0
    tol = max(options.tol, 0.1 * gap_tol)
    n_passes = 0
    fixed: Any = None
    if isinstance(start, str) and start == "auto":
        w, b = _sampled_start(source, bags, options, gap_tol)
    else:
        fixed = (
            _stacked(source.map(_means, signs))
            if isinstance(start, str)
            else _stacked(source.map(_take, start))
        )
        n_passes += 1
        w, b = _rough(source, fixed, bags)
    reply = _passed(source, w, b, bags)
    n_passes += 1
    witnesses = np.full(int(positive.sum()), -1) if fixed is not None else reply.witnesses[positive]
    if fixed is not None and not isinstance(start, str):
        witnesses = start
    vectors = reply.vectors if fixed is None else fixed
    best_w, best_b, best, gap = w, b, np.inf, np.inf
    history: list[float] = []
    stopped, h, n_iter, rough = "max_iter", None, 0, True
    while n_passes < _MAX_PASSES:
        problem = _step_problem(vectors, reply, bags)
        # While witnesses move far the steps need not be exact.
        inner_tol = 5.0 * gap_tol if rough else 0.3 * gap_tol
        found = solve_groups(problem, (w, np.array([b])), gap_tol=inner_tol, smoothing=h)
        w, b = found.w, float(found.v[0])
        h = min(0.5, max(0.05, 10.0 * found.smoothing))
        before = reply
        reply = _passed(source, w, b, bags)
        n_passes += 1
        margin = 1.0 - np.asarray(vectors @ w) - b
        norm = 0.5 * float(w @ w)
        value = norm + float(weights[positive] @ np.maximum(margin, 0.0)) + reply.negative_loss
        objective = norm + reply.negative_loss + float(
            weights[positive] @ np.maximum(1.0 - reply.top[positive], 0.0)
        )
        step_gap = value - found.lower_bound
        closed = step_gap <= gap_tol * abs(value)
        decrease = best - objective
        improved = decrease > 0
        if improved:
            best_w, best_b, best, gap = w, b, objective, step_gap
        if rough and (not improved or decrease <= 10.0 * gap_tol * abs(best)):
            rough = False
        elif not closed and not improved:
            # Rows were missing: the same step again, over both working sets.
            reply = _joined(before, reply, bags, w, b)
            continue
        n_iter += 1
        history.append(best)
        asked = options.on_iteration is not None and options.on_iteration(n_iter, best)
        if closed:
            gap = step_gap if improved or gap > step_gap else gap
            same = np.array_equal(reply.witnesses[positive], witnesses)
            if same or decrease <= tol * abs(best):
                stopped = ""
                break
        if asked:
            stopped = "callback"
            break
        if n_iter >= options.max_iter:
            break
        witnesses, vectors = reply.witnesses[positive], reply.vectors
    return PrimalResult(
        w=best_w,
        intercept=best_b,
        n_passes=n_passes,
        objective=best,
        history=history,
        n_iter=n_iter,
        stopped=stopped,
        dual_gap=gap,
    )


def _joined(before: _Reply, reply: _Reply, bags: _Bags, w: np.ndarray, b: float) -> _Reply:
    """The working set of a pass with the rows of the one before."""
    extra = np.flatnonzero(~np.isin(before.numbers, reply.numbers))
    rows, groups = before.rows[extra], before.groups[extra]
    far, cost = reply.far, reply.far_cost
    if bags.by_instance:
        # Rows that went beyond the margin are looked at one by one again.
        costs = bags.weights[groups] * (1.0 + np.asarray(rows @ w) + b > 1.0 + _BAND)
        far, cost = far - np.asarray(rows.T @ costs), cost - float(costs.sum())
    numbers = np.r_[reply.numbers, before.numbers[extra]]
    order = np.argsort(numbers, kind="stable")
    return replace(
        reply,
        rows=_stacked([reply.rows, rows])[order],
        numbers=numbers[order],
        groups=np.r_[reply.groups, groups][order],
        far=far,
        far_cost=max(cost, 0.0),
    )


def _rough(source: PassSource, vectors: Any, bags: _Bags) -> tuple[np.ndarray, float]:
    """A first w: witnesses against a sample of the instances of negative bags."""
    sample, used = _sample(source, bags)
    negative = np.flatnonzero(bags.signs[used] < 0)
    rows, _ = gather_rows(sample.offsets, negative)
    owner = np.repeat(used[negative], np.diff(sample.offsets)[negative])
    reply = _Reply(
        np.zeros(0), np.zeros(0), None, _gathered(sample.instances, rows), rows, owner, np.zeros(source.n_features), 0.0, np.zeros(source.n_features), 0.0, 0.0
    )
    problem = _step_problem(vectors, reply, bags)
    found = solve_groups(problem, (np.zeros(source.n_features), np.zeros(1)), gap_tol=0.05)
    return found.w, float(found.v[0])


def _pick(block: Block, used: np.ndarray) -> tuple[Any, np.ndarray]:
    mine = used[(used >= block.bags.start) & (used < block.bags.stop)] - block.first_bag
    rows, offsets = gather_rows(block.offsets, mine)
    return block.instances[rows], np.diff(offsets)


def _sample(source: PassSource, bags: _Bags) -> tuple[ArraySource, np.ndarray]:
    """Bags of both classes with at most about ``_SAMPLE`` instances."""
    share = min(1.0, _SAMPLE / source.n_instances)
    rng = np.random.RandomState(0)
    parts = []
    for sign in (1.0, -1.0):
        members = np.flatnonzero(bags.signs == sign)
        count = min(len(members), max(20, int(np.ceil(share * len(members)))))
        parts.append(members if count == len(members) else rng.choice(members, count, replace=False))
    used = np.sort(np.concatenate(parts))
    found = source.map(_pick, used)
    sizes = np.concatenate([sizes for _, sizes in found])
    return ArraySource(_stacked([rows for rows, _ in found]), np.r_[0, np.cumsum(sizes)]), used


def _sampled_start(
    source: PassSource, bags: _Bags, options: SolverOptions, gap_tol: float
) -> tuple[np.ndarray, float]:
    sample, used = _sample(source, bags)
    part = _Bags(bags.signs[used], bags.weights[used], bags.by_instance)
    # Slacks of the sample stand for those of all.
    scale = float(bags.weights.sum() / part.weights.sum())
    weights = part.weights * scale
    # Instances with the label of their bag.
    owner = np.repeat(np.arange(len(used)), sample.sizes)
    sign = part.signs[owner]
    rows = _gathered(sample.instances, np.arange(sample.n_instances))
    signed = sparse.diags_array(-sign) @ rows if sparse.issparse(rows) else -sign[:, None] * rows
    inherited = GroupProblem(
        sparse.csr_array(signed) if sparse.issparse(rows) else signed,
        -sign[:, None],
        np.ones(len(sign)),
        np.arange(len(sign) + 1),
        weights[owner],
        np.zeros(sample.n_features),
        np.zeros(1),
    )
    found = solve_groups(inherited, (np.zeros(sample.n_features), np.zeros(1)), gap_tol=0.05)
    scores = np.asarray(sample.instances @ found.w)
    first = segment_argmax(scores, sample.offsets)[part.signs > 0]
    slack = "instance" if bags.by_instance else "bag"
    quiet = SolverOptions(max(options.tol, 1e-3), options.max_iter)
    results = [
        solve_mi_svm_primal(sample, part.signs, weights, slack, start, quiet, max(gap_tol, 1e-2))
        for start in (first, "mean")
    ]
    best = min(results, key=lambda result: result.objective)
    return best.w, best.intercept
