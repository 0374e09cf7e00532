"""Choice of instances within bags, and further arrays of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from .annotations import data_frame
from .canonical import check_choice, check_positive
from .names import bag_text
from .segments import offsets_of


class InstanceChoice:
    """The methods of :class:`milearn.Bags` that choose and annotate instances."""

    def select_instances(self, mask: Any, *, empty: str = "error") -> Any:
        """The same bags with some of their instances, such as patches that show tissue.

        Parameters
        ----------
        mask : array-like of bool of shape (n_instances,)
            True for the instances that are kept, in the order of ``instances``.
        empty : {"error", "drop"}, default="error"
            Whether a bag without an instance that is kept is an error, which names it, or is left
            out. Labels of the bags that are left are then ``y[np.isin(old.names, new.names)]``.

        Returns
        -------
        Bags
            With the names, the data and the graphs between what is left. If bags are left out and
            have no names, those that are left get their positions as names: ``y[new.names]``.

        Raises
        ------
        ValueError
            For another number of entries than instances, entries that are not Boolean, or bags
            that would be empty.

        See Also
        --------
        sample_instances : Some instances of each bag at random.

        Examples
        --------
        >>> from milearn import Bags
        >>> bags = Bags.from_list({"a": [[0.1], [0.9]], "b": [[0.8]]})
        >>> bags.select_instances(bags.instances[:, 0] > 0.5).instances.tolist()
        [[0.9], [0.8]]
        """
        bags: Any = self
        check_choice("empty", empty, ("error", "drop"))
        kept = np.asarray(mask)
        if kept.dtype == object and all(isinstance(each, (bool, np.bool_)) for each in kept.flat):
            kept = kept.astype(bool)
        if kept.shape != (bags.n_instances,) or kept.dtype != bool:
            raise ValueError(
                f"mask has shape {kept.shape} and type {kept.dtype}: give True or False for each "
                f"of the {bags.n_instances} instances; for positions in X.instances pass "
                "np.isin(np.arange(X.n_instances), positions)."
            )
        sizes = np.add.reduceat(kept, bags.offsets[:-1], dtype=np.intp) if len(bags) else kept
        gone = np.flatnonzero(sizes == 0)
        if len(gone) and (empty == "error" or len(gone) == len(bags)):
            shown = ", ".join(bag_text(bags, int(bag)) for bag in gone[:3])
            raise ValueError(
                f"No instance is left in {len(gone)} of {len(bags)} bags ({shown}"
                f"{', ...' if len(gone) > 3 else ''}): keep one at least, or pass empty='drop'."
            )
        left, rows = np.flatnonzero(sizes), np.flatnonzero(kept)
        offsets, stored = offsets_of(sizes[left]), bags.instance_rows
        lazy = hasattr(stored, "of_rows")
        chosen = stored.of_rows(rows, offsets) if lazy else stored[rows]
        found = bags._derived(chosen, offsets, left, rows)
        return found._changed(names=left) if len(gone) and found.names is None else found

    def sample_instances(self, n: int, *, random_state: Any = None) -> Any:
        """The same bags with at most ``n`` instances each, drawn without replacement.

        Parameters
        ----------
        n : int
            Maximum size of a bag; smaller bags are kept as they are.
        random_state : int, RandomState instance or None, default=None
            Seed of the draw.

        Returns
        -------
        Bags
            The instances of a bag keep their order.

        Raises
        ------
        TypeError, ValueError
            For an ``n`` that is not a positive integer.

        See Also
        --------
        select_instances : The instances of a mask.

        Examples
        --------
        >>> from milearn import Bags
        >>> bags = Bags.from_list([[[1.0], [2.0], [3.0]], [[4.0]]])
        >>> bags.sample_instances(2, random_state=0).sizes
        array([2, 1])
        """
        bags: Any = self
        check_positive(n=n)
        keys = check_random_state(random_state).random_sample(bags.n_instances)
        order = np.lexsort((keys, bags.bag_index))
        mask = np.zeros(bags.n_instances, dtype=bool)
        mask[order[np.arange(bags.n_instances) - bags.offsets[bags.bag_index] < n]] = True
        return bags.select_instances(mask)

    def with_instance_data(self, **arrays: Any) -> Any:
        """The same bags with further arrays of the instances, such as scores.

        Parameters
        ----------
        **arrays : array-like of shape (n_instances,) or (n_instances, n_columns)
            Columns by name, in the order of ``instances``. They are added to those of the bags, or
            replace them. An array of two dimensions becomes the columns ``name_0``, ``name_1``, ...

        Returns
        -------
        Bags
            With the instances, graphs, names and bag data of these bags.

        Raises
        ------
        ValueError, TypeError
            As for :class:`Bags`.

        Examples
        --------
        >>> from milearn import Bags
        >>> bags = Bags.from_list([[[1.0], [2.0]], [[4.0]]])
        >>> bags.with_instance_data(score=[0.1, 0.7, 0.2]).instance_data["score"].tolist()
        [0.1, 0.7, 0.2]
        """
        bags: Any = self
        data = bags.instance_data
        own = None if data.index.dtype.kind in "iuf" else data.index.to_numpy()
        added = data_frame(arrays, bags.n_instances, names=own)
        for name in () if added is None else added.columns:
            data[name] = added[name].array
        return bags._changed(instance_data=data if len(data.columns) else None)
