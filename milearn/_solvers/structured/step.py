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
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from ..._bags.segments import pooling_matrix, segment_index, segment_max
from ..common.newton.direction import Part, Pooled, Rows
from ..common.newton.simplex import project
from .edges import Edges
from .problem import LinkedProblem

Matrix = Any  # an ndarray or a CSR matrix


@dataclass(frozen=True)
class Proportions:
    """Maximisers in the smoothed terms of a step: t of hinges, z of links and pi of rows."""

    hinges: np.ndarray
    bag_links: np.ndarray
    instance_links: np.ndarray
    rows: np.ndarray


@dataclass(frozen=True)
class Links:
    """Edges as a CSR matrix of differences of node values, and its transpose."""

    differences: Any
    adjoint: Any
    costs: np.ndarray
    # Mean scale of the two nodes.
    widths: np.ndarray
    edges: Edges

    def __len__(self) -> int:
        return len(self.costs)

    @classmethod
    def of(cls, edges: Edges, cost: float) -> Links:
        """The edges with the cost of their sum."""
        n, m = edges.n_nodes, len(edges)
        ends = np.stack([edges.left, edges.right], axis=1).ravel()
        scales = np.stack([edges.left_scale, -edges.right_scale], axis=1).ravel()
        matrix = sparse.csr_array((scales, ends, np.arange(0, 2 * m + 1, 2)), shape=(m, n))
        widths = 0.5 * (edges.left_scale + edges.right_scale)
        return cls(matrix, matrix.T.tocsr(), cost * edges.weights, widths, edges)

    def attaining(self, differences: np.ndarray, h: float, centre: np.ndarray) -> np.ndarray:
        """The z of each edge."""
        z: np.ndarray = differences * (1.0 / h)
        z /= self.widths
        z += centre
        np.minimum(z, 1.0, out=z)
        np.maximum(z, -1.0, out=z)
        return z

    def smoothed(
        self, differences: np.ndarray, h: float, z: np.ndarray, centre: np.ndarray
    ) -> tuple[float, float]:
        """The smoothed sum of absolute differences, and the subtracted quadratic terms."""
        away = z - centre
        away *= away
        lost = 0.5 * h * float((self.costs * self.widths) @ away)
        return float(self.costs @ (z * differences)) - lost, lost

    def value(self, values: np.ndarray) -> float:
        """The sum of absolute differences."""
        return float(self.costs @ np.abs(self.differences @ values)) if len(self) else 0.0

    def node_slopes(self, z: np.ndarray) -> np.ndarray:
        """Derivative by the value of each node."""
        return np.asarray(self.adjoint @ (self.costs * z))

    def laplacian(self, z: np.ndarray, h: float) -> tuple[np.ndarray, Any]:
        """Nodes of links with curvature, and the second derivative in their values."""
        active = np.flatnonzero(np.abs(z) < 1.0)
        left, right = self.edges.left[active], self.edges.right[active]
        used = np.zeros(self.edges.n_nodes, dtype=bool)
        used[left] = used[right] = True
        nodes = np.flatnonzero(used)
        number = np.cumsum(used) - 1
        left, right = number[left], number[right]
        a, c = self.edges.left_scale[active], self.edges.right_scale[active]
        weights = self.costs[active] / (h * self.widths[active])
        n = len(nodes)
        diagonal = np.bincount(left, weights * a * a, n) + np.bincount(right, weights * c * c, n)
        # Edges are sorted by their left node, so half of the matrix is already in CSR order.
        begins = np.r_[0, np.cumsum(np.bincount(left, minlength=n))]
        half = sparse.csr_array((-weights * a * c, right, begins), shape=(n, n))
        return nodes, half + half.T + sparse.diags_array(diagonal, format="csr", dtype=np.float64)


@dataclass(frozen=True)
class Scores:
    """Scores, or a change of them, with l of each bag and the differences of links."""

    values: np.ndarray
    linear: np.ndarray
    instance_differences: np.ndarray
    # None unless all bags have one instance.
    bag_differences: np.ndarray | None

    def moved(self, t: float, change: Scores) -> Scores:
        """The scores plus t times a change."""
        between = self.bag_differences
        if between is not None and change.bag_differences is not None:
            between = between + t * change.bag_differences
        values = self.values + t * change.values
        return Scores(
            values,
            # For bags of one instance both are the same array.
            values if self.linear is self.values else self.linear + t * change.linear,
            self.instance_differences + t * change.instance_differences,
            between,
        )


