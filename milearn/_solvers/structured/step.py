"""A convex step of MILSD over scores: smoothed value, slopes, curvature and dual value.

Let f_p be the highest score of bag p and l_p its linearisation (the score of a witness, or the
mean). For a link e = (p, q) between bags with scales a = s_p and c = s_q, and g = (f + l) / 2,

    max(a f_p - c l_q, c f_q - a l_p) = 1/2 a (f_p - l_p) + 1/2 c (f_q - l_q) + |a g_p - c g_q| .

The links between bags are thus a total variation of g and a cost of f - l for each bag. The step
depends only on w and the scores x.w + b:

    1/2 |w|^2 + sum_i C_i [1 - l_i]_+ or [1 + f_i]_+ + sum_p k_p (f_p - l_p)
              + sum_e C_e |a g_p - c g_q| + sum_e C_e |a f(x_p) - c f(x_q)|.

Hinges, absolute values and maxima are smoothed around given proportions, with h > 0 in units of
the margin:

    [u]_+    max_{0 <= t <= 1}       t u - h/2 (t - t0)^2
    |u|      max_{-1 <= z <= 1}      z u - h/2 (z - z0)^2
    f_p      max_{pi in simplex}     pi.s - h/2 |pi - pi0|^2

All terms are convex and nondecreasing in f_p, so the smoothed step is convex. Any t, z and pi give
coefficients alpha of the scores. If these sum to zero, or if there is no intercept, they give the
lower bound sum_i C_i t_i - 1/2 |X'alpha|^2. The cost of an evaluation is a few operations per link
and instance.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from ..._bags.segments import pooling_matrix, segment_index, segment_max
from ..common.newton import GroupPart, Part, project, runs
from .edges import Edges
from .problem import LinkedProblem


@dataclass(frozen=True)
class Proportions:
    """Maximisers in the smoothed terms of a step: t of hinges, z of links and pi of rows."""

    hinges: np.ndarray
    links: np.ndarray
    rows: np.ndarray


@dataclass(frozen=True)
class _Smoothed:
    """A smoothed step at some scores: its maximisers, and what they are multiplied with."""

    h: float
    centre: Proportions
    proportions: Proportions
    # f - l of each bag, the arguments of the hinges, and the differences of links.
    spread: np.ndarray
    short: np.ndarray
    differences: np.ndarray


class LinkedTerms:
    """Common data of all convex steps of a problem.

    The nodes of the links are the bags, with the values g, followed by the instances.
    """

    def __init__(self, problem: LinkedProblem) -> None:
        self.problem = problem
        self.X, self.offsets = problem.X, problem.offsets
        self.n_bags, self.n_instances = len(problem.signs), int(problem.offsets[-1])
        self.owner = segment_index(problem.offsets)
        self.equal = 1.0 / np.diff(self.offsets)[self.owner]
        costs = problem.costs[0] * problem.weights
        self.positive = np.flatnonzero((problem.signs > 0) & (costs > 0))
        self.negative = np.flatnonzero((problem.signs < 0) & (costs > 0))
        self.costs = costs[np.concatenate([self.positive, self.negative])]
        of_bags, of_instances = problem.bag_edges, problem.instance_edges
        self.links = Edges.joined(of_bags, of_instances)
        self.link_costs = np.concatenate(
            [problem.costs[1] * of_bags.weights, problem.costs[2] * of_instances.weights]
        )
        # Mean scale of the two nodes of each link.
        self.widths = 0.5 * (self.links.left_scale + self.links.right_scale)
        slopes = np.asarray(abs(self.links.adjoint[: self.n_bags]) @ self.link_costs)
        self.spread_costs = 0.5 * slopes
        # The intercept is a constant added to all scores.
        self.free = np.ones((self.n_instances, int(problem.fit_intercept)))
        # At the start of the first step.
        self.first = Proportions(np.zeros(len(self.costs)), np.zeros(len(self.links)), self.equal)
        # Upper bound on the change of the sums if all scores change by at most one.
        self.cost = float(self.costs.sum() + 2.0 * (self.link_costs @ self.widths))

    def linear(self, witnesses: np.ndarray, bags: np.ndarray) -> Any:
        """The matrix of l, a row for each bag; without witnesses, the means of bags."""
        if len(witnesses) == 0:
            return pooling_matrix(self.offsets, self.equal)
        rows = self.offsets[:-1].copy()
        rows[bags] = witnesses
        shape = (self.n_bags, self.n_instances)
        return sparse.csr_array((np.ones(self.n_bags), rows, np.arange(self.n_bags + 1)), shape)


class LinkedStep:
    """The convex problem for given witnesses, for :func:`..common.newton.engine.solve`.

    Parameters
    ----------
    terms : LinkedTerms
    linear : CSR matrix of shape (n_bags, n_instances)
        See :meth:`LinkedTerms.linear`.
    """

    def __init__(self, terms: LinkedTerms, linear: Any) -> None:
        self.terms, self.linear, self.linear_adjoint = terms, linear, linear.T.tocsr()
        self.Z, self.free, self.cost = terms.X, terms.free, terms.cost

    # -- values ----------------------------------------------------------------------------------

    def values(self, w: np.ndarray, v: np.ndarray) -> np.ndarray:
        """The scores of all instances at a point."""
        return np.asarray(self.terms.X @ w) + float(v.sum())

    change = values

    def _arguments(
        self, scores: np.ndarray, best: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """f - l of bags, arguments of hinges, and differences of links; ``best`` are the f."""
        terms = self.terms
        linear = np.asarray(self.linear @ scores)
        short = np.concatenate([1.0 - linear[terms.positive], 1.0 + best[terms.negative]])
        nodes = np.concatenate([0.5 * (best + linear), scores])
        return best - linear, short, terms.links.differences(nodes)

    def losses(self, scores: np.ndarray) -> float:
        """The sums without smoothing."""
        terms = self.terms
        best = segment_max(scores, terms.offsets)
        spread, short, differences = self._arguments(scores, best)
        value = terms.costs @ np.maximum(short, 0.0) + terms.spread_costs @ spread
        return float(value + terms.link_costs @ np.abs(differences))

    def smoothed(self, scores: np.ndarray, h: float, centre: Proportions) -> _Smoothed:
        """The smoothed step and its maximisers."""
        rows, best = self._highest(scores, h, centre.rows)
        spread, short, differences = self._arguments(scores, best)
        z = differences / (h * self.terms.widths)
        z += centre.links
        found = Proportions(
            np.clip(centre.hinges + short / h, 0.0, 1.0), np.clip(z, -1.0, 1.0, out=z), rows
        )
        return _Smoothed(h, centre, found, spread, short, differences)

    def smoothed_losses(self, at: _Smoothed) -> tuple[float, float]:
        """The smoothed sums, and the quadratic terms that are subtracted in them.

        The terms of the rows, which are part of the maxima, are not in the second number.
        """
        terms, found, centre = self.terms, at.proportions, at.centre
        lost = terms.costs @ (found.hinges - centre.hinges) ** 2
        lost += (terms.link_costs * terms.widths) @ (found.links - centre.links) ** 2
        lost *= 0.5 * at.h
        value = terms.costs @ (found.hinges * at.short) + terms.spread_costs @ at.spread
        value += terms.link_costs @ (found.links * at.differences)
        return float(value - lost), float(lost)

    def _highest(
        self, scores: np.ndarray, h: float, centre: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """pi, and the smoothed maximum of each bag."""
        terms = self.terms
        rows, _ = project(scores + h * centre, *runs(terms.owner), h, bounded=False)
        lost = rows - centre
        lost *= lost
        lost *= -0.5 * h
        lost += rows * scores
        return rows, np.add.reduceat(lost, terms.offsets[:-1])

    # -- slopes ----------------------------------------------------------------------------------

    def _slopes(self, at: Proportions) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Derivatives by the f and the l of each bag, and by scores as ends of links."""
        terms = self.terms
        nodes = np.asarray(terms.links.adjoint @ (terms.link_costs * at.links))
        slopes, hinges = 0.5 * nodes[: terms.n_bags], terms.costs * at.hinges
        best, linear = slopes + terms.spread_costs, slopes - terms.spread_costs
        linear[terms.positive] -= hinges[: len(terms.positive)]
        best[terms.negative] += hinges[len(terms.positive) :]
        return best, linear, nodes[terms.n_bags :]

    def coefficients(self, at: Proportions) -> np.ndarray:
        """alpha: derivatives by the score of each instance."""
        best, linear, alpha = self._slopes(at)
        return np.asarray(at.rows * best[self.terms.owner] + self.linear_adjoint @ linear + alpha)

    # -- the dual --------------------------------------------------------------------------------

    def balanced(self, at: Proportions) -> Proportions:
        """Proportions whose coefficients sum to zero: the larger side is scaled down."""
        terms = self.terms
        signs = np.repeat([-1.0, 1.0], [len(terms.positive), len(terms.negative)])
        hinges = terms.costs * at.hinges * signs
        links = terms.link_costs * at.links * terms.links.scale_difference
        parts = np.concatenate([hinges, links])
        up, down = float(parts[parts > 0].sum()), -float(parts[parts < 0].sum())
        factor = min(up, down) / max(up, down, 1e-300)
        scales = np.where(parts > 0 if up > down else parts < 0, factor, 1.0)
        n = len(hinges)
        return Proportions(at.hinges * scales[:n], at.links * scales[n:], at.rows)

    def dual_value(self, at: Proportions) -> float:
        """A lower bound of the step."""
        terms = self.terms
        if terms.problem.fit_intercept:
            at = self.balanced(at)
        normal = np.asarray(terms.X.T @ self.coefficients(at))
        return float(terms.costs @ at.hinges) - 0.5 * float(normal @ normal)

    # -- curvature -------------------------------------------------------------------------------

    def curvature(self, smoothed: _Smoothed) -> list[Part | GroupPart]:
        """The second derivative of the smoothed sums by the scores, as a sum of parts."""
        terms, at, h = self.terms, smoothed.proportions, smoothed.h
        nodes, laplacian = terms.links.laplacian(
            np.abs(at.links) < 1.0, terms.link_costs / (h * terms.widths)
        )
        n_bags = int(np.searchsorted(nodes, terms.n_bags))
        bags, rows = nodes[:n_bags], nodes[n_bags:] - terms.n_bags
        middle = 0.5 * (self._highest_of(at, bags) + self.linear[bags])
        shape = (len(rows), terms.n_instances)
        ends = sparse.csr_array((np.ones(len(rows)), rows, np.arange(len(rows) + 1)), shape)
        bent, n_positive = (at.hinges > 0) & (at.hinges < 1), len(terms.positive)
        short, over = np.flatnonzero(bent[:n_positive]), np.flatnonzero(bent[n_positive:])
        highest = self._highest_of(at, terms.negative[over])
        return [
            Part(sparse.vstack([middle, ends], format="csr"), laplacian),
            Part(self.linear[terms.positive[short]], terms.costs[short] / h),
            Part(highest, terms.costs[n_positive + over] / h),
            self._spread(at, h),
        ]

    def _highest_of(self, at: Proportions, bags: np.ndarray) -> Any:
        """The proportions of the rows of some bags as a matrix."""
        terms = self.terms
        wanted = np.zeros(terms.n_bags, dtype=bool)
        wanted[bags] = True
        rows = np.flatnonzero((at.rows > 0) & wanted[terms.owner])
        counts = np.bincount(terms.owner[rows], minlength=terms.n_bags)[bags]
        shape = (len(bags), terms.n_instances)
        return sparse.csr_array((at.rows[rows], rows, np.r_[0, np.cumsum(counts)]), shape)

    def _spread(self, at: Proportions, h: float) -> GroupPart:
        """Curvature of the maxima: rows with a proportion above zero, minus their mean."""
        terms = self.terms
        best = self._slopes(at)[0]
        rows = np.flatnonzero(at.rows > 0)
        counts = np.bincount(terms.owner[rows], minlength=terms.n_bags)
        weights = np.where(counts > 1, best, 0.0) / h
        # Ignore sums of slopes that are zero up to rounding.
        wanted = weights > 1e-13 * float(weights.max(initial=0.0))
        rows, sizes = rows[wanted[terms.owner[rows]]], counts[wanted]
        starts = np.cumsum(sizes) - sizes
        weights = weights[terms.owner[rows]]
        return GroupPart(rows, weights, starts, 1.0 / sizes)
