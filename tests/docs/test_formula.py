"""Formulas of the documentation: HTML whose lines a browser can break."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

pytest.importorskip("sphinx", reason="the documentation's tools are not installed")

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "docs" / "_ext"))
from formula import displayed_formula, inline_formula


def pieces(html):
    """The text of each ``math`` element."""
    found = re.findall(r"<math[^>]*>(.*?)</math>", html, flags=re.DOTALL)
    return [re.sub(r"<[^>]*>|\s", "", one) for one in found]


def test_lines_break_before_operators_outside_brackets():
    html = displayed_formula(r"f(x + y) = a + \sum_i [1 - b_i]_+ - |c - d|")
    assert pieces(html) == ["f(x+y)", "=a", "+∑i[1−bi]+", "−|c−d|"]
    assert html.count("<wbr>") == 3


def test_an_operator_at_the_start_of_a_line_keeps_its_space():
    html = displayed_formula("a + b")
    assert '<mo form="infix">+</mo>' in html


def test_a_sign_is_no_operator():
    assert pieces(displayed_formula(r"a \in \{-1, +1\}")) == ["a", "∈{−1,+1}"]
    assert pieces(displayed_formula("a = -b")) == ["a", "=−b"]


def test_a_wide_space_ends_a_piece():
    assert pieces(displayed_formula(r"a, \quad b, \; c")) == ["a,", "b,c"]


def test_rows_of_an_aligned_formula_are_a_grid_of_as_many_columns():
    html = displayed_formula(r"\min \quad & a + b \\ \text{s.t.} \quad & c")
    assert "formula-columns-2" in html
    assert html.count('class="formula-cell"') == 4
    assert pieces(html) == ["min", "a", "+b", "s.t.", "c"]


def test_columns_beside_a_long_one_are_stacked_on_a_telephone():
    assert "formula-stacked" in displayed_formula(r"\text{a kernel of two bags} & : a \\ b & : c")
    assert "formula-stacked" not in displayed_formula(
        r"\min \quad & a + b + c + d + e + f + g \\ b & c"
    )


def test_the_rows_of_a_matrix_are_not_those_of_the_formula():
    html = displayed_formula(r"\begin{pmatrix} a & b \\ c & d \end{pmatrix} \succeq 0")
    assert "formula-columns-1" in html
    assert html.count("<mtr>") == 2


def test_an_underscore_in_text_shows_no_backslash():
    assert pieces(inline_formula(r"\text{(epsilon\_insensitive)}")) == ["(epsilon_insensitive)"]


def test_the_number_of_a_formula_is_shown():
    assert '<div class="formula-number">(3)</div>' in displayed_formula("a", 3)
    assert "formula-number" not in displayed_formula("a")


def test_a_short_formula_in_running_text_stays_whole():
    assert len(pieces(inline_formula("a = b"))) == 1
    long = "a + b + c + d + e + f + g + h"
    assert len(pieces(inline_formula(long))) == 8


def test_the_size_of_a_fraction_is_set_around_it():
    html = displayed_formula(r"\tfrac12 x")
    assert "<mfrac>" in html
    assert re.search(r'<mstyle displaystyle="false"[^>]*>\s*<mfrac>', html)


def test_repairs_of_pages_touch_nothing_else():
    from mended_html import mended

    page = '<div class="x" tooltip="a"><th class="head">n</th><pre>a</pre><div></div></div>'
    assert mended(page) == page
    assert mended('<th class="head"><p></p></th>') == "<td></td>"
    assert mended('<pre><div id="a">b</div></pre><div></div>') == (
        '<pre><span id="a">b</span></pre><div></div>'
    )
