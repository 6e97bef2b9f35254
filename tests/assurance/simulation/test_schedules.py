"""A few schedules of faults that reach every rare situation, with all invariants.

`test_schedules_asyncio.py` and `test_schedules_trio.py` run some hundred, as part of `make
test-all`; `make soak` runs as many as there is time for.
"""

from __future__ import annotations

import pytest
from assurance.simulation.schedules import check_soon

from aiolead.testing.simulation import Backend

# These take a second or two; on a busy machine, or where other seeds have to be tried, a minute.
pytestmark = pytest.mark.timeout(600)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_few_schedules_reach_every_rare_situation(backend: Backend) -> None:
    check_soon(backend)
