"""Repairs of the HTML that theme and extensions write.

An HTML checker and an accessibility check found these; each rule names what it is about and goes
once its origin has mended it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

RULES: tuple[tuple[str, str], ...] = (
    # sphinx-gallery: an attribute that HTML does not have.
    (r'(<div class="sphx-glr-thumbcontainer") tooltip=', r"\1 title="),
    # Theme: a name that differs from the text of the button, which speech input goes by.
    (
        r'(<button[^>]*class="btn search-button-field[^>]*) aria-label="Search"',
        r'\1 aria-label="Search Ctrl+K"',
    ),
    # Theme: a toggle of the side bar without a name.
    (r'<summary(?=><span class="toctree-toggle")', '<summary aria-label="Subpages"'),
    # Tables whose first column has no heading: an empty cell is no heading.
    (r'<th(?: class="head")?>(?:<p>\s*</p>)?\s*</th>', "<td></td>"),
    # Sphinx: a role that ARIA has deprecated, and that may not stand in a list.
    (r' role="doc-biblioentry"', ' role="listitem"'),
    # pandas: scoped styles were never part of HTML.
    (r"<style scoped>.*?</style>", ""),
)
_PRE = re.compile(r"<pre>.*?</pre>", flags=re.DOTALL)


def mended(text: str) -> str:
    """A page after all rules."""
    for pattern, replacement in RULES:
        text = re.sub(pattern, replacement, text, flags=re.DOTALL)
    # viewcode: blocks inside of preformatted text, where only spans may be.
    return _PRE.sub(
        lambda found: found[0].replace("<div", "<span").replace("</div>", "</span>"), text
    )


def mend_pages(app: Any, error: Exception | None) -> None:
    if error is not None or app.builder.format != "html":
        return
    for path in Path(app.outdir).rglob("*.html"):
        if "_static" in path.parts:
            continue
        text = path.read_text(encoding="utf-8")
        better = mended(text)
        if better != text:
            path.write_text(better, encoding="utf-8")


def setup(app: Any) -> dict[str, bool]:
    app.connect("build-finished", mend_pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