@dataclass(frozen=True)
class _Smoothed:
    """A smoothed step at some scores, with the smoothed maximum of each bag."""

    scores: Scores
    h: float
    centre: Proportions
    proportions: Proportions
    best: np.ndarray
    bag_differences: np.ndarray


class LinkedTerms:
    """Common data of all convex steps of a problem."""

    def __init__(self, problem: LinkedProblem) -> None:
        self.problem = problem
        self.X, self.offsets = problem.X, problem.offsets
        self.n_bags, self.n_instances = len(problem.signs), int(problem.offsets[-1])
        self.singles = self.n_bags == self.n_instances
        costs = problem.costs[0] * problem.weights
        self.positive = np.flatnonzero((problem.signs > 0) & (costs > 0))
        self.negative = np.flatnonzero((problem.signs < 0) & (costs > 0))
        self.costs = costs[np.concatenate([self.positive, self.negative])]
        self.bag_links = Links.of(problem.bag_edges, problem.costs[1])
        self.instance_links = Links.of(problem.instance_edges, problem.costs[2])
        self.spread_costs = 0.5 * np.asarray(abs(self.bag_links.adjoint) @ self.bag_links.costs)
        self.owner = segment_index(problem.offsets)
        # The intercept is a constant added to all scores.
        self.free = np.ones((self.n_instances, int(problem.fit_intercept)))
        # Upper bound on the change of the sums if all scores change by at most one.
        self.cost = float(
            self.costs.sum()
            + 2.0 * (self.bag_links.costs @ self.bag_links.widths)
            + 2.0 * (self.instance_links.costs @ self.instance_links.widths)
        )

    def first_proportions(self) -> Proportions:
        """Proportions of the first step."""
        return Proportions(
            np.zeros(len(self.costs)),
            np.zeros(len(self.bag_links)),
            np.zeros(len(self.instance_links)),
            1.0 / np.diff(self.offsets)[self.owner],
        )

    def linear(self, witnesses: np.ndarray, bags: np.ndarray) -> Any:
        """The matrix of l, a row for each bag; without witnesses, the means of bags."""
        if len(witnesses) == 0:
            return pooling_matrix(self.offsets, 1.0 / np.diff(self.offsets)[self.owner])
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
        self.terms, self.linear = terms, linear

    @property
    def Z(self) -> Any:
        """The instances."""
        return self.terms.X

    @property
    def free(self) -> np.ndarray:
        """The coefficients of the intercept."""
        return self.terms.free

    @property
    def cost(self) -> float:
        """Upper bound on the change of the sums if all scores change by at most one."""
        return self.terms.cost

    @cached_property
    def _linear_adjoint(self) -> Any:
        return self.linear.T.tocsr()

    # -- values ----------------------------------------------------------------------------------

    def values(self, w: np.ndarray, v: np.ndarray) -> Scores:
        """The scores at a point."""
        return self.scores(np.asarray(self.terms.X @ w) + float(v.sum()))

    change = values

    def scores(self, values: np.ndarray) -> Scores:
        """Linear functions of the given scores, or of a change of them."""
        terms = self.terms
        linear = values if terms.singles else np.asarray(self.linear @ values)
        between = terms.bag_links.differences @ values if terms.singles else None
        return Scores(values, linear, terms.instance_links.differences @ values, between)

    def moved(self, scores: Scores, t: float, change: Scores) -> Scores:
        """The scores plus t times a change."""
        return scores.moved(t, change)

    def losses(self, scores: Scores) -> float:
        """The sums without smoothing."""
        terms = self.terms
        best = scores.values
        if not terms.singles:
            best = segment_max(scores.values, terms.offsets)
        linear = scores.linear
        return (
            float(terms.costs @ np.maximum(self._hinge_arguments(best, linear), 0.0))
            + float(terms.spread_costs @ (best - linear))
            + terms.bag_links.value(0.5 * (best + linear))
            + terms.instance_links.value(scores.values)
        )

    def smoothed(self, scores: Scores, h: float, centre: Proportions) -> _Smoothed:
        """The smoothed step and its maximisers."""
        terms = self.terms
        rows, best = self._highest(scores.values, h, centre.rows)
        u = self._hinge_arguments(best, scores.linear)
        hinges = np.clip(centre.hinges + u / h, 0.0, 1.0)
        between = scores.bag_differences
        if between is None:
            between = terms.bag_links.differences @ (0.5 * (best + scores.linear))
        of_bags = terms.bag_links.attaining(between, h, centre.bag_links)
        of_instances = terms.instance_links.attaining(
            scores.instance_differences, h, centre.instance_links
        )
        found = Proportions(hinges, of_bags, of_instances, rows)
        return _Smoothed(scores, h, centre, found, best, between)

    def smoothed_losses(self, at: _Smoothed) -> tuple[float, float]:
        """The smoothed sums, and the quadratic terms that are subtracted in them.

        The terms of the rows, which are part of the maxima, are not in the second number.
        """
        terms, h, found, centre = self.terms, at.h, at.proportions, at.centre
        u = self._hinge_arguments(at.best, at.scores.linear)
        lost = 0.5 * h * float(terms.costs @ (found.hinges - centre.hinges) ** 2)
        value = float(terms.costs @ (found.hinges * u)) - lost
        value += float(terms.spread_costs @ (at.best - at.scores.linear))
        inside = at.scores.instance_differences
        for links, u, z, z0 in (
            (terms.bag_links, at.bag_differences, found.bag_links, centre.bag_links),
            (terms.instance_links, inside, found.instance_links, centre.instance_links),
        ):
            of_links, lost_of_links = links.smoothed(u, h, z, z0)
            value, lost = value + of_links, lost + lost_of_links
        return value, lost

    def _hinge_arguments(self, best: np.ndarray, linear: np.ndarray) -> np.ndarray:
        terms = self.terms
        return np.concatenate([1.0 - linear[terms.positive], 1.0 + best[terms.negative]])

    def _highest(
        self, scores: np.ndarray, h: float, centre: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """pi, and the smoothed maximum of each bag."""
        terms = self.terms
        if terms.singles:
            return centre, scores
        shifted = scores + h * centre
        # Rows more than h below the highest one have a proportion of zero.
        shifted -= (segment_max(shifted, terms.offsets) - h)[terms.owner]
        kept = np.flatnonzero(shifted > 0)
        rows = np.zeros(len(scores))
        rows[kept], _, _ = project(shifted[kept], terms.owner[kept], h, bounded=False)
        lost = rows - centre
        lost *= lost
        lost *= -0.5 * h
        lost += rows * scores
        return rows, np.add.reduceat(lost, terms.offsets[:-1])

    # -- slopes ----------------------------------------------------------------------------------

    def _slopes(self, at: Proportions) -> tuple[np.ndarray, np.ndarray]:
        """Derivatives by the maximum of each bag and by its linearisation."""
        terms = self.terms
        slopes = 0.5 * terms.bag_links.node_slopes(at.bag_links)
        hinges = terms.costs * at.hinges
        best, linear = slopes + terms.spread_costs, slopes - terms.spread_costs
        linear[terms.positive] -= hinges[: len(terms.positive)]
        best[terms.negative] += hinges[len(terms.positive) :]
        return best, linear

    def coefficients(self, at: Proportions) -> np.ndarray:
        """alpha: derivatives by the score of each instance."""
        terms = self.terms
        best, linear = self._slopes(at)
        if terms.singles:
            alpha = best + linear
        else:
            alpha = at.rows * best[terms.owner] + self._linear_adjoint @ linear
        if len(terms.instance_links):
            alpha += terms.instance_links.node_slopes(at.instance_links)
        return np.asarray(alpha)

    def slope(self, at: _Smoothed, change: Scores) -> float:
        """Slope of the smoothed sums along a change of the scores."""
        terms, found = self.terms, at.proportions
        best = change.values
        if not terms.singles:
            best = np.add.reduceat(found.rows * change.values, terms.offsets[:-1])
        hinges = terms.costs * found.hinges
        n_positive = len(terms.positive)
        slope = float(hinges[n_positive:] @ best[terms.negative])
        slope -= float(hinges[:n_positive] @ change.linear[terms.positive])
        slope += float(terms.spread_costs @ (best - change.linear))
        if len(terms.bag_links):
            differences = change.bag_differences
            if differences is None:
                differences = terms.bag_links.differences @ (0.5 * (best + change.linear))
            slope += float((terms.bag_links.costs * found.bag_links) @ differences)
        if len(terms.instance_links):
            differences = change.instance_differences
            slope += float((terms.instance_links.costs * found.instance_links) @ differences)
        return slope

    # -- the dual --------------------------------------------------------------------------------

    def balanced(self, at: Proportions) -> Proportions:
        """Proportions whose coefficients sum to zero: the larger side is scaled down."""
        terms = self.terms
        signs = np.repeat([-1.0, 1.0], [len(terms.positive), len(terms.negative)])
        values = (at.hinges, at.bag_links, at.instance_links)
        parts = [terms.costs * at.hinges * signs]
        for links, z in zip((terms.bag_links, terms.instance_links), values[1:], strict=True):
            parts.append(links.costs * z * links.edges.scale_difference)
        up = sum(float(part[part > 0].sum()) for part in parts)
        down = -sum(float(part[part < 0].sum()) for part in parts)
        factor = min(up, down) / max(up, down, 1e-300)
        scaled = [
            np.where(part > 0 if up > down else part < 0, factor, 1.0) * value
            for part, value in zip(parts, values, strict=True)
        ]
        return Proportions(scaled[0], scaled[1], scaled[2], at.rows)

    def dual_value(self, at: Proportions) -> float:
        """A lower bound of the step."""
        terms = self.terms
        if terms.problem.fit_intercept:
            at = self.balanced(at)
        normal = np.asarray(terms.X.T @ self.coefficients(at))
        return float(terms.costs @ at.hinges) - 0.5 * float(normal @ normal)

    # -- curvature -------------------------------------------------------------------------------

    def curvature(self, smoothed: _Smoothed) -> list[Part]:
        """The second derivative of the smoothed sums by the scores, as a sum of parts."""
        terms, at, h = self.terms, smoothed.proportions, smoothed.h
        parts: list[Part] = []
        if len(terms.bag_links):
            nodes, laplacian = terms.bag_links.laplacian(at.bag_links, h)
            if terms.singles:
                parts.append(Pooled(nodes, laplacian))
            else:
                middle = 0.5 * (self._highest_of(at, nodes) + self.linear[nodes])
                parts.append(Pooled(middle, laplacian))
        if len(terms.instance_links):
            parts.append(Pooled(*terms.instance_links.laplacian(at.instance_links, h)))
        bent, n_positive = (at.hinges > 0) & (at.hinges < 1), len(terms.positive)
        short, over = np.flatnonzero(bent[:n_positive]), np.flatnonzero(bent[n_positive:])
        parts.append(Pooled(self.linear[terms.positive[short]], terms.costs[short] / h))
        highest = self._highest_of(at, terms.negative[over])
        parts.append(Pooled(highest, terms.costs[n_positive + over] / h))
        return parts if terms.singles else [*parts, *self._spread(at, h)]

    def _highest_of(self, at: Proportions, bags: np.ndarray) -> Any:
        """The proportions of the rows of some bags as a matrix."""
        terms = self.terms
        wanted = np.zeros(terms.n_bags, dtype=bool)
        wanted[bags] = True
        rows = np.flatnonzero((at.rows > 0) & wanted[terms.owner])
        counts = np.bincount(terms.owner[rows], minlength=terms.n_bags)[bags]
        shape = (len(bags), terms.n_instances)
        return sparse.csr_array((at.rows[rows], rows, np.r_[0, np.cumsum(counts)]), shape)

    def _spread(self, at: Proportions, h: float) -> list[Part]:
        """Curvature of the maxima: rows with a proportion above zero, minus their mean."""
        terms = self.terms
        best, _ = self._slopes(at)
        rows = np.flatnonzero(at.rows > 0)
        counts = np.bincount(terms.owner[rows], minlength=terms.n_bags)
        weights = np.where(counts > 1, best, 0.0) / h
        # Ignore sums of slopes that are zero up to rounding.
        wanted = weights > 1e-13 * float(weights.max(initial=0.0))
        rows, sizes = rows[wanted[terms.owner[rows]]], counts[wanted]
        starts = np.cumsum(sizes) - sizes
        return [Rows(rows, weights[terms.owner[rows]], starts, 1.0 / sizes)]
