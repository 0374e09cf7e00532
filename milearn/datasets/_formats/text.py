"""Names of columns of a table, as a user gives them and as messages show them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._errors import ContentError


def quoted_names(names: Sequence[Any]) -> str:
    """Names for a message, at most eight of them."""
    more = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return ", ".join(map(repr, names[:8])) + more


def check_column(name: Any, part: str, columns: Sequence[Any]) -> None:
    """Raise an error for a column that a table lacks or has twice, of which pandas renames one."""
    if (times := [*columns].count(name) + (f"{name}.1" in columns)) != 1:
        raise ContentError(
            f"there {'is no column' if times == 0 else 'are two columns'} {name!r} for {part}= "
            f"among {quoted_names(columns)}; name the column that holds it with {part}=, or read "
            "the table by pandas.read_csv with the right sep=."
        )


def known_column(names: Sequence[str], columns: Sequence[Any], part: str) -> Any:
    """The column of the first of the names, exactly or else in another case, or None."""
    for name in names:
        same = [name] if name in columns else [c for c in columns if str(c).lower() == name]
        if len(same) > 1:
            raise ContentError(f"{quoted_names(same)} may be {name!r}; choose one with {part}=.")
        if same:
            return same[0]
    return None
