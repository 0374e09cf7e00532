"""The rule by which a linear problem goes by passes over its instances instead of to the dual."""

from __future__ import annotations

__all__ = ["by_passes"]

# The dual grows with the bags and the primal hardly: from so many instances in so many bags on the
# primal is quicker (2 to 30 times at 200 bags of 10), and from so many instances on whatever the
# bags. Below that both are quick, and the dual gives support vectors.
_MANY_INSTANCES, _MANY_BAGS = 2_000, 200
_TOO_MANY_INSTANCES = 20_000


def by_passes(solver: str, n_bags: int, n_instances: int) -> bool:
    """Whether a problem that allows the primal goes by passes over its instances.

    Parameters
    ----------
    solver : {"auto", "dual", "primal"}
        "auto" leaves it to the size.
    n_bags, n_instances : int
    """
    if solver != "auto":
        return solver == "primal"
    return n_instances > _TOO_MANY_INSTANCES or (
        n_instances > _MANY_INSTANCES and n_bags > _MANY_BAGS
    )
