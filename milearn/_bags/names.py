"""Names of bags: their form, the bag of a message, and what a Series says of its order."""

from __future__ import annotations

from typing import Any

import numpy as np

from .kinds import as_ids, id_text, is_missing, listed
from .warn import warn_user


def canonical_ids(names: Any, n_bags: int) -> np.ndarray | None:
    """One name per bag, see :func:`milearn._bags.kinds.as_ids`, or an error."""
    if names is None:
        return None
    given = [] if isinstance(names, (str, bytes)) or np.ndim(names) == 0 else list(names)
    if len(given) != n_bags or isinstance(names, (str, bytes)):
        raise ValueError(f"names must hold one name per bag, for {n_bags} bags.")
    missing = next((bag for bag, name in enumerate(given) if is_missing(name)), None)
    if missing is not None:
        raise ValueError(f"names is missing for bag {missing}: give every bag a name.")
    return as_ids(given)


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


def check_index(values: Any, bag_names: np.ndarray | None, what: str) -> None:
    """Raise an error if the index of a Series names the bags in another order than the bags.

    An index without names is a count, which scikit-learn slices like the bags.

    Parameters
    ----------
    values : Series, data frame or any other array-like
        Only the index of pandas is looked at.
    bag_names : ndarray of shape (n_bags,) or None
        Those of :attr:`milearn.Bags.names`.
    what : str
        The name of the values, such as "y".

    Warns if the index is a count, and the names are the same numbers in another order.
    """
    index: Any = getattr(values, "index", None)
    if bag_names is None or not hasattr(index, "to_numpy"):
        return
    of_text = len(bag_names) > 0 and isinstance(bag_names[0], str)
    if of_text and index.dtype.kind in "iuf" and not _plain(bag_names[0]).isdecimal():
        return  # numbers are no names of bags with names such as P01
    keys, names = index.tolist(), bag_names.tolist()
    if getattr(index, "nlevels", 1) > 1:  # one of its levels may hold the names
        levels = [index.get_level_values(at).tolist() for at in range(index.nlevels)]
        known = {*map(_plain, names)}
        keys = next((each for each in levels if {*map(_plain, each)} == known), keys)
    if keys == names:
        return
    plain_keys, plain_names = [*map(_plain, keys)], [*map(_plain, names)]
    if plain_keys == plain_names:
        return
    if not (of_text and all(isinstance(key, str) for key in keys)):
        # Numbers are names only if they are the same ones.
        if sorted(plain_keys) != sorted(plain_names):
            return
        if keys == list(range(len(keys))) and plain_names == [*map(str, names)]:
            warn_user(
                f"The index of {what} counts from 0, and X.names are the same numbers in another "
                f"order: {what} is taken in the order of the bags. Pass {what}.loc[X.names] if "
                f"the index names bags, or {what}.to_numpy() if it does not.",
                UserWarning,
            )
            return
    known = {*plain_keys}
    absent = (name for name, plain in zip(names, plain_names, strict=True) if plain not in known)
    unknown = next(absent, None)
    remedy = f"pass {what}.loc[X.names]"
    if not hasattr(values, "loc"):  # outcomes
        remedy = f"make {what} of table.loc[X.names]"
    if unknown is not None:
        remedy = (
            f"it has no entry for bag {unknown!r}. Give {what} the names of the bags, or pass "
            f"{what}.to_numpy() if its order is that of the bags"
        )
    elif keys and type(keys[0]) is not type(names[0]):
        remedy = f"give it the type of X.names, and {remedy}"
    # From the first names that differ.
    pairs = zip(plain_keys, plain_names, strict=False)
    first = next((at for at, (key, name) in enumerate(pairs) if key != name), 0)
    first = min(first, max(0, len(keys) - 2), max(0, len(names) - 2))
    raise ValueError(
        f"The index of {what} ({listed(keys[first:], 2)}) differs from the names of the bags "
        f"({listed(names[first:], 2)}), X.names: {remedy}."
    )


def _plain(name: Any) -> str:
    """A name as text, without the zeros that a column of numbers loses."""
    text = f"{name:.0f}" if isinstance(name, float) and name.is_integer() else str(name)
    return text.lstrip("0") or "0" if text.isdecimal() else text
