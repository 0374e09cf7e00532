"""Bags of the cells of donors from AnnData, and results written to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from .annotations import bag_columns, canonical_bag_data, canonical_data, frame_data
from .canonical import check_columns, frame_names
from .constructors import label_of_bags
from .merge import with_extras

# The array of instance_data with the rows of the cells in AnnData.
_ROWS = "row"


class AnnotatedBags:
    """The methods of :class:`milearn.Bags` that read AnnData and write to it."""

    @classmethod
    def from_anndata(
        cls,
        adata: Any,
        sample_key: str,
        *,
        label_key: str | None = None,
        layer: str | None = None,
        obsm: str | None = None,
        covariates: Any = None,
        instance_data: Mapping[str, Any] | None = None,
        return_ids: bool = False,
    ) -> Any:
        """Bags from AnnData: a cell is an instance, and a donor or sample is a bag.

        Parameters
        ----------
        adata : anndata.AnnData
            In memory, or in a file, by ``anndata.read_h5ad(path, backed="r")``.
        sample_key : str
            The column of ``adata.obs`` that names the donor or sample of each cell.
        label_key : str, default=None
            A column of ``adata.obs`` that is constant within each sample; if given, the labels are
            also returned.
        layer : str, default=None
            The entry of ``adata.layers`` with the features; by default, they are ``adata.X``.
        obsm : str, default=None
            The entry of ``adata.obsm`` with the features, such as "X_pca", in place of a layer.
        covariates : list of str, or mapping of str to str, default=None
            Columns of ``adata.obs`` that are constant within each sample, such as ``["batch",
            "age"]``. They become columns of ``bag_data``.
        instance_data : mapping of str to column name or list of column names, default=None
            Columns of ``adata.obs`` that become arrays of the cells, such as
            ``{"cell_type": "leiden"}``.
        return_ids : bool, default=False
            Also return the names of the samples.

        Returns
        -------
        Bags, or a tuple (Bags[, y][, ids])
            ``instance_data["row"]`` holds the row of each cell in ``adata``, and
            ``bag_data[sample_key]`` the names of the samples. Features of ``X`` and layers have the
            names of ``adata.var_names``.

        Raises
        ------
        TypeError
            For something else than AnnData.
        ValueError
            For an unknown column, layer or entry of ``obsm``, a cell without a sample, or a label
            or covariate that differs within a sample: the message has the sample and both values.

        See Also
        --------
        Bags.to_anndata : Scores of cells and predictions of samples back into AnnData.

        Notes
        -----
        The matrix is not copied if the cells are in the order of their samples. A dense matrix in a
        file that is not compressed is a memory map in any order; integers, sparse and compressed
        matrices are read into memory. The package anndata is only needed to read files.

        Examples
        --------
        >>> from types import SimpleNamespace
        >>> import numpy as np
        >>> import pandas as pd
        >>> from milearn import Bags
        >>> obs = pd.DataFrame({"donor": ["d1", "d2", "d1"], "ill": [1, 0, 1]})
        >>> adata = SimpleNamespace(X=np.eye(3), obs=obs, var_names=["CD3", "CD4", "CD8"])
        >>> X, y = Bags.from_anndata(adata, sample_key="donor", label_key="ill")
        >>> X.sizes, y
        (array([2, 1]), array([1, 0]))
        """
        bags_type: Any = cls
        matrix, names = _matrix(adata, layer, obsm)
        known = [sample_key] if label_key is None else [sample_key, label_key]
        check_columns("table obs", known, list(adata.obs.columns))
        keys = adata.obs[sample_key].to_list()
        columns = {sample_key: sample_key, **bag_columns(covariates)}
        arrays = frame_data(adata.obs, instance_data, "instance_data")
        if _ROWS in arrays:
            raise ValueError(f"instance_data[{_ROWS!r}] holds the rows of adata: rename yours.")
        bags, ids = bags_type.from_ids(
            matrix,
            keys,
            return_ids=True,
            feature_names=names,
            instance_data={**arrays, _ROWS: np.arange(len(keys))},
            bag_data=frame_data(adata.obs, columns),
        )
        values = None if label_key is None else adata.obs[label_key].to_numpy()
        labels = None if values is None else label_of_bags(values, keys)
        return with_extras(bags, labels, ids if return_ids else None)

    def to_anndata(
        self,
        adata: Any,
        *,
        key: str = "milearn",
        instance_data: Mapping[str, Any] | None = None,
        bag_data: Any = None,
    ) -> None:
        """Write scores of cells and predictions of samples to the AnnData of :meth:`from_anndata`.

        Parameters
        ----------
        adata : anndata.AnnData
            It is changed. Its cells must be those that :meth:`from_anndata` got, in their order;
            the bags may be some of them.
        key : str, default="milearn"
            Start of the names of the columns, and name of the table.
        instance_data : mapping of str to array-like of shape (n_instances, ...), default=None
            Arrays of the cells, such as scores or whether a cell is selected: ``"score"`` becomes
            the column ``"milearn_score"`` of ``adata.obs``, or an entry of ``adata.obsm`` if it has
            two dimensions. Cells that are in no bag get NaN, False or an empty text.
        bag_data : data frame or mapping of str to array-like of shape (n_bags,), default=None
            Arrays of the samples, such as predictions. ``adata.uns["milearn"]`` becomes a data
            frame of them and of the ``bag_data`` of the bags, with one row per sample.

        Raises
        ------
        ValueError
            For bags that are not from :meth:`from_anndata`, an ``adata`` with other cells, or an
            array with another number of entries.

        Examples
        --------
        >>> from types import SimpleNamespace
        >>> import numpy as np
        >>> import pandas as pd
        >>> from milearn import Bags
        >>> obs = pd.DataFrame({"donor": ["d1", "d2", "d1"]})
        >>> adata = SimpleNamespace(X=np.eye(3), obs=obs, var_names=["CD3", "CD4", "CD8"], uns={})
        >>> X = Bags.from_anndata(adata, sample_key="donor")
        >>> X.to_anndata(
        ...     adata, instance_data={"score": [0.1, 0.2, 0.3]}, bag_data={"predicted": [1, 0]}
        ... )
        >>> adata.obs["milearn_score"].tolist(), adata.uns["milearn"]["predicted"].tolist()
        ([0.1, 0.3, 0.2], [1, 0])
        """
        bags: Any = self
        if _ROWS not in bags.instance_data:
            raise ValueError(
                f"The bags have no instance_data[{_ROWS!r}]: create them by from_anndata."
            )
        at, n_cells = bags.instance_data[_ROWS], len(adata.obs)
        fits = bool(at.max() < n_cells)
        for name, values in bags.bag_data.items():
            if fits and name in adata.obs.columns and values.dtype.kind != "f":
                fits = bool((np.asarray(adata.obs[name])[at] == values[bags.bag_index]).all())
        if not fits:
            raise ValueError("The cells of adata are not those of the bags: pass the same adata.")
        per_bag = {**bags.bag_data, **canonical_bag_data(bag_data, len(bags), bags.names)}
        columns = {}
        for name, values in canonical_data(instance_data, bags.n_instances).items():
            absent = {"U": "", "b": False}.get(values.dtype.kind, np.nan)
            kind = values.dtype if values.dtype.kind in "Ubf" else np.float64
            columns[name] = np.full((n_cells, *values.shape[1:]), absent, dtype=kind)
            columns[name][at] = values
        table = pd.DataFrame({name: values for name, values in per_bag.items() if values.ndim == 1})
        table.index = (table.index if bags.names is None else bags.names).astype(str)
        adata.uns[key] = table
        for name, values in columns.items():
            (adata.obs if values.ndim == 1 else adata.obsm)[f"{key}_{name}"] = values


def _matrix(adata: Any, layer: str | None, obsm: str | None) -> tuple[Any, Any]:
    """A matrix of the cells, and the names of its columns or None.

    A dense matrix in an HDF5 file that is neither compressed nor in chunks becomes a memory map.
    """
    if not (hasattr(adata, "obs") and hasattr(adata, "X")):
        raise TypeError(
            f"adata is {type(adata).__name__}, without X and obs: read a file by "
            "anndata.read_h5ad(path, backed='r'); Bags.from_frame takes a data frame."
        )
    if obsm is not None:
        if layer is not None:
            raise ValueError("layer and obsm are two matrices: name one of them.")
        check_columns("mapping obsm", [obsm], list(adata.obsm))
        matrix = adata.obsm[obsm]
        return _on_disk(matrix), frame_names(matrix)
    if layer is not None:
        check_columns("mapping layers", [layer], list(adata.layers))
    matrix = adata.X if layer is None else adata.layers[layer]
    if matrix is None:
        raise ValueError(f"adata.X is None: name one of the layers, {sorted(adata.layers)}.")
    return _on_disk(matrix), [str(name) for name in adata.var_names]


def _on_disk(matrix: Any) -> Any:
    if hasattr(matrix, "to_memory"):  # a sparse matrix in a file, which is in chunks
        return matrix.to_memory()
    offset = matrix.id.get_offset() if hasattr(matrix, "chunks") and matrix.chunks is None else None
    if offset is None:
        return matrix
    name, kind, shape = matrix.file.filename, matrix.dtype, matrix.shape
    return np.memmap(name, dtype=kind, mode="r", shape=shape, offset=offset)
