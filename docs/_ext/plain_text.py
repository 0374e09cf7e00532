"""Plain-text version of the site: ``llms.txt`` lists the pages, each of which is there as text.

``guide/save.html`` has ``guide/save.txt`` next to it, the source of the page; pages of the API are
written from their docstrings. ``llms-full.txt`` holds guide and methods in one file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sphinx.builders.text import TextBuilder
from sphinx.writers.text import TextTranslator

SECTIONS = (
    ("Start", ("index", "start", "install")),
    ("Tutorials", ("tutorials/",)),
    ("Guide", ("guide/",)),
    ("Methods", ("methods/", "algorithms/")),
    ("Examples", ("gallery/",)),
    ("API", ("api/",)),
    ("Results", ("results/",)),
    ("About", ("about/",)),
    ("More", ("",)),
)
LEFT_OUT = ("gallery/backreferences", "gallery/sg_execution_times", "sg_execution_times")


class Writer(TextTranslator):
    """Text of a page; what only a browser draws is left out."""

    def unknown_visit(self, node: Any) -> None:
        return None

    def unknown_departure(self, node: Any) -> None:
        return None


def write_pages(app: Any, error: Exception | None) -> None:
    if error is not None or app.builder.format != "html":
        return
    target = Path(app.outdir)
    builder = TextBuilder(app, app.env)
    builder.init()
    listed: dict[str, list[str]] = {name: [] for name, _ in SECTIONS}
    whole = []
    for page in sorted(app.env.found_docs):
        if page.startswith(LEFT_OUT):
            continue
        document = app.env.get_and_resolve_doctree(page, builder)
        writer = Writer(document, builder)
        document.walkabout(writer)
        text = writer.body
        (target / f"{page}.txt").write_text(text, encoding="utf-8")
        section = next(
            name for name, starts in SECTIONS if any(page.startswith(start) for start in starts)
        )
        title = app.env.titles[page].astext()
        listed[section].append(f"- [{title}]({page}.txt)")
        if section in ("Start", "Tutorials", "Guide", "Methods", "Examples"):
            whole.append(text)
    lines = [
        f"# {app.config.project} {app.config.release}",
        "",
        "> Multiple-instance learning for scikit-learn: classification, regression and clustering",
        "> of bags of instances when only the bags have labels. Begin with MIClassifier.",
        "",
    ]
    for name, entries in listed.items():
        if entries:
            lines += [f"## {name}", "", *entries, ""]
    (target / "llms.txt").write_text("\n".join(lines), encoding="utf-8")
    (target / "llms-full.txt").write_text("\n\n".join(whole), encoding="utf-8")


def setup(app: Any) -> dict[str, bool]:
    app.connect("build-finished", write_pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
