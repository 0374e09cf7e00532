"""HTML table of a container for notebooks."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np
from scipy import sparse

__all__ = ["bags_html"]

_NAMES = 8  # maximum number of feature names
_UNITS = ("bytes", "kB", "MB", "GB", "TB")


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
    layout = ", CSR" if sparse.issparse(bags.instances) else ""
    rows.append(("dtype", f"{bags.dtype}{layout}"))
    rows.append(("memory", _memory(bags.nbytes)))
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


def _memory(n_bytes: int) -> str:
    value = float(n_bytes)
    for unit in _UNITS:
        if value < 1000 or unit == _UNITS[-1]:
            break
        value /= 1000
    return f"{value:,.3g} {unit}"
