"""Conversions of the container to lists, data frames and Arrow, and its HTML for notebooks."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np
from scipy import sparse

from .arrow import need_module, table_of

_NAMES = 8  # maximum number of feature names


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
            Identifiers of the bags; by default, 0, 1, ...
        y : array-like of shape (n_bags,), default=None
            Labels of the bags, repeated for their rows in the column ``label``.

        Returns
        -------
        pandas.DataFrame
            Without feature names the features are ``x0, x1, ...``. Instance data of one dimension
            is a column of its name; with two dimensions it is the columns ``name_0, name_1, ...``.
            Columns of ``bag_data`` follow in the same form, repeated for the rows of each bag.

        Raises
        ------
        ValueError
            For sparse instances, columns of the same name, data of three dimensions, or ``ids`` or
            ``y`` that are not one per bag.
        ImportError
            Without pandas.

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
        pandas = need_module("pandas", "Bags.to_frame")
        bags: Any = self
        if sparse.issparse(bags.instance_rows):
            raise ValueError("A data frame needs dense instances: make them dense first.")
        names = bags.feature_names
        if names is None:
            names = [f"x{column}" for column in range(bags.shape[1])]
        frames = [pandas.DataFrame(bags.instances, columns=list(names))]
        frames += [
            _frame(pandas, name, values, "instance_data")
            for name, values in bags.instance_data.items()
        ]
        frames += [
            _frame(pandas, name, values[bags.bag_index], "bag_data")
            for name, values in bags.bag_data.items()
        ]
        frame = pandas.concat(frames, axis=1)
        if y is not None:
            frame.insert(0, "label", _per_bag(bags, y, "y"), allow_duplicates=True)
        keys = np.arange(len(bags)) if ids is None else ids
        frame.insert(0, bag, _per_bag(bags, keys, "ids"), allow_duplicates=True)
        twice = frame.columns[frame.columns.duplicated()].tolist()
        if twice:
            raise ValueError(f"Two columns would be named {twice[0]!r}: rename one.")
        return frame

    def to_arrow(self, y: Any = None, *, ids: Any = None) -> Any:
        """A pyarrow table with one row per bag, the input of :meth:`from_arrow`.

        Parameters
        ----------
        y : array-like of shape (n_bags,), default=None
            Labels of the bags, the column ``label``.
        ids : array-like of shape (n_bags,), default=None
            Identifiers of the bags, the column ``bag``.

        Returns
        -------
        pyarrow.Table
            The column ``instances`` holds lists of lists of fixed size and shares the memory of the
            bags. Each array of ``instance_data`` is a column of lists of its name, and each column
            of ``bag_data`` a column of its name. The names of the features
            are in the metadata of the schema, which Parquet keeps.

        Raises
        ------
        ValueError
            For sparse instances, graphs, data with the name of a column, ``bag_data`` of two
            dimensions, or ``ids`` or ``y`` that are not one per bag.
        ImportError
            Without pyarrow.
        """
        return table_of(self, y, ids)


def _frame(pandas: Any, name: str, values: np.ndarray, kind: str) -> Any:
    if values.ndim > 2:
        raise ValueError(
            f"{kind}[{name!r}] has {values.ndim} dimensions: a frame holds one or two."
        )
    listed = [name] if values.ndim == 1 else [f"{name}_{k}" for k in range(values.shape[1])]
    return pandas.DataFrame(values, columns=listed)


def _per_bag(bags: Any, values: Any, name: str) -> np.ndarray:
    array = np.asarray(values)
    if array.shape != (len(bags),):
        raise ValueError(f"{name} has shape {array.shape}: give one entry for {len(bags)} bags.")
    return array[bags.bag_index]


def bags_html(bags: Any) -> str:
    """A small table: counts, sizes of the bags, type, memory, graphs, data and names."""
    n_bags, n_features = bags.shape
    rows = [
        ("bags", f"{n_bags:,}"),
        ("instances", f"{bags.n_instances:,}"),
        ("features", f"{n_features:,}"),
    ]
    if n_bags:
        quantiles = np.quantile(bags.sizes, (0.0, 0.25, 0.5, 0.75, 1.0))
        rows.append(
            ("sizes: min, quartiles, max", ", ".join(f"{value:,.6g}" for value in quantiles))
        )
    layout = ", CSR" if bags.is_sparse else ""
    rows.append(("dtype", f"{bags.dtype}{layout}"))
    rows.append(("memory", f"{bags.nbytes / 1e6:,.3g} MB"))
    for name in ("bag_graph", "instance_graph"):
        graph = getattr(bags, name)
        if graph is not None:
            rows.append((name, f"{graph.nnz:,} entries"))
    rows += [
        (f"instance_data[{name!r}]", f"{values.dtype}, shape {values.shape}")
        for name, values in bags.instance_data.items()
    ]
    rows += [
        (f"bag_data[{name!r}]", f"{values.dtype}, shape {values.shape}")
        for name, values in bags.bag_data.items()
    ]
    names = bags.feature_names
    if names is not None:
        more = f", ... ({len(names) - _NAMES:,} more)" if len(names) > _NAMES else ""
        rows.append(("feature names", ", ".join(names[:_NAMES]) + more))
    body = "".join(
        f'<tr><th style="text-align: left">{escape(name)}</th>'
        f'<td style="text-align: left">{escape(value)}</td></tr>'
        for name, value in rows
    )
    return f"<table><caption>Bags</caption><tbody>{body}</tbody></table>"
