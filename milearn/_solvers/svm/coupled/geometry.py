"""Inner products of a convex step of the coupled problem."""

from __future__ import annotations

import numpy as np

from ...._bags.segments import segment_index
from ..losses import BagLoss, Coupling
from .gram import BagGram

__all__ = ["StepGeometry"]


class StepGeometry:
    """Points, differences and cuts of a convex step, with their inner products.

    Parameters
    ----------
    bags : BagGram
    loss : Hinge or Tube
    coupling : Coupling
    subgradient : ndarray of shape (n_instances,), the beta_ij

    Attributes
    ----------
    points : ndarray of shape (n_bags, n_bags)
        Inner products of the points in the loss: bags, or mixtures W_i for a hard maximum.
    coupled : ndarray of int
        Bags whose difference W_i - B_i has a cost.
    cuts : ndarray of int
        Instances whose constraint has been generated.
    owner : ndarray of shape (n_instances,)
        Bag of each instance.
    scale : float
        The largest weight, which is the unit of the dual variables.
    """

    def __init__(
        self, bags: BagGram, loss: BagLoss, coupling: Coupling, subgradient: np.ndarray
    ) -> None:
        self.bags = bags
        self.loss = loss
        self.coupling = coupling
        self.subgradient = subgradient
        self.hard = coupling.hard
        self.mix = bags.mix(subgradient)
        sizes = np.diff(bags.offsets)
        weights = np.zeros(bags.n_bags) if self.hard else coupling.weights
        # A bag of one instance is that instance and needs no coupling.
        self.coupled = np.flatnonzero((weights > 0) & (sizes > 1))
        self.cut_candidates = np.flatnonzero((sizes > 1) & (self.hard | (weights > 0)))
        self.owner = segment_index(bags.offsets)
        self.scale = float(loss.weights.max())
        needed = self.hard or len(self.coupled)
        self.mixed = bags.mixtures(subgradient) if needed else np.zeros((0, bags.n_instances))
        if needed:
            self.mixed_mixed = (self.mix @ self.mixed.T).T
            self.mixed_bags = self.mix @ bags.cross.T
        self.points = self.mixed_mixed if self.hard else bags.bags
        self.centre = self.points.mean(axis=0)
        self.cuts = np.zeros(0, dtype=np.intp)
        self.cut_products = np.zeros((0, bags.n_instances))
        self._base: np.ndarray | None = None

    def all_candidates(self) -> np.ndarray:
        """Every instance of a coupled bag."""
        return np.flatnonzero(np.isin(self.owner, self.cut_candidates))

    def add(self, rows: np.ndarray) -> None:
        """Generate the cuts of instances."""
        rows = np.unique(rows)
        rows = rows[np.isin(self.owner[rows], self.cut_candidates)]
        # An instance of weight one is the mixture.
        rows = rows[self.subgradient[rows] < 1.0]
        if len(rows):
            self.cut_products = np.concatenate([self.cut_products, self.bags.instances(rows)])
            self.cuts = np.concatenate([self.cuts, rows])
            order = np.argsort(self.cuts, kind="stable")
            self.cuts, self.cut_products = self.cuts[order], self.cut_products[order]

    def gram(self) -> np.ndarray:
        """Inner products of points, differences W_i - B_i, and cuts.

        The vector of a cut is B_i - x_ij, or x_ij for a hard maximum. Vectors in the equation of
        the intercept are relative to the mean of the points, which avoids cancellation.
        """
        mine, rows = self.coupled, self.cuts
        owner = self.owner[rows]
        n, m, k = len(self.points), len(mine), len(rows)
        if self._base is None:
            self._base = self._gram_without_cuts()
        gram = np.empty((n + m + k, n + m + k))
        gram[: n + m, : n + m] = self._base
        if k == 0:
            return gram
        among = self.cut_products[:, rows]
        if self.hard:
            with_points = self.mixed[:, rows]
            middle = with_points.mean(axis=0)
            gram[:n, n:] = with_points - middle - (self.centre - self.centre.mean())[:, None]
            gram[n:, n:] = among - middle - middle[:, None] + self.centre.mean()
        else:
            cross, products = self.bags.cross, self.bags.bags
            with_points = products[:, owner] - cross[:, rows]
            gram[:n, n + m :] = with_points - with_points.mean(axis=0)
            with_mixtures = self.mixed_bags[mine][:, owner] - self.mixed[mine][:, rows]
            gram[n : n + m, n + m :] = with_mixtures - with_points[mine]
            part = cross[owner][:, rows]
            gram[n + m :, n + m :] = products[owner][:, owner] - part - part.T + among
        gram[n + m :, : n + m] = gram[: n + m, n + m :].T
        return gram

    def _gram_without_cuts(self) -> np.ndarray:
        mine = self.coupled
        n, m = len(self.points), len(mine)
        base = np.empty((n + m, n + m))
        middle = self.centre
        centred = self.points - middle
        centred -= (middle - middle.mean())[:, None]
        base[:n, :n] = centred
        if m:
            products, cross, own = self.bags.bags, self.mixed_bags, self.mixed_mixed
            with_points = (cross - products)[mine].T
            base[:n, n:] = with_points - with_points.mean(axis=0)
            base[n:, :n] = base[:n, n:].T
            pair = np.ix_(mine, mine)
            base[n:, n:] = own[pair] - cross[pair] - cross.T[pair] + products[pair]
        return base
