"""Docstrings of public names: links to the guide, versions, examples and lengths."""

from __future__ import annotations

import inspect
import re
import runpy
from importlib import import_module
from pathlib import Path

import pytest

from tests.docs.test_readme_and_docs import public_names

DOCS = Path(__file__).resolve().parents[2] / "docs"
MAX_WORDS = 600  # of a class, without formulas, types, references and examples
# Names for authors of estimators have no page in the user guide.
DEVELOPMENT = ("milearn.base", "milearn.exceptions", "milearn.utils")
OBJECTS = sorted(
    {
        f"{module}.{name}": getattr(import_module(module), name)
        for module, name in public_names()
        if callable(getattr(import_module(module), name))
    }.items()
)


def words(docstring):
    """Number of words that a reader of a docstring has to read."""
    sections = re.split(r"\n(?=[A-Z][\w ]+\n-+\n)", docstring)
    text = "\n".join(one for one in sections if not one.startswith(("References\n", "Examples\n")))
    text = re.sub(r"^( *)\.\. math::.*\n(?:\n|\1 +.*\n)*", "", text, flags=re.MULTILINE)
    text = re.sub(r"^(\w[\w, ]*) : .*(?=\n    )", r"\1", text, flags=re.MULTILINE)
    return sum(bool(re.search("[A-Za-z]", word)) for word in text.split())


@pytest.mark.parametrize(("name", "each"), OBJECTS, ids=[name for name, _ in OBJECTS])
def test_docstrings_have_a_version_and_an_example(name, each):
    docstring = inspect.getdoc(each)
    assert re.search(r"^\.\. versionadded:: 0\.[123]\.0$", docstring, re.MULTILINE)
    assert "\nExamples\n--------\n" in docstring


def test_docstrings_link_to_pages_of_the_guide():
    pages = [path for path in DOCS.rglob("*.rst") if "_build" not in path.parts]
    text = "\n".join(path.read_text(encoding="utf-8") for path in pages)
    labels = set(re.findall(r"^\.\. _([\w-]+):$", text, re.MULTILINE))
    link = re.compile(r"^Read more in the :ref:`User Guide <(\w+)>`\.$", re.MULTILINE)
    linked = {
        name: link.findall(inspect.getdoc(each))
        for name, each in OBJECTS
        if not name.startswith(DEVELOPMENT)
    }
    assert {name for name, found in linked.items() if len(found) != 1} == set()
    assert {name: found for name, found in linked.items() if not labels.issuperset(found)} == {}


def test_docstrings_of_classes_are_short():
    counts = {name: words(inspect.getdoc(each)) for name, each in OBJECTS if inspect.isclass(each)}
    assert {name: n for name, n in counts.items() if n > MAX_WORDS} == {}


def test_stored_inventories_hold_the_names_that_are_linked_to():
    inventory = pytest.importorskip("sphinx.util.inventory").InventoryFile
    script = runpy.run_path(str(DOCS / "_inventories" / "make.py"))
    for project in script["PAGES"]:
        with (DOCS / "_inventories" / f"{project}.inv").open("rb") as file:
            stored = inventory.load(file, "", lambda base, page: page)
        names = {name for kind in ("py:class", "py:function") for name in stored.get(kind, {})}
        linked = set(script["used_names"](project))
        assert linked <= names, "run python docs/_inventories/make.py"
