"""Figures of README, guide and results against what the commands printed (``docs/results``)."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from benchmarks.common.output import SUFFIX, read_page

CHECKOUT = Path(__file__).resolve().parents[2]
RESULTS = CHECKOUT / "docs" / "results"
# A figure: no part of a name such as Musk1, and no list index.
FIGURE = re.compile(r"(?<![\w.])-?\d+(?:[.,]\d+)*(?:e-?\d+)?(?![\w]|\.\d)")


def figures(text):
    # "1,460" and "1460" are one figure.
    return {found.replace(",", "") for found in FIGURE.findall(text)}


def printed_by(names):
    """Figures of recorded files, AUC x 100 also as AUC."""
    found: set[str] = set()
    for name in names:
        found |= figures(read_page(RESULTS / f"{name}{SUFFIX}").text())
    decimals = {each for each in found if re.fullmatch(r"\d+\.\d", each)}
    return found | {f"{float(each) / 100:.3f}" for each in decimals}


def sections(text):
    """Sections of the page of results, each with the recorded files that its box names."""
    for section in re.split(r"^\.\. _results_\w+:$", text, flags=re.MULTILINE):
        for names in re.findall(r"^\.\. reproduce:: (.+)$", section, flags=re.MULTILINE):
            yield names.split(), section


INDEX = (RESULTS / "index.rst").read_text(encoding="utf-8")


def decimals_of(text):
    return {each for each in figures(text) if "." in each}


@pytest.mark.parametrize(("names", "section"), list(sections(INDEX)))
def test_every_decimal_of_the_results_was_printed_by_a_command_of_its_box(names, section):
    strangers = sorted(decimals_of(section) - printed_by(names))
    assert not strangers, f"not printed by {', '.join(names)}: {', '.join(strangers)}"


def test_every_decimal_of_readme_limits_and_paper_is_one_of_the_results():
    known = decimals_of(INDEX) | figures(read_page(RESULTS / f"goals{SUFFIX}").text())
    text = (CHECKOUT / "README.md").read_text(encoding="utf-8")
    found = re.search(r"^## Results$.*?(?=^## )", text, re.MULTILINE | re.DOTALL)
    assert found is not None
    limits = (CHECKOUT / "docs" / "about" / "limits.rst").read_text(encoding="utf-8")
    paper = (CHECKOUT / "docs" / "paper" / "paper.md").read_text(encoding="utf-8")
    for page in (found[0], limits.replace("before version 1.0", ""), paper):
        assert decimals_of(page)
        assert decimals_of(page) <= known


def test_areas_of_attention_are_those_that_were_printed():
    page = (CHECKOUT / "docs" / "about" / "software.rst").read_text(encoding="utf-8")
    shown = set(re.findall(r"^ +- (0\.\d{3})$", page, re.MULTILINE))
    assert shown
    assert shown <= printed_by(["needles"])


def test_the_page_of_results_has_a_plot_per_section_and_all_files(tmp_path):
    script = runpy.run_path(str(CHECKOUT / "docs" / "plots.py"))
    wanted = re.findall(r"^   :plot: (\w+)$", INDEX, flags=re.MULTILINE)
    assert wanted == list(script["PLOTS"])
    assert re.findall(r"figure:: ../_static/results-(\w+)\.png", INDEX) == wanted
    script["main"](["--out", str(tmp_path)])
    assert len(list(tmp_path.glob("results-*.png"))) == len(wanted)
    assert INDEX.rstrip().endswith(".. reproduce::")
    strangers = [
        path.name for path in RESULTS.iterdir() if not path.name.endswith((SUFFIX, ".rst"))
    ]
    assert not strangers
