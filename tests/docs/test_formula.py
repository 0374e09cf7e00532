"""Formulas of the documentation: HTML whose lines a browser can break."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

pytest.importorskip("sphinx", reason="the documentation's tools are not installed")

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "docs" / "_ext"))
from formula import displayed_formula


def pieces(html):
    """The text of each ``math`` element."""
    found = re.findall(r"<math[^>]*>(.*?)</math>", html, flags=re.DOTALL)
    return [re.sub(r"<[^>]*>|\s", "", one) for one in found]


@pytest.mark.parametrize(
    ("formula", "expected"),
    [
        (r"f(x + y) = a + \sum_i [1 - b_i]_+ - |c - d|", ["f(x+y)", "=a", "+∑i[1−bi]+", "−|c−d|"]),
        (r"a \in \{-1, +1\}", ["a", "∈{−1,+1}"]),  # a sign is no operator
        ("a = -b", ["a", "=−b"]),
        (r"a, \quad b, \; c", ["a,", "b,c"]),
        (r"\min \quad & a + b \\ \text{s.t.} \quad & c", ["min", "a", "+b", "s.t.", "c"]),
    ],
)
def test_lines_break_before_operators_outside_brackets(formula, expected):
    assert pieces(displayed_formula(formula)) == expected


def test_rows_are_a_grid_and_columns_beside_a_long_one_are_stacked_on_a_telephone():
    html = displayed_formula(r"\min \quad & a + b \\ \text{s.t.} \quad & c")
    assert "formula-columns-2" in html
    assert '<mo form="infix">+</mo>' in html  # an operator at the start of a line keeps its space
    assert html.count('class="formula-cell"') == 4
    assert "formula-stacked" in displayed_formula(r"\text{a kernel of two bags} & : a \\ b & : c")
    html = displayed_formula(r"\begin{pmatrix} a & b \\ c & d \end{pmatrix} \succeq 0")
    assert "formula-columns-1" in html
    assert html.count("<mtr>") == 2


def test_repairs_of_pages_touch_nothing_else():
    from mended_html import mended

    page = '<div class="x" tooltip="a"><th class="head">n</th><pre>a</pre><div></div></div>'
    assert mended(page) == page
    assert mended('<th class="head"><p></p></th>') == "<td></td>"
    assert mended('<pre><div id="a">b</div></pre><div></div>') == (
        '<pre><span id="a">b</span></pre><div></div>'
    )
