"""Bags of one group merged to one bag, such as the slides of a patient."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
from scipy import sparse

from .annotations import canonical_array, differing_row, taken_rows
from .canonical import canonical_csr, check_choice, first_text, id_array, is_missing
from .rows_on_disk import LazyRows
from .segments import gather_rows, group_by_id, pooling_matrix, segment_max

LABEL_RULES = ("equal", "any", "max", "mean")
_DIFFERING = ("raise", "instance_data")


class BagMerging:
    """The method of :class:`milearn.Bags` that merges bags."""

    def merge(
        self,
        groups: Any,
        y: Any = None,
        *,
        how: str = "equal",
        sample_weight: Any = None,
        ids: Any = None,
        source: str | None = "bag",
        differing: str = "raise",
        return_groups: bool = False,
    ) -> Any:
        """Bags of one group become one bag, such as the slides of a patient.

        Parameters
        ----------
        groups : array-like of shape (n_bags,)
            Group of each bag. Groups come in the order in which they appear first, and their
            instances in the order of the bags.
        y : array-like of shape (n_bags,) or (n_bags, n_outputs), default=None
            Labels of the bags; if given, the labels of the groups are also returned. Missing labels
            (NaN, None) are ignored; a group without a label has a missing one.
        how : {"equal", "any", "max", "mean"}, default="equal"
            Label of a group. With "equal" its bags must have one label. With "any", for two
            classes, it is the larger one if any bag has it, so that 1 is the label of a patient
            with a positive slide. "max" and "mean" are for numbers.
        sample_weight : array-like of shape (n_bags,), default=None
            Weights of the bags; if given, their sums over the groups are also returned.
        ids : array-like of shape (n_bags,), default=None
            Names of the bags, such as those of the slides; by default, their numbers.
        source : str or None, default="bag"
            Name of the array of ``instance_data`` that gets the name of the bag from which each
            instance comes; None leaves it out.
        differing : {"raise", "instance_data"}, default="raise"
            What to do with a column of ``bag_data`` that has different entries within a group: an
            error, or an array of ``instance_data`` of this name.
        return_groups : bool, default=False
            Also return the groups, one per merged bag.

        Returns
        -------
        Bags, or a tuple (Bags[, y][, sample_weight][, groups])
            Links between bags of two groups are added, and links within a group are left out.

        Raises
        ------
        ValueError
            For labels or columns that differ within a group, which is named, a missing group, a
            number of groups, labels, weights or names that is not that of the bags, labels that do
            not fit ``how``, or a name in ``instance_data`` that exists.

        See Also
        --------
        milearn.metrics.group_scores : Scores of groups from scores of bags.

        Notes
        -----
        The instances are not copied if the bags of every group are adjacent, or are in a memory
        map, from which they are read when they are used.

        Examples
        --------
        >>> from milearn import Bags
        >>> slides = Bags.from_list([[[0.0], [1.0]], [[2.0]], [[3.0]]])
        >>> patients, y = slides.merge(["b", "a", "b"], [1, 0, 1])
        >>> patients.sizes, y
        (array([3, 1]), array([1, 0]))
        >>> patients.instance_data["bag"]
        array([0, 0, 2, 1])
        """
        bags: Any = self
        check_choice("how", how, LABEL_RULES)
        check_choice("differing", differing, _DIFFERING)
        names, codes, order, ends = grouped(groups, len(bags))
        first = order[ends[:-1]]
        columns, moved = {}, {}
        for name, values in bags.bag_data.items():
            row = differing_row(values, codes, first)
            if row is None:
                columns[name] = values[first]
            elif differing == "raise":
                raise ValueError(
                    f"Bags {first[codes[row]]} and {row} of group {names[codes[row]]!r} have the "
                    f"entries {values[first[codes[row]]]!s} and {values[row]!s} of "
                    f"bag_data[{name!r}]: leave the column out by with_bag_data, or pass "
                    "differing='instance_data'."
                )
            else:
                moved[name] = values[bags.bag_index]
        if source is not None:
            given = np.arange(len(bags)) if ids is None else ids
            moved[source] = canonical_array(source, given)[_checked("ids", given, bags)]
        clash = sorted(set(moved) & set(bags.instance_data))
        if clash:
            raise ValueError(
                f"instance_data[{clash[0]!r}] exists already: pass another name by source=, or "
                "rename the column of bag_data."
            )
        in_order = bool((np.diff(order) == 1).all())
        rows, offsets = gather_rows(bags.offsets, order)
        stored, graph, links = bags._stored, bags.bag_graph, bags.instance_graph
        data = {**bags.instance_data, **moved}
        if not in_order or isinstance(stored, LazyRows):
            # Rows in a file are not read.
            stored = stored[rows] if bags._rows is None else bags._rows.merged(order, ends)
        if not in_order:
            data = taken_rows(data, rows)
            links = None if links is None else canonical_csr(links[rows][:, rows])
        if graph is not None:
            sums = pooling_matrix(ends, weights=1.0)
            added = (sums @ graph[order][:, order] @ sums.T).tocoo()
            kept = added.row != added.col
            entries = added.data[kept], (added.row[kept], added.col[kept])
            graph = canonical_csr(sparse.coo_array(entries, shape=added.shape))
        merged = bags._changed(
            instances=canonical_csr(stored) if sparse.issparse(stored) else stored,
            offsets=offsets[ends],
            bag_graph=graph,
            instance_graph=links,
            instance_data=data,
            bag_data=columns,
        )
        parts = [merged]
        if y is not None:
            parts.append(group_labels(np.asarray(y), how, (names, codes, order, ends)))
        if sample_weight is not None:
            weights = np.asarray(sample_weight, dtype=np.float64)
            _checked("sample_weight", weights, bags)
            parts.append(np.bincount(codes, weights=weights, minlength=len(names)))
        if return_groups:
            parts.append(id_array(names))
        return merged if len(parts) == 1 else tuple(parts)


def _checked(name: str, values: Any, bags: Any) -> np.ndarray:
    """The bag of each instance, after a check of the number of values."""
    if len(values) != len(bags) or np.ndim(values) != 1:
        raise ValueError(
            f"{name} has shape {np.shape(values)} for {len(bags)} bags: give one entry per bag."
        )
    return bags.bag_index


def grouped(groups: Any, n_bags: int) -> tuple[list[Any], np.ndarray, np.ndarray, np.ndarray]:
    """Bags by group, as :func:`.segments.group_by_id` returns them, or an error."""
    keys = np.asarray(groups)
    if keys.shape != (n_bags,):
        raise ValueError(f"groups has shape {keys.shape} for {n_bags} bags: give every bag one.")
    listed = keys.tolist()
    missing = next((bag for bag, key in enumerate(listed) if is_missing(key)), None)
    if missing is not None:
        raise ValueError(f"groups is missing for bag {missing}: give every bag its group.")
    return group_by_id(listed)


# -- labels ----------------------------------------------------------------------------------------


def group_labels(
    y: np.ndarray,
    how: str,
    groups: tuple[list[Any], np.ndarray, np.ndarray, np.ndarray],
    *,
    rule: str = "how",
) -> np.ndarray:
    """Labels of groups, which are those of :func:`.segments.group_by_id`.

    ``how`` is that of :meth:`BagMerging.merge`, and ``rule`` its name in messages.
    """
    names, codes, order, ends = groups
    if y.ndim == 0 or len(y) != len(codes):
        raise ValueError(f"y has shape {y.shape} for {len(codes)} bags: give one label per bag.")
    if how == "equal":
        return _common(y, names, codes, order, ends, rule)
    numbers = y.dtype.kind in "biuf"
    if y.dtype.kind == "O" and y.ndim == 1:
        labels = [np.nan if is_missing(label) else label for label in y.tolist()]
        numbers = all(isinstance(label, (Real, np.bool_)) for label in labels)
        y = np.array(labels, dtype=float) if numbers else y
    if not numbers:
        text = first_text(y) if y.dtype.kind == "O" else None
        kind = str(y.dtype) if text is None else repr(text)
        raise ValueError(f"{rule}={how!r} needs numbers in y, not {kind}: use {rule}='equal'.")
    gaps = np.isnan(y) if y.dtype.kind == "f" else np.zeros(y.shape, dtype=bool)
    if how == "any" and len(np.unique(y[~gaps])) > 2:
        raise ValueError(
            f"{rule}='any' needs two classes in y: use {rule}='max' for ordered classes."
        )
    if how == "mean":
        sums = pooling_matrix(ends, weights=1.0)
        counts = sums @ (~gaps)[order].astype(float)
        totals = sums @ np.where(gaps, 0.0, y)[order]
        return np.where(counts > 0, totals / np.maximum(counts, 1), np.nan)
    if not gaps.any():
        return segment_max(y[order], ends)
    found = segment_max(np.where(gaps, -np.inf, y)[order], ends)
    return np.where(found == -np.inf, np.nan, found)


def _shown(label: Any) -> str:
    """A label for a message; NumPy 1 and 2 print records in their own ways."""
    return str(label.item() if isinstance(label, np.void) else label)


def _common(
    y: np.ndarray,
    names: Sequence[Any],
    codes: np.ndarray,
    order: np.ndarray,
    ends: np.ndarray,
    rule: str,
) -> np.ndarray:
    """The labels that the bags of each group have in common, or an error that names two."""
    gaps = np.zeros(len(y), dtype=bool)
    if y.dtype.kind == "f":
        gaps = np.isnan(y).reshape(len(y), -1).any(axis=1)
    elif y.dtype.kind == "O" and y.ndim == 1:
        gaps = np.array([is_missing(label) for label in y.tolist()], dtype=bool)
    # The first bag with a label of each group, or its first bag.
    rank = order[np.argsort(gaps[order] + 2 * codes[order], kind="stable")]
    first = rank[ends[:-1]]
    known = y.copy()
    known[gaps] = y[first[codes[gaps]]]
    row = differing_row(known, codes, first)
    if row is not None:
        start = first[codes[row]]
        raise ValueError(
            f"Bags {start} and {row} of group {names[codes[row]]!r} have different labels, "
            f"{_shown(y[start])} and {_shown(y[row])}: correct the labels, or choose a rule, such "
            f"as {rule}='any' or {rule}='max'."
        )
    return y[first]
