"""Conversion of bags to lists and data frames."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np

from .canonical import check_length
from .kinds import column
from .names import check_index


def _dense(bags: Any, what: str) -> np.ndarray:
    if bags.is_sparse:
        raise ValueError(f"{what} holds dense instances only: make them dense first.")
    return bags.instances


def _per_bag(bags: Any, values: Any, name: str) -> np.ndarray:
    check_index(values, bags.names, name)
    return check_length(name, np.asarray(values), len(bags), flat=True)


def _check_names(columns: Iterable[str]) -> None:
    name, times = Counter(columns).most_common(1)[0]
    if times > 1:
        raise ValueError(f"Two columns would be named {name!r}: rename one.")


class BagExports:
    """The methods of :class:`milearn.Bags` that return other containers."""

    def to_list(self) -> list[Any]:
        """The bags as a list of 2-D blocks, the input of :meth:`from_list`.

        Returns
        -------
        list of n_bags ndarray or csr_array of shape (bag size, n_features)
            Read-only views if the instances are in memory.
        """
        return list(self)  # type: ignore[call-overload]

    def to_frame(self, *, bag: str = "bag", ids: Any = None, y: Any = None) -> Any:
        """A long pandas data frame with one row per instance, the input of :meth:`from_frame`.

        Parameters
        ----------
        bag : str, default="bag"
            Name of the first column, which contains the bag of each row.
        ids : array-like of shape (n_bags,), default=None
            Identifiers of the bags; by default, their names, or else 0, 1, ...
        y : array-like of shape (n_bags,), default=None
            Labels of the bags, repeated for their rows in the column ``label``.

        Returns
        -------
        pandas.DataFrame
            Without feature names the features are ``x0, x1, ...``. The columns of
            ``instance_data`` follow, and those of ``bag_data``, repeated for the rows of each bag.
            The index is that of ``instance_data``, such as the names of cells.

        Raises
        ------
        ValueError
            For sparse instances, columns of the same name, data of three dimensions, or ``ids`` or
            ``y`` that are not one per bag.

        Notes
        -----
        Graphs are left out.

        Examples
        --------
        >>> from milearn import Bags
        >>> bags = Bags.from_list([[[1.0], [2.0]], [[3.0]]], instance_data={"at": [[7, 8], [9]]})
        >>> bags.to_frame(ids=["a", "b"], y=[1, 0])
          bag  label   x0  at
        0   a      1  1.0   7
        1   a      1  2.0   8
        2   b      0  3.0   9
        """
        import pandas

        bags: Any = self
        instances, index = _dense(bags, "A data frame"), bags.bag_index
        names = bags.feature_names
        if names is None:
            names = [f"x{column}" for column in range(bags.shape[1])]
        ids = bags.names if ids is None else ids
        keys = _per_bag(bags, np.arange(len(bags)) if ids is None else ids, "ids")
        parts = [pandas.DataFrame({bag: keys[index]})]
        if y is not None:
            _per_bag(bags, y, "y")
            parts.append(pandas.DataFrame({"label": column(y, "y").array[index]}))
        parts += [pandas.DataFrame(instances, columns=list(names)), bags.instance_data]
        parts.append(bags.bag_data.iloc[index])
        frame = pandas.concat([part.reset_index(drop=True) for part in parts], axis=1)
        _check_names(frame.columns)
        own = bags.instance_data.index
        return frame if own.dtype.kind in "iuf" else frame.set_axis(own)
