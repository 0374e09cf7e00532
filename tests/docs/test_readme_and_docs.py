"""Examples of README and guide, and completeness of the API reference."""

from __future__ import annotations

import doctest
import pkgutil
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import milearn.model_selection

CHECKOUT = Path(__file__).resolve().parents[2]
README = (CHECKOUT / "README.md").read_text(encoding="utf-8")
GUIDE = sorted((CHECKOUT / "docs" / "guide").glob("*.rst"))


def code_blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", README, flags=re.MULTILINE | re.DOTALL)


def test_the_example_of_the_readme_runs_as_it_stands(tmp_path):
    (block,) = code_blocks("python")
    lines = [line for line in block.splitlines() if line.strip()]
    assert len(lines) <= 5, "a first look should stay short"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", block], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    shown = re.findall(r"# prints (.*)", block)
    assert done.stdout.split() == " ".join(shown).split()


def test_the_commands_of_the_readme_make_their_own_environment():
    commands = [line for block in code_blocks("bash") for line in block.splitlines() if line]
    assert len(commands) == 2
    for command in commands:
        assert command.startswith("python3 -m venv .venv && .venv/bin/")
        assert "activate" not in command
    assert commands[0].endswith(".venv/bin/python -m benchmarks quick")


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


def test_the_readme_lists_every_estimator_and_no_other():
    from milearn.utils import all_estimators

    public = {name for name, _ in all_estimators()}
    table = README.partition("## What is in it")[2].partition("\n## ")[0]
    listed = set(re.findall(r"^\| `(\w+)", table, flags=re.MULTILINE))
    assert public <= listed, "estimators without a row in the README's table"
    others = listed - public - {"Bags"} - set(milearn.model_selection.__all__)
    assert not others, "rows in the README's table that are no estimators"


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
    text = (CHECKOUT / "docs" / "api" / "index.rst").read_text(encoding="utf-8")
    listed: set[str] = set()
    for part in text.split(".. currentmodule:: ")[1:]:
        entries = part.partition(":toctree: generated/")[2]
        listed |= set(re.findall(r"^   (\w+)$", entries, flags=re.MULTILINE))
    missing = sorted({f"{module}.{name}" for module, name in public_names() if name not in listed})
    assert not missing, f"add to docs/api/index.rst: {', '.join(missing)}"


@pytest.mark.parametrize("page", GUIDE, ids=[page.stem for page in GUIDE])
def test_the_examples_of_the_guide_run(page):
    failures, _ = doctest.testfile(
        str(page),
        module_relative=False,
        optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS,
        encoding="utf-8",
    )
    assert failures == 0
