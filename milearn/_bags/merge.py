"""Bags of one group merged to one bag, such as the slides of a patient."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from scipy import sparse

from .annotations import between, entries_of_groups, entry_of_groups, taken_rows
from .canonical import canonical_csr, check_choice, check_length
from .kinds import are_missing, group_by_id, numbers, targets
from .names import bag_text, check_index
from .segments import gather_rows, pooling_matrix, segment_max

# What group_by_id returns: names of the groups, group of each bag, bags by group, and its ends.
Groups = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
LABEL_RULES = ("equal", "any", "max", "mean")
_TWO_BAGS = "Bags {first} and {row} of group {name!r} have"


class BagMerging:
    """The method of :class:`milearn.Bags` that merges bags."""

    def merge(
        self,
        groups: Any,
        y: Any = None,
        *,
        how: str = "equal",
        sample_weight: Any = None,
        source: str | None = "bag",
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
        source : str or None, default="bag"
            Name of the array of ``instance_data`` that gets the name or number of the bag from
            which each instance comes, such as the slide; None leaves it out.
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
            number of groups, labels or weights that is not that of the bags, labels that do not fit
            ``how``, or a ``source`` that exists in ``instance_data``.

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
        >>> patients.instance_data["bag"].tolist()
        [0, 0, 2, 1]
        """
        bags: Any = self
        check_choice("how", how, LABEL_RULES)
        for values, what in ((groups, "groups"), (y, "y"), (sample_weight, "sample_weight")):
            check_index(values, bags.names, what)
        names, codes, order, ends = grouped(groups, len(bags), bags)
        first = order[ends[:-1]]
        words = {"who": _TWO_BAGS, "advice": "leave the column out by with_bag_data"}
        columns = entries_of_groups(bags._annotations["bag_data"], codes, first, names, **words)
        data = bags.instance_data
        if source in data:
            raise ValueError(f"instance_data[{source!r}] exists already: pass another source=.")
        if source is not None:
            own = np.arange(len(bags)) if bags.names is None else bags.names
            data[source] = own[bags.bag_index]
        in_order = bool((np.diff(order) == 1).all())
        rows, offsets = gather_rows(bags.offsets, order)
        stored, graph, links = bags.instance_rows, bags.bag_graph, bags.instance_graph
        if hasattr(stored, "merged"):  # in a file, of which nothing is read
            stored = stored.merged(order, ends)
        elif not in_order:
            stored = stored[rows]
        if not in_order:
            data = taken_rows(data, rows)
            links = between(links, rows)
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
            instance_data=data if len(data.columns) else None,
            bag_data=columns if columns is None else columns.set_axis(names),
            names=names,
        )
        labels = weights = None
        if y is not None:
            labels = group_labels(y, how, (names, codes, order, ends))
        if sample_weight is not None:
            weights = numbers(sample_weight, "sample_weight", place=partial(bag_text, bags))
            weights = np.bincount(codes, weights, len(names))
        return with_extras(merged, labels, weights, names if return_groups else None)


def with_extras(bags: Any, *extras: Any) -> Any:
    """The bags, or a tuple with those of the labels, weights and identifiers that are not None."""
    out = (bags, *(each for each in extras if each is not None))
    return bags if len(out) == 1 else out


def grouped(groups: Any, n_bags: int, bags: Any = None) -> Groups:
    """Bags by group, as :func:`.kinds.group_by_id` returns them, or an error."""
    found = group_by_id(groups, "groups", partial(bag_text, bags))
    check_length("groups", found[1], n_bags)
    return found


# -- labels ----------------------------------------------------------------------------------------


def group_labels(y: Any, how: str, groups: Groups, *, rule: str = "how") -> np.ndarray:
    """Labels of groups, which are those of :func:`.kinds.group_by_id`.

    ``how`` is that of :meth:`BagMerging.merge`, and ``rule`` its name in messages.
    """
    names, codes, order, ends = groups
    values = check_length("y", np.asarray(targets(y)), len(codes))
    if how == "equal":
        gaps: Any = are_missing(values).any(axis=tuple(range(1, values.ndim)))
        # The first bag with a label of each group, or its first bag.
        first = order[np.argsort(gaps[order] + 2 * codes[order], kind="stable")][ends[:-1]]
        known = values.copy()
        known[gaps] = values[first[codes[gaps]]]
        advice = f"correct the labels, or choose a rule, such as {rule}='any' or {rule}='max'"
        return entry_of_groups(known, codes, first, names, "labels", who=_TWO_BAGS, advice=advice)
    is_plain = values.dtype.kind in "biuf" and not hasattr(getattr(y, "dtype", None), "categories")
    y = values if is_plain else numbers(y, f"y of {rule}={how!r}")
    gaps = are_missing(y)
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
