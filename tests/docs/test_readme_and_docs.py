"""Examples of README and guide, and completeness of the API reference."""

from __future__ import annotations

import doctest
import pkgutil
import re
import subprocess
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

import milearn
from milearn import MIClassifier

CHECKOUT = Path(__file__).resolve().parents[2]
README = (CHECKOUT / "README.md").read_text(encoding="utf-8")
DOCS = CHECKOUT / "docs"
FOLDERS = ("tutorials", "guide", "methods", "about")
GUIDE = [
    DOCS / "start.rst",
    *sorted(page for name in FOLDERS for page in (DOCS / name).glob("*.rst")),
]


def code_blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", README, flags=re.MULTILINE | re.DOTALL)


def test_the_example_of_the_readme_is_short_and_tells_what_it_prints():
    # .ci/distributions runs it in an environment of its own, and compares what it prints.
    (block,) = code_blocks("python")
    assert len([line for line in block.splitlines() if line.strip()]) <= 9
    assert block.count("print(") == block.count("# prints ") == 1


def test_ci_runs_the_test_command_of_the_readme_and_has_none_of_its_own():
    command = next(
        line for block in code_blocks("bash") for line in block.split("\n") if "pytest" in line
    )
    printed = subprocess.run(
        [str(CHECKOUT / ".ci" / "run"), "--print-test-command"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    assert printed == command


def test_the_readme_is_short():
    assert len(README.split()) <= 500


def public_names():
    modules = ["milearn"]
    for info in pkgutil.walk_packages(milearn.__path__, prefix="milearn."):
        if not any(part.startswith("_") for part in info.name.split(".")):
            modules.append(info.name)
    for module in modules:
        for name in getattr(import_module(module), "__all__", []):
            if not name.startswith("__"):
                yield module, name


def test_every_public_name_is_in_the_api_reference():
    folder = CHECKOUT / "docs" / "api"
    listed: set[str] = set()
    for page in folder.glob("*.rst"):
        for part in page.read_text(encoding="utf-8").split(".. currentmodule:: ")[1:]:
            entries = part.partition(":toctree: generated/")[2]
            listed |= set(re.findall(r"^   (\w+)$", entries, flags=re.MULTILINE))
    missing = sorted({f"{module}.{name}" for module, name in public_names() if name not in listed})
    assert not missing, f"add to a page of docs/api: {', '.join(missing)}"
    index = (folder / "index.rst").read_text(encoding="utf-8")
    pages = {page.stem for page in folder.glob("*.rst")} - {"index"}
    assert pages == set(re.findall(r"^ +(\w+)$", index, flags=re.MULTILINE))


def test_the_chart_of_estimators_links_to_public_names():
    chart = (DOCS / "guide" / "chart.svg").read_text(encoding="utf-8")
    links = re.findall(r'<a href="\.\./api/generated/([\w.]+)\.html"><rect[^>]*/>(.*?)</a>', chart)
    assert len(links) == chart.count("<a ") > 10
    public = {f"{module}.{name}" for module, name in public_names()}
    for target, texts in links:
        assert target in public
        assert target.rpartition(".")[2] in texts or "pooling=" in texts


NEEDS = re.compile(r"^\.\. needs: (.+)$")


def libraries_by_line(lines):
    """Libraries that the examples of a page need, by line.

    A comment ``.. needs: a, b`` holds for the examples below it, up to the next text that is not
    indented.
    """
    needed: list[list[str]] = []
    current: list[str] = []
    in_examples = False
    for line in lines:
        found = NEEDS.match(line)
        if found:
            current, in_examples = re.split(r",\s*", found[1].strip()), False
        elif line.startswith(">>>"):
            in_examples = True
        elif not line.strip():
            # A blank line ends the output of an example; text after it ends the comment's reach.
            in_examples = False
        elif not in_examples:
            current = []
        needed.append(current)
    return needed


def guide_examples(page):
    """The examples of a page that can run here, and the libraries that the others need."""
    text = page.read_text(encoding="utf-8")
    needed = libraries_by_line(text.splitlines())
    test = doctest.DocTestParser().get_doctest(text, {}, page.stem, str(page), 0)
    missing: set[str] = set()
    kept = []
    for example in test.examples:
        absent = [name for name in needed[example.lineno] if find_spec(name) is None]
        missing.update(absent)
        if not absent:
            kept.append(example)
    test.examples = kept
    return test, missing


@pytest.mark.parametrize("page", GUIDE, ids=[str(page.relative_to(DOCS)) for page in GUIDE])
def test_the_examples_of_the_guide_run(page, monkeypatch):
    if page.stem == "migration":  # what it shows is the same for any model
        monkeypatch.setattr("milearn.MIClassifier", partial(MIClassifier, time_limit=1e-9))
    test, missing = guide_examples(page)
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    assert runner.run(test).failed == 0
    if missing:
        pytest.skip(f"the examples that need {', '.join(sorted(missing))} were left out")
