"""Choices of cases for tests of several parameters."""

from __future__ import annotations

import itertools


def every_pair(*values):
    """Half of the product of three lists or more, in which any two values still meet.

    Each case is a tuple with one value of each list, for ``pytest.mark.parametrize``.
    """
    places = itertools.product(*(range(len(each)) for each in values))
    chosen = [place for place in places if sum(place) % 2 == 0]
    return [tuple(each[at] for each, at in zip(values, place, strict=True)) for place in chosen]
