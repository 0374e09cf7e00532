"""``.. api-table::``: all names of the API, with their import paths and first sentences.

The names are those that the other pages of the folder list with ``autosummary``. A field above the
table hides the rows in which the typed text does not occur.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective

FILTER = """
<input type="search" class="form-control api-filter" placeholder="Search names and descriptions"
 aria-label="Search names and descriptions">
<script>
document.querySelector(".api-filter").addEventListener("input", (event) => {
  const wanted = event.target.value.toLowerCase();
  for (const row of document.querySelectorAll("table.autosummary tr")) {
    row.hidden = !row.textContent.toLowerCase().includes(wanted);
  }
});
</script>
"""


def listed_names(folder: Path) -> list[str]:
    """Import paths of the names on the pages of a folder, by module and name."""
    found = []
    for page in sorted(folder.glob("*.rst")):
        for part in page.read_text(encoding="utf-8").split(".. currentmodule:: ")[1:]:
            module, _, text = part.partition("\n")
            found += [f"{module}.{name}" for name in re.findall(r"^   (\w+)$", text, re.MULTILINE)]
    return sorted(found, key=lambda name: (name.rpartition(".")[0], name.lower()))


class ApiTable(SphinxDirective):
    """The table and its field."""

    def run(self) -> list[nodes.Node]:
        folder = Path(self.get_source_info()[0]).parent
        for page in folder.glob("*.rst"):
            self.env.note_dependency(str(page))
        lines = [".. autosummary::", "   :nosignatures:", ""]
        lines += [f"   {name}" for name in listed_names(folder)]
        table = nodes.container(classes=["api-table"])
        self.state.nested_parse(StringList(lines, "api-table"), self.content_offset, table)
        return [nodes.raw("", FILTER, format="html"), table]


def setup(app: Any) -> dict[str, bool]:
    app.add_directive("api-table", ApiTable)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
