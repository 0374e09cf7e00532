"""Figures of the page on other software against the recorded tables."""

from __future__ import annotations

import re
from pathlib import Path

from benchmarks.common.output import SUFFIX, read_page

DOCS = Path(__file__).resolve().parents[2] / "docs"
ROWS = {
    "200, 10 % of the patches": "witness-200x300x128-10%",
    "200, 2 %": "witness-200x300x128-2%",
    "200, 0.5 %": "witness-200x300x128-0.5%",
    "50, 10 %": "witness-50x300x128-10%",
    "50, 2 %": "witness-50x300x128-2%",
    "50, 0.5 %": "witness-50x300x128-0.5%",
    "200, the mix of tissues": "mix-200x300x128",
    "reviews, complaint": "reviews-complaint",
}


def test_areas_of_attention_are_those_that_were_printed():
    page = (DOCS / "about" / "software.rst").read_text(encoding="utf-8")
    table = page.partition("When does attention win?")[2].partition("The figures are printed")[0]
    shown = re.findall(r"\* - (.+)\n +- (0\.\d+)\n +- (0\.\d+)\n", table)
    assert [name for name, *_ in shown] == [*ROWS]
    recorded = read_page(DOCS / "results" / f"needles{SUFFIX}").tables[0]
    columns = [recorded.columns.index(name) for name in ("MIClassifier", "gated attention")]
    printed = {row[0]: [row[each] for each in columns] for row in recorded.rows}
    for name, *areas in shown:
        assert areas == [f"{float(each) / 100:.3f}" for each in printed[ROWS[name]]]
