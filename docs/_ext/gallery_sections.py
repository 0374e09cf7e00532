"""Sections of the page that lists the examples.

sphinx-gallery divides examples by folders, and the folder is a part of the addresses of the pages
and pictures. The examples stay in one folder, and their list is divided here.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from sphinx.errors import ExtensionError

# Numbers of the examples in the order of the page.
SECTIONS = {
    "First steps": (1, 2, 3),
    "Pathology": (11, 15, 14),
    "Other data": (10, 16, 19, 21, 20),
    "Evaluation": (4, 5, 6, 17, 18),
    "Methods": (7, 8, 9, 12, 13),
}
_CARD = re.compile(
    r"\.\. raw:: html\n\n    <div class=\"sphx-glr-thumbcontainer\".*?"
    r":doc:`/gallery/(\d+)_.*?\n    </div>\n",
    re.DOTALL,
)
_OPEN = '.. raw:: html\n\n    <div class="sphx-glr-thumbnails">\n\n'
_CLOSE = "\n.. raw:: html\n\n    </div>\n"


def divided(page: str) -> str:
    """The page that sphinx-gallery wrote, with a heading for each section."""
    cards = {int(found[1]): found[0] for found in _CARD.finditer(page)}
    listed = [number for numbers in SECTIONS.values() for number in numbers]
    if missing := sorted(set(cards) - set(listed)):
        raise ExtensionError(f"Example {missing[0]} is in no section of {__file__}.")
    parts = []
    for title, numbers in SECTIONS.items():
        shown = "\n\n".join(cards[number] for number in numbers if number in cards)
        parts.append(f"{title}\n{'-' * len(title)}\n\n{_OPEN}{shown}{_CLOSE}")
    begin = page.index(_OPEN.rstrip("\n"))
    end = page.index(".. toctree::", begin)
    return page[:begin] + "\n\n".join(parts) + "\n\n" + page[end:]


def divide_page(app: Any) -> None:
    path = Path(app.srcdir) / "gallery" / "index.rst"
    path.write_text(divided(path.read_text(encoding="utf-8")), encoding="utf-8")


def setup(app: Any) -> dict[str, bool]:
    app.connect("builder-inited", divide_page, priority=900)  # after sphinx-gallery
    return {"parallel_read_safe": True, "parallel_write_safe": True}
