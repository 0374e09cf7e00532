"""The rule by which a linear problem goes by passes over its instances instead of to the dual."""

from __future__ import annotations

__all__ = ["by_passes"]

# The dual grows with the bags and the primal hardly: from so many instances in so many bags on the
# primal is quicker (2 to 30 times at 200 bags of 10), and from so many instances on whatever the
# bags. Below that both are quick, and the dual gives support vectors.
_MANY_INSTANCES, _MANY_BAGS = 2_000, 200
_TOO_MANY_INSTANCES = 20_000
# With more features than instances the dual is the smaller problem: 3,224 sentences of 66,552 words
# take it 2 to 7 times less time.
_MANY_WIDE, _MANY_WIDE_BAGS = 5_000, 500
_TOO_MANY_WIDE = 100_000


def by_passes(solver: str, n_bags: int, n_instances: int, n_features: int) -> bool:
    """Whether a problem that allows the primal goes by passes over its instances.

    Parameters
    ----------
    solver : {"auto", "dual", "primal"}
        "auto" leaves it to the size.
    n_bags, n_instances, n_features : int
    """
    if solver != "auto":
        return solver == "primal"
    if n_features > n_instances:
        many, many_bags, too_many = _MANY_WIDE, _MANY_WIDE_BAGS, _TOO_MANY_WIDE
    else:
        many, many_bags, too_many = _MANY_INSTANCES, _MANY_BAGS, _TOO_MANY_INSTANCES
    return n_instances > too_many or (n_instances > many and n_bags > many_bags)
