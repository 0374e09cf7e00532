"""Kernels, landmarks, folds and costs, depending on the type and size of the training bags."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Any

import numpy as np
from scipy import sparse

from .._bags import Bags
from .._bags.rows_on_disk import converted, is_elsewhere, is_read_in_blocks, read_in_blocks
from ..model_selection._inner import N_FOLDS
from ..svm._kernel_average import DENSE_KERNELS, TEXT_KERNELS, is_text

AVERAGE = "average"

# Kernels that compare all pairs of instances, or rows of one entry per instance.
_PAIR_KERNELS = ("set_median", "mind", "mind_rows", "miles_rows", "emd")
# Further operations per distance, in multiplications.
_PER_PAIR = 50


@dataclass(frozen=True)
class SizeLimits:
    """Sizes from which on a step is replaced by a cheaper one.

    Attributes
    ----------
    float64_numbers : int
        Numbers in dense instances up to which these are converted to float64. More of them are read
        in blocks if they are stored otherwise: in float16, in float32 or in a file. Landmark
        features of instances are not computed if there would be more of them.
    pair_cost : float
        Multiplications of the kernels of all pairs of instances, which take about four seconds per
        scaling.
    exact_bags : int
        Training bags of an exact bag kernel: its solver takes n_bags^2 values and more steps.
    bag_landmarks : int
        Landmarks among the bags above that.
    exact_instances : int
        Instances of an exact RBF kernel of MISVC. Its quadratic programmes take seconds above that.
    instance_landmarks : int
        Landmarks among the instances above that.
    trees : int
        Trees of a forest on statistics of the bags.
    tree_values : float
        Statistics of all bags that each split of a regression tree may consider.
    test_bags : int
        Test bags that are sufficient for selection and calibration. Inner folds after them are not
        scored.
    n_parts : "auto" or int
        As of :class:`~milearn.discriminant_analysis.ShareDiscriminant`.
    """

    float64_numbers: int = 2**25
    pair_cost: float = 2e10
    exact_bags: int = 3_000
    bag_landmarks: int = 500
    exact_instances: int = 2_500
    instance_landmarks: int = 150
    trees: int = 100
    tree_values: float = 1e6
    test_bags: int = 400
    n_parts: int | str = "auto"


@dataclass(frozen=True)
class SizePlan:
    """The candidates for the type and size of the training bags."""

    # Whether instances are compared by angles.
    text: bool
    # Kernels of the average; none for distributed bags.
    kernels: tuple[str, ...]
    # Landmarks of the average kernel.
    n_components: int | None
    # "rbf", "linear" for text, or None if there are too many instances. Kernel of "instance".
    instance_kernel: str | None
    # Landmarks of that kernel; None for all instances.
    instance_components: int | None
    # Number of inner folds on which candidates are scored, of five.
    n_scored_folds: int
    # Steps that are skipped because of the size.
    notes: tuple[str, ...]
    # Whether the instances are read in blocks, and candidates that would need them in float64.
    in_blocks: bool = False
    left_out: tuple[str, ...] = ()

    @property
    def cost(self) -> float:
        """C of the SVMs."""
        return 1.0 if self.text else 10.0

    @property
    def bag_models(self) -> tuple[str, ...]:
        """Names of the classifiers of whole bags.

        For text, each kernel is a separate model. In an average, the weight of an uninformative
        kernel does not depend on the labels, while out-of-fold scores reveal it.
        """
        return self.kernels if self.text or not self.kernels else (AVERAGE,)


def size_plan(bags: Bags, limits: SizeLimits) -> SizePlan:
    """The plan for training bags.

    Parameters
    ----------
    bags : Bags
    limits : SizeLimits

    Returns
    -------
    SizePlan
    """
    text = is_text(bags)
    kernels: tuple[str, ...] = TEXT_KERNELS if text else DENSE_KERNELS
    notes, left_out, reason = [], [], f"{bags.n_instances} instances"
    elsewhere = is_elsewhere(bags)
    if elsewhere:
        kernels, reason = (), "the bags are distributed"
        notes.append(f"kernels between bags: {reason}")
    elif _pair_cost(bags) > limits.pair_cost:
        dropped = [name for name in kernels if name in _PAIR_KERNELS]
        kernels = tuple(name for name in kernels if name not in _PAIR_KERNELS)
        if dropped:
            notes.append(
                f"kernels {', '.join(dropped)}: they compare all pairs of {bags.n_instances} "
                "instances"
            )
    n_components = None
    if kernels and len(bags) > limits.exact_bags:
        n_components = limits.bag_landmarks
        notes.append(f"kernel values with more than {n_components} of {len(bags)} bags")
    instance_kernel: str | None = "linear" if text else "rbf"
    instance_components = None
    in_blocks = not text and is_held_in_blocks(bags, limits)
    pairs = [name for name in kernels if name in _PAIR_KERNELS]
    if in_blocks and pairs:
        left_out.append(f"the kernels {', '.join(pairs)}")
        kernels = tuple(name for name in kernels if name not in pairs)
    too_many = bags.n_instances * limits.instance_landmarks > limits.float64_numbers
    if in_blocks and not too_many:
        left_out.append("the highest instances by the RBF kernel")
        instance_kernel = None
    elif not text and (elsewhere or too_many):
        instance_kernel = None
        notes.append(f"highest instances by the RBF kernel: {reason}")
    elif not text and bags.n_instances > limits.exact_instances:
        instance_components = limits.instance_landmarks
        notes.append(
            f"RBF kernel values with more than {instance_components} of {bags.n_instances} "
            "instances, and their other orientation"
        )
    notes += [f"{name}: all instances in float64" for name in left_out]
    n_scored_folds = min(N_FOLDS, ceil(N_FOLDS * limits.test_bags / len(bags)))
    if n_scored_folds < N_FOLDS:
        notes.append(f"inner folds {n_scored_folds + 1} to {N_FOLDS}")
    return SizePlan(
        text=text,
        kernels=kernels,
        n_components=n_components,
        instance_kernel=instance_kernel,
        instance_components=instance_components,
        n_scored_folds=n_scored_folds,
        notes=tuple(notes),
        in_blocks=in_blocks,
        left_out=tuple(left_out),
    )


def is_held_in_blocks(bags: Any, limits: SizeLimits) -> bool:
    """Whether dense instances are too many to convert them to float64 in memory."""
    if bags.is_sparse or is_elsewhere(bags):
        return False
    stored_otherwise = is_read_in_blocks(bags) or bags.dtype != np.float64
    return stored_otherwise and bags.n_instances * bags.shape[1] > limits.float64_numbers


def prepared(bags: Any, limits: SizeLimits) -> Any:
    """Validated bags in float64, or as stored if they are held in blocks or elsewhere."""
    if is_elsewhere(bags) or is_held_in_blocks(bags, limits):
        return read_in_blocks(bags)
    return bags if bags.dtype == np.float64 else converted(bags, np.float64)


def _pair_cost(bags: Bags) -> float:
    """Multiplications for distances between all instances, and between rows of one entry each."""
    rows = bags.instance_rows
    width = rows.nnz / max(1, rows.shape[0]) if sparse.issparse(rows) else bags.shape[1]
    return float(bags.n_instances) * (
        bags.n_instances * (width + _PER_PAIR) + float(len(bags)) ** 2
    )
