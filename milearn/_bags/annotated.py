"""Bags of the cells of donors from AnnData, and results written to it."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._version import removed
from .annotations import bag_columns, data_frame, frame_data
from .canonical import check_columns, frame_names
from .constructors import label_of_bags, labelled


class AnnotatedBags:
    """The methods of :class:`milearn.Bags` that read AnnData and write to it."""

    @classmethod
    def from_anndata(
        cls,
        adata: Any,
        bag: Any = None,
        *,
        label: str | None = None,
        layer: str | None = None,
        obsm: str | None = None,
        instance_data: Any = None,
        bag_data: Any = None,
        missing: str = "nan",
        classes: Any = None,
        return_ids: bool = False,
        **others: Any,
    ) -> Any:
        """Bags from AnnData: a cell is an instance, and a donor or sample is a bag.

        Parameters
        ----------
        adata : anndata.AnnData
            In memory, or in a file, by ``anndata.read_h5ad(path, backed="r")``.
        bag : str
            The column of ``adata.obs`` that names the donor or sample of each cell.
        label : str, default=None
            A column of ``adata.obs`` that is constant within each sample; if given, the labels are
            also returned.
        layer : str, default=None
            The entry of ``adata.layers`` with the features; by default, they are ``adata.X``.
        obsm : str, default=None
            The entry of ``adata.obsm`` with the features, such as "X_pca", in place of a layer.
        instance_data : list of str, or mapping of str to str or list of str, default=None
            Columns of ``adata.obs`` that become columns of the cells, such as ``["leiden"]``, or
            ``{"cell_type": "leiden"}`` with another name.
        bag_data : list of str, or mapping of str to str, default=None
            Columns of ``adata.obs`` that are constant within each sample, such as ``["batch",
            "age"]``. They become columns of the bags.
        missing : {"nan", "error", "drop"}, default="nan"
            What happens to bags without a label, as for :meth:`from_frame`.
        classes : array-like of labels, default=None
            All classes. Another label is an error.
        return_ids : bool, default=False
            Also return the names of the samples.
        **others : None
            Parameters of earlier versions, which are refused.

        Returns
        -------
        Bags, or a tuple (Bags[, y][, ids])
            The index of ``instance_data`` holds the ``obs_names`` of the cells, and that of
            ``bag_data`` the names of the samples, which are also the column ``bag`` of it. Features
            of ``X`` and layers have the names of ``adata.var_names``.

        Raises
        ------
        TypeError
            For something else than AnnData.
        ValueError
            For an unknown column, layer or entry of ``obsm``, a cell without a sample, or a label
            or column of ``bag_data`` that differs within a sample: the message has the sample and
            both values.

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
        >>> X, y = Bags.from_anndata(adata, bag="donor", label="ill")
        >>> X.sizes, y
        (array([2, 1]), array([1, 0]))
        """
        removed("from_anndata", others)
        if others or bag is None:
            raise TypeError(f"from_anndata has no {[*others]}, and needs bag=.")
        bags_type: Any = cls
        matrix, names = _matrix(adata, layer, obsm)
        obs = adata.obs
        check_columns("table obs", [bag, *([] if label is None else [label])], list(obs.columns))
        cells = frame_data(obs, instance_data, "instance_data")
        bags, ids = bags_type.from_ids(
            matrix,
            obs[bag],
            return_ids=True,
            feature_names=names,
            instance_data=obs[[]].assign(**cells).set_axis(obs.index.astype(str)),
            bag_data=frame_data(obs, {bag: bag, **bag_columns(bag_data)}),
        )
        y = None if label is None else label_of_bags(obs[label], obs[bag], classes)
        return labelled(bags, y, missing, ids if return_ids else None)

    def to_anndata(
        self,
        adata: Any,
        *,
        key: str = "milearn",
        instance_data: Any = None,
        bag_data: Any = None,
    ) -> None:
        """Write scores of cells and predictions of samples to AnnData, by the names of the cells.

        Parameters
        ----------
        adata : anndata.AnnData
            It is changed. Its ``obs_names`` may be in any order, and be some of those of the bags,
            or more.
        key : str, default="milearn"
            Start of the names of the columns, and name of the table.
        instance_data : mapping of str to array-like of shape (n_instances, ...), default=None
            Columns of the cells, in the order of ``X.instances``, such as scores or whether a cell
            is selected: ``"score"`` becomes the column ``"milearn_score"`` of ``adata.obs``, and an
            array of two dimensions several columns. Cells that are in no bag have a gap.
        bag_data : data frame or mapping of str to array-like of shape (n_bags,), default=None
            Columns of the samples, such as predictions. ``adata.uns["milearn"]`` becomes a data
            frame of them and of the ``bag_data`` of the bags, with one row per sample.

        Raises
        ------
        ValueError
            For bags that are not from :meth:`from_anndata`, names of cells that are not unique,
            cells of the bags that ``adata`` lacks while it has others, or an array with another
            number of entries.

        Examples
        --------
        >>> from types import SimpleNamespace
        >>> import numpy as np
        >>> import pandas as pd
        >>> from milearn import Bags
        >>> obs = pd.DataFrame({"donor": ["d1", "d2", "d1"]}, index=["c1", "c2", "c3"])
        >>> adata = SimpleNamespace(X=np.eye(3), obs=obs, var_names=["CD3", "CD4", "CD8"], uns={})
        >>> X = Bags.from_anndata(adata, bag="donor")
        >>> X.to_anndata(
        ...     adata, instance_data={"score": [0.1, 0.2, 0.3]}, bag_data={"predicted": [1, 0]}
        ... )
        >>> adata.obs["milearn_score"].tolist(), adata.uns["milearn"]["predicted"].tolist()
        ([0.1, 0.3, 0.2], [1, 0])
        """
        bags: Any = self
        own, others = bags.instance_data.index, adata.obs.index.astype(str)
        if own.dtype.kind in "iuf":
            raise ValueError("The cells of the bags have no names: create them by from_anndata.")
        for which, names in (("adata", others), ("the bags", own)):
            if not names.is_unique:
                twice = names[names.duplicated()][0]
                raise ValueError(
                    f"Two cells of {which} are named {twice!r}: call adata.obs_names_make_unique() "
                    "before from_anndata."
                )
        unknown = own.difference(others)
        if len(unknown) and (len(others.difference(own)) or not len(others)):
            raise ValueError(
                f"{len(unknown)} of {len(own)} cells of the bags are not in adata, such as "
                f"{unknown[0]!r}: pass the adata of from_anndata, or some or all of its cells."
            )
        table, added = bags.bag_data, data_frame(bag_data, len(bags), "bag_data", "bag", bags.names)
        for name in () if added is None else added.columns:
            table[name] = added[name].array
        table.index = table.index.astype(str)
        columns = data_frame(instance_data, bags.n_instances, names=own.to_numpy())
        adata.uns[key] = table
        if columns is not None:
            columns = columns.reindex(others)
            for name in columns.columns:
                adata.obs[f"{key}_{name}"] = columns[name].to_numpy()


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
