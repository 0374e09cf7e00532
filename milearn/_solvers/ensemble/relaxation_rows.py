"""Rows of the relaxation: violated reductions, and the disjuncts for them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .problem import comparable
from .relaxation import ZERO_TOL, BagHull, Disjunct, Relaxation
from .relaxation_columns import copy_learners


@dataclass
class _SolutionPart:
    """The part of the current solution that belongs to one point of a bag, or to a disjunct."""

    bag: int
    disjunct: int  # -1: the bag has no disjuncts
    point: int  # -1: the whole disjunct
    eta: float
    alpha: np.ndarray


def separate(relaxation: Relaxation, tol: float, max_reductions: int) -> tuple[int, float]:
    """Add the most violated reductions, and return their number and the largest violation.

    A reduction (x, j) is s_j F^x(x_j) + xi_j^x >= eta^x with sum_x xi_j^x <= xi_j. For given copies
    the violation of constraint j is sum_x [eta^x - s_j F^x(x_j)]_+ - xi_j; the score (10) is the
    term of one x.
    """
    problem = relaxation.problem
    parts = _solution_parts(relaxation)
    if not parts or not len(problem.points):
        return 0, 0.0
    alphas = np.stack([part.alpha for part in parts])
    etas = np.array([part.eta for part in parts])
    lacking = np.maximum(0.0, etas[:, None] - alphas @ problem.signed(relaxation.H))
    owner = np.array([part.bag for part in parts])
    firsts = np.flatnonzero(np.r_[True, owner[1:] != owner[:-1]])
    excess = np.add.reduceat(lacking, firsts, axis=0) - relaxation.margin_slacks
    largest = float(excess.max())
    if largest <= tol or max_reductions <= 0:
        return 0, max(0.0, largest)
    stops = np.r_[firsts[1:], len(parts)]
    before = relaxation.n_reductions
    for b, constraints in most_violated(excess, tol, max_reductions).items():
        room = max_reductions - (relaxation.n_reductions - before)
        if room <= 0:
            break
        mine = slice(firsts[b], stops[b])
        _reduce(relaxation, parts[mine], lacking[mine], np.array(constraints), room)
    relaxation.rows_changed = True
    return relaxation.n_reductions - before, largest


def most_violated(excess: np.ndarray, tol: float, limit: int) -> dict[int, list[int]]:
    """Constraints whose reductions are violated, by the row of ``excess``, most violated first.

    Of equal violations the first is chosen.
    """
    # Limit the number of constraints per bag, so that all bags have some.
    falling = -comparable(excess)
    rank = np.argsort(falling, axis=1, kind="stable")
    per_bag = max(3, limit // (4 * len(excess)))
    chosen = [(falling[b, j], b, j) for b in range(len(excess)) for j in rank[b, :per_bag].tolist()]
    chosen = sorted(each for each in chosen if excess[each[1:]] > tol)
    wanted: dict[int, list[int]] = {}
    for _, b, j in chosen[:limit]:
        wanted.setdefault(b, []).append(j)
    return wanted


def _solution_parts(relaxation: Relaxation) -> list[_SolutionPart]:
    x, alpha = relaxation.result.x, relaxation.alpha
    found: list[_SolutionPart] = []
    for number, bag in enumerate(relaxation.bags):
        parts: list[_SolutionPart] = []
        if not bag.disjuncts:
            parts += _divided(relaxation.H, bag.members, _SolutionPart(number, -1, -1, 1.0, alpha))
        for place, each in enumerate(bag.disjuncts):
            eta = max(0.0, float(x[each.eta]))
            copies = bag.alpha_copies(place, relaxation.alpha_columns, x)
            if eta > ZERO_TOL or copies.any():
                whole = _SolutionPart(number, place, -1, eta, copies)
                parts += _divided(relaxation.H, each.members, whole)
        # If one point satisfies a bag, its reductions are implied by the constraints j.
        if bag.disjuncts or len(parts) > 1:
            found += parts
    return found


def _divided(H: np.ndarray, members: np.ndarray, whole: _SolutionPart) -> list[_SolutionPart]:
    """The part of the solution of a disjunct with several points, divided among its points.

    Each learner with weight is assigned to a point where it attains its maximum over the members. A
    greedy choice uses few points; the other learners are divided in proportion.
    """
    if len(members) == 1:
        return [whole]
    up = H[:, members] > 0
    covering = (whole.alpha > ZERO_TOL) & up.any(axis=1)
    total = float(whole.alpha[covering].sum())
    if total <= 0.0:
        return [whole]
    left = np.where(covering, whole.alpha, 0.0)
    divided: list[tuple[int, np.ndarray]] = []
    while left.any():
        covered = comparable(left @ up)
        point = int(np.argmax(covered))
        divided.append((int(members[point]), np.where(up[:, point], left, 0.0)))
        left = np.where(up[:, point], 0.0, left)
    if len(divided) == 1:
        return [whole]
    rest = np.where(covering, 0.0, whole.alpha)
    parts = []
    for member, taken in divided:
        share = float(taken.sum()) / total
        alpha = taken + share * rest
        parts.append(_SolutionPart(whole.bag, whole.disjunct, member, whole.eta * share, alpha))
    return parts


def _reduce(
    relaxation: Relaxation,
    parts: list[_SolutionPart],
    lacking: np.ndarray,
    constraints: np.ndarray,
    limit: int,
) -> None:
    """Add the violated reductions of the parts of one bag by the given constraints."""
    bag = relaxation.bags[parts[0].bag]
    for part, lacks in zip(parts, lacking, strict=True):
        asked = constraints[lacks[constraints] > 0.0][:limit]
        if not len(asked):
            continue
        limit -= len(asked)
        place = max(part.disjunct, 0)
        if part.point >= 0:
            place = _split(relaxation, bag, place, part.point)
            # Copy the learners of the divided solution, so that the next one starts close to it.
            carried = np.flatnonzero(part.alpha > ZERO_TOL).tolist()
            copy_learners(relaxation, bag, [(k, place) for k in carried])
        _add_reductions(relaxation, bag, place, asked)


def _split(relaxation: Relaxation, bag: BagHull, place: int, point: int) -> int:
    """Split one point off a disjunct, and return the place of the new disjunct."""
    if not bag.disjuncts:
        model = relaxation.model
        bag.convexity_row = int(model.add_rows([1.0], equal=True)[0])
        bag.slack_row = int(model.add_rows([0.0], starts=[0], columns=[bag.slack], values=[1.0])[0])
        for _ in relaxation.alpha_columns:
            bag.add_learner(0)
        _add_disjunct(relaxation, bag, bag.members)
    source = bag.disjuncts[place]
    rest = source.members[source.members != point]
    if not len(rest):
        return place
    source.members = rest
    # Keep the row of all points: it is valid, although weaker, and the basis does not change.
    _add_margin(relaxation, bag, place)
    _add_disjunct(relaxation, bag, np.array([point]))
    return len(bag.disjuncts) - 1


def _add_disjunct(relaxation: Relaxation, bag: BagHull, members: np.ndarray) -> None:
    eta, slack = relaxation.model.add_columns(
        np.zeros(2),
        starts=[0, 1],
        rows=[bag.convexity_row, bag.slack_row],
        values=[1.0, -1.0],
    ).tolist()
    bag.disjuncts.append(Disjunct(members, eta, slack))
    _add_margin(relaxation, bag, len(bag.disjuncts) - 1)


def _add_margin(relaxation: Relaxation, bag: BagHull, place: int) -> None:
    each = bag.disjuncts[place]
    highest = relaxation.H[:, each.members].max(axis=1)
    row = _add_disjunct_row(relaxation, bag, place, highest, each.slack)
    each.margins.append((each.members, row))


def _add_reductions(
    relaxation: Relaxation, bag: BagHull, place: int, constraints: np.ndarray
) -> None:
    each, problem = bag.disjuncts[place], relaxation.problem
    for j in constraints.tolist():
        if j in each.reductions:
            continue
        slack = _slack_of_reduction(relaxation, bag, j)
        signed = problem.signed(relaxation.H, [j])[:, 0]
        row = _add_disjunct_row(relaxation, bag, place, signed, slack)
        each.reductions[j] = row
        bag.shared_slacks.setdefault(j, [row, -1])


def _slack_of_reduction(relaxation: Relaxation, bag: BagHull, j: int) -> int:
    """The slack column for another reduction by constraint j."""
    if relaxation.slack_columns[j] < 0:
        relaxation.include(np.array([j]))
    if j not in bag.shared_slacks:
        return int(relaxation.slack_columns[j])
    model = relaxation.model
    first, link = bag.shared_slacks[j]
    if link < 0:
        columns = [relaxation.slack_columns[j]]
        link = int(model.add_rows([0.0], starts=[0], columns=columns, values=[1.0])[0])
        bag.shared_slacks[j][1] = link
    return int(model.add_columns([0.0], starts=[0], rows=[first, link], values=[-1.0, -1.0])[0])


def _add_disjunct_row(
    relaxation: Relaxation, bag: BagHull, place: int, values: np.ndarray, slack: int
) -> int:
    """Add sum_k values_k alpha_k^d + slack >= eta^d for the disjunct d at a place."""
    columns, coefficients = bag.alpha_terms(place, relaxation.alpha_columns, values)
    row = relaxation.model.add_rows(
        [0.0],
        starts=[0],
        columns=[*columns, slack, bag.disjuncts[place].eta],
        values=[*coefficients, 1.0, -1.0],
    )
    return int(row[0])
