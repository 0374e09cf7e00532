"""The fixture ``bags``: one container of each kind."""

import pytest

from tests._bags.kinds import KINDS


@pytest.fixture(params=KINDS)
def bags(request):
    return KINDS[request.param]()
