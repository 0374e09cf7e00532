"""Names of bags: their form, the bag of a message, and the index of a Series beside them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .kinds import id_text, ids, listed


def canonical_ids(names: Any, n_bags: int) -> np.ndarray | None:
    """One name per bag, see :func:`milearn._bags.kinds.ids`, or an error."""
    if names is None:
        return None
    if not hasattr(names, "__len__") or isinstance(names, str) or len(names) != n_bags:
        raise ValueError(f"names must hold one name per bag, for {n_bags} bags.")
    return ids(names, "names", "bag {}".format)


def bag_text(bags: Any, bag: Any) -> str:
    """A bag in a message: by its name, or by its position if it has none."""
    if bags is None or bags.names is None:
        return f"bag {bag}"
    return f"bag {bags.names[bag : bag + 1].tolist()[0]!r}"


def position_of(bags: Any, bag: Any) -> int:
    """The position of a bag, given by its position or, if names are texts, by its name."""
    if not isinstance(bag, str):
        return range(len(bags))[bag]
    found: Any = [] if bags.names is None else np.flatnonzero(bags.names == id_text(bag))
    if len(found) != 1:
        raise ValueError(f"bag={bag!r} is the name of {len(found)} bags: see X.names.")
    return int(found[0])


def check_rows(values: Any, others: Any, what: str, other: str) -> None:
    """Raise an error if two columns of pandas have the same index in another order."""
    for each in values.values() if isinstance(values, Mapping) else [values]:
        pair: Any = [getattr(part, "index", None) for part in (each, others)]
        one, two = pair
        if not (hasattr(one, "equals") and hasattr(two, "equals")):
            continue
        if not one.equals(two) and len(one) == len(two) and {*one} == {*two}:
            raise ValueError(
                f"The index of {what} is that of {other} in another order: pass "
                f"{what}.loc[{other}.index], or values without an index."
            )
        counted = two.equals(type(two)(range(len(two)))) if two.dtype.kind in "iu" else False
        if other == "X.instance_data" and not one.is_unique and not one.equals(two) and not counted:
            raise ValueError(
                f"The index of {what} has repeated entries, so that its rows are not known: pass "
                "an array in the order of the instances."
            )


def kept_index(index: Any, order: np.ndarray) -> Any:
    """The index of the rows in another order, or None if it only counts them.

    Rows of a repeated index have their positions. Files cannot hold periods, tuples and the like.
    """
    import pandas

    known = "integer", "string", "floating", "datetime64"
    if not index.is_unique or pandas.api.types.infer_dtype(index) not in known:
        index = pandas.RangeIndex(len(index))
    found = index[order]
    return None if found.equals(pandas.RangeIndex(len(found))) else found


def check_index(values: Any, bag_names: np.ndarray | None, what: str) -> None:
    """Raise an error if the index of a Series names other bags, or the bags in another order.

    An index of whole numbers, none of which is the name of a bag, is a count and no names.

    Parameters
    ----------
    values : Series, data frame or any other array-like
        Only the index of pandas is looked at.
    bag_names : ndarray of shape (n_bags,) or None
        Those of :attr:`milearn.Bags.names`.
    what : str
        The name of the values, such as "y".
    """
    index: Any = getattr(values, "index", None)
    if bag_names is None or not hasattr(index, "to_numpy"):
        return
    names = [*map(id_text, bag_names.tolist())]
    known = {*names}
    # The names may be a level of the index.
    levels = [index, *map(index.get_level_values, range(index.nlevels))]
    keys = max(([*map(id_text, each)] for each in levels), key=lambda keys: len(known & {*keys}))
    # Readers take the first zeros from names such as 0012.
    numbers = {name.lstrip("0") for name in names}
    is_count = index.dtype.kind in "iu" and numbers.isdisjoint(key.lstrip("0") for key in keys)
    if is_count or keys == names:
        return
    pairs = enumerate(zip(keys, names, strict=False))
    first = next((at for at, (key, name) in pairs if key != name), 0)
    remedy = f"make {what} of table.loc[X.names]"  # of outcomes
    if hasattr(values, "loc"):
        remedy = f"pass {what}.loc[X.names]"
    raise ValueError(
        f"The index of {what} ({listed(index[first:].tolist(), 2)}) differs from the names of the "
        f"bags ({listed(bag_names[first:].tolist(), 2)}), X.names: {remedy}, or values without an "
        "index if they are in the order of the bags."
    )
