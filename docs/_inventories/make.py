"""Write the inventories with which links to other projects work without a network.

Run ``python docs/_inventories/make.py`` after a docstring or page links to a new name. Each
inventory holds only the names that are used here, with the addresses that each project gives to
its pages.
"""

from __future__ import annotations

import inspect
import re
import zlib
from importlib import import_module
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
CHECKOUT = FOLDER.parents[1]
# Title of a project, and the page of a name on its site; Sphinx writes "$" for the name itself.
PAGES = {
    "joblib": ("joblib", "generated/{name}.html#$"),
    "numpy": ("NumPy", "reference/generated/{name}.html#$"),
    "scipy": ("SciPy", "reference/generated/{name}.html#$"),
    "sklearn": ("scikit-learn", "modules/generated/{name}.html#$"),
}
_ROLE = re.compile(r":(?:class|func|meth|obj|exc):`(?:[^`<]*<)?[~!]?([\w.]+)>?`")


def used_names(project: str) -> list[str]:
    """Names of a project that the package and its documentation link to."""
    folders = (CHECKOUT / "milearn", CHECKOUT / "docs")
    paths = [
        path
        for folder in folders
        for suffix in ("py", "rst")
        for path in folder.rglob(f"*.{suffix}")
        if not {"_build", "gallery", "generated"} & set(path.parts)
    ]
    found = {name for path in paths for name in _ROLE.findall(path.read_text(encoding="utf-8"))}
    return sorted(name for name in found if name.split(".")[0] == project)


def kind(name: str) -> str:
    """Type of a name in Sphinx's terms; fails for a name that does not exist."""
    module, _, last = name.rpartition(".")
    return "class" if inspect.isclass(getattr(import_module(module), last)) else "function"


def main() -> None:
    for project, (title, page) in PAGES.items():
        rows = [
            f"{name} py:{kind(name)} 1 {page.format(name=name)} -\n" for name in used_names(project)
        ]
        header = (
            "# Sphinx inventory version 2\n"
            f"# Project: {title}\n"
            "# Version: \n"
            "# The remainder of this file is compressed using zlib.\n"
        )
        content = header.encode() + zlib.compress("".join(rows).encode(), 9)
        (FOLDER / f"{project}.inv").write_bytes(content)
        print(f"{project}: {len(rows)} names")


if __name__ == "__main__":
    main()
