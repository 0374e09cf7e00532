"""Kernels, landmarks, folds and costs, depending on the type and size of the training bags."""

from __future__ import annotations

from dataclasses import dataclass

from scipy import sparse

from .._bags import Bags
from ..svm._kernel_average import DENSE_KERNELS, TEXT_KERNELS, is_text

__all__ = ["AVERAGE", "SizePlan", "size_plan"]

AVERAGE = "average"

# Kernels that compare all pairs of instances, or rows of one entry per instance. This number of
# multiplications takes about ten seconds per scaling.
_PAIR_KERNELS = ("set_median", "mind", "mind_rows", "miles_rows", "emd")
_PAIR_COST = 5e10
# Further operations per distance, in multiplications.
_PER_PAIR = 50
# The solver of the exact kernel takes n_bags^2 kernel values and more than n_bags^2 steps.
_MANY_BAGS = 3_000
_LANDMARKS = 500
# A kernel between instances for MISVC takes n_instances^2 values.
_MANY_FOR_RBF = 8_000
# From this number of bags on, one fold of five is large enough for selection and calibration.
_BAGS_FOR_ONE_FOLD = 2_000


@dataclass(frozen=True)
class SizePlan:
    """The candidates for the type and size of the training bags."""

    # Whether instances are compared by angles.
    text: bool
    # Kernels of the average.
    kernels: tuple[str, ...]
    # Landmarks of the average kernel.
    n_components: int | None
    # "rbf", "linear" for text, or None if there are too many instances. Kernel of "instance".
    instance_kernel: str | None
    # Number of inner folds on which candidates are scored; None for all.
    n_scored_folds: int | None
    # Steps that are skipped because of the size.
    notes: tuple[str, ...]

    @property
    def small(self) -> bool:
        """Whether a kernel between instances is affordable."""
        return self.instance_kernel is not None

    @property
    def cost(self) -> float:
        """C of the SVMs."""
        return 1.0 if self.text else 10.0

    @property
    def bag_ways(self) -> dict[str, tuple[str, ...]]:
        """Names of the classifiers of whole bags, and the kernels that each averages.

        For text, each kernel is a separate model. In an average, the weight of an uninformative
        kernel does not depend on the labels, while out-of-fold scores reveal it.
        """
        if not self.text:
            return {AVERAGE: self.kernels}
        return {name: (name,) for name in self.kernels}


def size_plan(bags: Bags) -> SizePlan:
    """The plan for training bags.

    Parameters
    ----------
    bags : Bags

    Returns
    -------
    SizePlan
    """
    text = is_text(bags)
    kernels: tuple[str, ...] = TEXT_KERNELS if text else DENSE_KERNELS
    notes = []
    if _pair_cost(bags) > _PAIR_COST:
        dropped = [name for name in kernels if name in _PAIR_KERNELS]
        kernels = tuple(name for name in kernels if name not in _PAIR_KERNELS)
        if dropped:
            notes.append(
                f"kernels {', '.join(dropped)}: they compare all pairs of {bags.n_instances} "
                "instances"
            )
    n_components = None
    if len(bags) > _MANY_BAGS:
        n_components = _LANDMARKS
        notes.append(f"kernel values with more than {_LANDMARKS} of {len(bags)} bags")
    instance_kernel: str | None = "linear" if text else "rbf"
    if bags.n_instances > _MANY_FOR_RBF and not text:
        instance_kernel = None
        notes.append(f"highest instances by the RBF kernel: {bags.n_instances} instances")
    one = len(bags) >= _BAGS_FOR_ONE_FOLD
    if one:
        notes.append("all inner folds but one")
    return SizePlan(
        text=text,
        kernels=kernels,
        n_components=n_components,
        instance_kernel=instance_kernel,
        n_scored_folds=1 if one else None,
        notes=tuple(notes),
    )


def _pair_cost(bags: Bags) -> float:
    """Multiplications for distances between all instances, and between rows of one entry each."""
    rows = bags.instance_rows
    width = rows.nnz / max(1, rows.shape[0]) if sparse.issparse(rows) else bags.shape[1]
    return float(bags.n_instances) * (
        bags.n_instances * (width + _PER_PAIR) + float(len(bags)) ** 2
    )
