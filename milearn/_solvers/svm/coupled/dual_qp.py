"""Dual quadratic program of a convex step of the coupled problem, and its warm start.

There are five kinds of variables, in this order: ``data``, the a_i of the loss (one per side of the
loss); ``joint``, e_i - m_i of the bags with one variable; ``exceeds``, the e_i, and ``mixture``,
the m_i of the other coupled bags; ``cuts``, the c_ij.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ...common.qp import ActiveSet, QPProblem, QPResult
from ..losses import DualColumns
from .geometry import StepGeometry

__all__ = ["CoupledDualQP", "WarmStart"]

_LOWER, _FREE, _UPPER = 0, 1, 2


@dataclass
class WarmStart:
    """Status of each variable (lower bound, free, upper bound), to start a similar problem."""

    data: np.ndarray
    joint: np.ndarray
    exceeds: np.ndarray
    mixture: np.ndarray
    # By instance.
    cuts: dict[int, int] = field(default_factory=dict)
    # Whether the constraints of the bags and of the tube are active.
    tight: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=bool))
    tube_tight: bool = False

    @classmethod
    def of_data(cls, values: np.ndarray, upper: np.ndarray) -> WarmStart:
        """The status of the variables of the loss, by their values; the others are free."""
        status = np.where(
            values <= 0, _LOWER, np.where(values >= upper * (1 - 1e-9), _UPPER, _FREE)
        )
        free = np.full(len(values), _FREE)
        return cls(status, free, free, free, tight=np.zeros(len(values), dtype=bool))


@dataclass(frozen=True)
class _Block:
    """Variables of one kind."""

    # Row of the step's Gram matrix that each variable belongs to.
    points: np.ndarray
    columns: DualColumns
    lower: np.ndarray
    upper: np.ndarray
    # Bag whose constraint contains the variable; -1 for none.
    group: np.ndarray

    def take(self, index: np.ndarray) -> _Block:
        return _Block(
            self.points[index],
            self.columns.take(index),
            self.lower[index],
            self.upper[index],
            self.group[index],
        )


class CoupledDualQP:
    """The dual problem in units of the largest weight.

    Parameters
    ----------
    step : StepGeometry
    """

    def __init__(self, step: StepGeometry) -> None:
        self.step = step
        self.quadratic = step.coupling.squared and not step.hard
        self.cut_owner = step.owner[step.cuts]
        # Bags with a constraint on several variables.
        self.group_bags = np.unique(self.cut_owner)
        # Coupled bags with one variable, and those with two.
        without_cuts = ~np.isin(step.coupled, self.group_bags)
        joint = without_cuts & (step.coupling.margin == 0.0)
        self.joint_bags, self.split_bags = step.coupled[joint], step.coupled[~joint]

        data, differences = self._data(), self._differences(without_cuts)
        blocks = [
            *data,
            differences["joint"].take(np.flatnonzero(joint)),
            differences["exceeds"].take(np.flatnonzero(~joint)),
            differences["mixture"].take(np.flatnonzero(~joint)),
            self._cuts(data[0]),
        ]
        sizes = [len(block.points) for block in blocks]
        ends = np.cumsum([sum(sizes[:-4]), *sizes[-4:]]).tolist()
        starts = [0, *ends[:-1]]
        self.data, self.joint, self.exceeds, self.mixture, self.cuts = map(slice, starts, ends)

        self.points = np.concatenate([block.points for block in blocks])
        self.sign = np.concatenate([block.columns.sign for block in blocks])
        self.lower = np.concatenate([block.lower for block in blocks])
        self.upper = np.concatenate([block.upper for block in blocks])
        self.members = self._membership(np.concatenate([block.group for block in blocks]))
        self.qp = self._program(blocks)

    # -- variables -------------------------------------------------------------------------------

    def _data(self) -> list[_Block]:
        """The sides of the loss; for a hard maximum the cuts share the bounds of the first."""
        step = self.step
        n = len(step.points)
        bounds = step.loss.weights / step.scale
        none = np.full(n, -1)
        sides = [
            _Block(np.arange(n), columns, np.zeros(n), bounds, none)
            for columns in step.loss.dual_columns()
        ]
        if step.hard:
            group, upper = none.copy(), bounds.copy()
            group[self.group_bags], upper[self.group_bags] = self.group_bags, np.inf
            sides[0] = _Block(np.arange(n), sides[0].columns, np.zeros(n), upper, group)
        return sides

    def _differences(self, without_cuts: np.ndarray) -> dict[str, _Block]:
        """The variables of each coupled bag, jointly and separately."""
        step = self.step
        m = len(step.coupled)
        points, one, zero = len(step.points) + np.arange(m), np.ones(m), np.zeros(m)
        limits = step.coupling.weights[step.coupled] / step.scale if m else zero
        free = np.full(m, np.inf) if self.quadratic else limits
        bound = np.where(without_cuts & (not self.quadratic), limits, np.inf)
        gain = zero - step.coupling.margin
        none = np.full(m, -1)
        return {
            "joint": _Block(points, DualColumns(one, zero, zero, zero), -free, free, none),
            "exceeds": _Block(
                points, DualColumns(one, gain, zero, zero), zero, bound, step.coupled
            ),
            "mixture": _Block(
                points, DualColumns(-one, gain, zero, zero), zero, bound, step.coupled
            ),
        }

    def _cuts(self, side: _Block) -> _Block:
        """The variables of the generated cuts."""
        step, owner = self.step, self.cut_owner
        k = len(step.cuts)
        points = len(step.points) + len(step.coupled) + np.arange(k)
        zero = np.zeros(k)
        if step.hard:
            columns = side.columns.take(owner)
        else:
            columns = DualColumns(np.ones(k), zero - step.coupling.margin, zero, zero)
        return _Block(points, columns, zero, np.full(k, np.inf), owner)

    # -- program ---------------------------------------------------------------------------------

    def _membership(self, group: np.ndarray) -> np.ndarray:
        """Variables in the constraint of each bag of ``group_bags``, as 0.0 and 1.0."""
        members = np.zeros((len(self.group_bags), len(group)))
        inside = np.flatnonzero(np.isin(group, self.group_bags))
        members[np.searchsorted(self.group_bags, group[inside]), inside] = 1.0
        return members

    def _program(self, blocks: list[_Block]) -> QPProblem:
        step, loss = self.step, self.step.loss
        gain = np.concatenate([block.columns.gain for block in blocks])
        equation = np.concatenate([block.columns.equation for block in blocks])
        matrix = step.gram()[self.points[:, None], self.points]
        matrix *= (self.sign * step.scale)[:, None] * self.sign
        constraints, limits = [], []
        if self.quadratic:
            curvature = 0.5 * step.scale / step.coupling.weights
            diagonal = np.arange(self.joint.start, self.joint.stop)
            matrix[diagonal, diagonal] += curvature[self.joint_bags]
            matrix += (self.members.T * curvature[self.group_bags]) @ self.members
        else:
            weights = loss.weights if step.hard else step.coupling.weights
            constraints.append(self.members)
            limits.append(weights[self.group_bags] / step.scale)
        if loss.tube_limit is not None:
            constraints.append(np.concatenate([block.columns.tube for block in blocks])[None])
            limits.append(np.array([loss.tube_limit * (loss.weights / step.scale).sum()]))
        return QPProblem(
            matrix,
            -gain,
            G=np.concatenate(constraints) if constraints else None,
            h=np.concatenate(limits) if constraints else None,
            A=equation[None],
            b=np.zeros(1),
            lb=self.lower,
            ub=self.upper,
        )

    # -- solutions -------------------------------------------------------------------------------

    def weights(self, x: np.ndarray) -> np.ndarray:
        """Coefficients over the step's Gram matrix, in the units of the weights."""
        values = np.clip(x, self.lower, self.upper) * self.step.scale
        step = self.step
        size = len(step.points) + len(step.coupled) + len(step.cuts)
        return np.bincount(self.points, weights=self.sign * values, minlength=size)

    @property
    def _limits_groups(self) -> bool:
        """Whether the first constraints are those of bags."""
        return not self.quadratic and len(self.group_bags) > 0

    def to_warm_start(self, result: QPResult) -> WarmStart:
        """The status of the variables."""
        active, n = result.active, len(self.step.points)
        status = np.where(active.lower, _LOWER, np.where(active.upper, _UPPER, _FREE))
        joint, exceeds, mixture = (np.full(n, _FREE) for _ in range(3))
        joint[self.joint_bags] = status[self.joint]
        exceeds[self.split_bags] = status[self.exceeds]
        mixture[self.split_bags] = status[self.mixture]
        # For the other bags, the status that two variables would have.
        positive = result.x[self.joint] > 0
        exceeds[self.joint_bags] = np.where(positive, _FREE, _LOWER)
        mixture[self.joint_bags] = np.where(positive, _LOWER, _FREE)
        tight = np.zeros(n, dtype=bool)
        tight[self.joint_bags] = joint[self.joint_bags] != _FREE
        if self._limits_groups:
            tight[self.group_bags] = active.tight[: len(self.group_bags)]
        return WarmStart(
            data=status[self.data],
            joint=joint,
            exceeds=exceeds,
            mixture=mixture,
            cuts=dict(zip(self.step.cuts.tolist(), status[self.cuts].tolist(), strict=True)),
            tight=tight,
            tube_tight=self.step.loss.tube_limit is not None and bool(active.tight[-1]),
        )

    def from_warm_start(self, start: WarmStart) -> ActiveSet:
        """The active constraints of another solution that exist in this problem."""
        cuts = [start.cuts.get(row, _FREE) for row in self.step.cuts.tolist()]
        status = np.concatenate(
            [
                start.data,
                start.joint[self.joint_bags],
                start.exceeds[self.split_bags],
                start.mixture[self.split_bags],
                np.array(cuts, dtype=int),
            ]
        )
        tight = start.tight[self.group_bags] if self._limits_groups else np.zeros(0, dtype=bool)
        if self.step.loss.tube_limit is not None:
            tight = np.append(tight, start.tube_tight)
        return ActiveSet(
            lower=(status == _LOWER) & np.isfinite(self.lower),
            upper=(status == _UPPER) & np.isfinite(self.upper),
            tight=tight,
        )
