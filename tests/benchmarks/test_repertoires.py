"""Generated repertoires: associated sequences, their background, and an implanted motif."""

import re

import numpy as np

from benchmarks.common.repertoires import draw_needle, implant


def test_the_motif_is_implanted_near_the_middle():
    rng = np.random.default_rng(0)
    made = {implant("C" + 14 * "A" + "W", rng) for _ in range(100)}
    assert all(re.fullmatch("CA+SFENA+W", each) and len(each) == 16 for each in made)
    assert {each.index("SFEN") for each in made} == {6, 7, 8, 9}
    assert len(implant("CAW", rng)) == 3


def test_needles_are_in_positive_repertoires_only():
    letters = np.random.default_rng(0).choice(list("ACDEFGHIKLMNPQRSTVWY"), (500, 12))
    pool = np.array(["C" + "".join(each) + "F" for each in letters])
    bags, y = draw_needle(10, 200, 0.02, pool, 0)
    found = [sum("SFEN" in each for each in bag[:, 0]) for bag in bags]
    assert found == [4 * label for label in y]
