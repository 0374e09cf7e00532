"""Pages of the documentation: what has to be listed, and the links of the built site."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import milearn
from milearn.utils import all_estimators

CHECKOUT = Path(__file__).resolve().parents[2]
DOCS = CHECKOUT / "docs"
SITE = DOCS / "_build" / "html"


def test_every_estimator_has_a_line_on_how_to_cite_it():
    listed = set(re.findall(r":class:`~milearn(?:\.\w+)*\.(\w+)`", (DOCS / "cite.rst").read_text()))
    assert {name for name, _ in all_estimators()} <= listed


def test_version_and_date_are_the_same_wherever_they_are_written():
    cited = (CHECKOUT / "CITATION.cff").read_text(encoding="utf-8")
    changes = (CHECKOUT / "CHANGELOG.md").read_text(encoding="utf-8")
    released = re.findall(r"^## (\d\S*) \((\d\S*)\)$", changes, re.MULTILINE)[0]
    assert released[0] == milearn.__version__
    assert re.findall(r"^(?:version|date-released): (\S+)$", cited, re.MULTILINE) == [*released]
    assert f"version {released[0]}" in (CHECKOUT / "README.md").read_text(encoding="utf-8")
    bibtex = (DOCS / "cite.rst").read_text(encoding="utf-8")
    assert re.findall(r"^ +(?:version|year) += \{(\S+)\}", bibtex, re.MULTILINE) == [
        released[0],
        released[1][:4],
    ]


def test_examples_are_numbered_and_begin_with_a_title():
    scripts = sorted((DOCS / "examples").glob("*.py"))
    assert [int(path.name[:2]) for path in scripts] == list(range(1, len(scripts) + 1))
    for path in scripts:
        lines = path.read_text(encoding="utf-8").splitlines()
        assert lines[0] == '"""'
        assert lines[2] == "=" * len(lines[1])


class _Page(HTMLParser):
    """Links, names of anchors and pictures of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.without_alt: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.anchors |= {given[key] for key in ("id", "name") if given.get(key)}
        for key in ("href", "src"):
            if tag in ("a", "img", "link", "script") and given.get(key):
                self.links.append(given[key])
        if tag == "img" and "alt" not in given:
            self.without_alt.append(given.get("src", ""))


def broken_links(site):
    """Links to files or anchors of a site that are not there, and pictures without a text."""
    site = site.resolve()  # as the targets below are, where the folder is a link
    pages = {
        path: _Page(path.read_text(encoding="utf-8"))
        for path in sorted(site.rglob("*.html"))
        if "_static" not in path.parts  # templates of the theme
    }
    for path, page in pages.items():
        where = path.relative_to(site)
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if target.is_dir():
                target = target / "index.html"
            if not target.is_file():
                yield f"{where}: {link}"
            elif parts.fragment and unquote(parts.fragment) not in pages[target].anchors:
                yield f"{where}: {link} (no such place)"
        for picture in page.without_alt:
            yield f"{where}: {picture} has no alternative text"


@pytest.fixture(scope="module")
def site():
    if not (SITE / "index.html").is_file():
        pytest.skip("the documentation is not built: python -m sphinx docs docs/_build/html")
    return SITE


def test_all_links_inside_of_the_built_site_lead_somewhere(site):
    assert list(broken_links(site)) == []


def test_every_page_is_there_as_text_and_listed(site):
    listed = re.findall(r"\]\(([^)]+)\)", (site / "llms.txt").read_text(encoding="utf-8"))
    assert "start.txt" in listed
    assert len(listed) > 100
    for name in listed:
        assert (site / name).read_text(encoding="utf-8").strip()
    assert "cross_val_score" in (site / "llms-full.txt").read_text(encoding="utf-8")
