"""No recipe sends more requests per second than its bound, also beside a hostile writer.

`expected.md` shows what they send; it is made by `python -m tests.costs --write`.
"""

from __future__ import annotations

import re

import anyio
import anyio.lowlevel
import pytest

from aiolead._recipes.place_parts import Alarm
from aiolead.testing.simulation import Backend
from costs import _rates as rates
from costs import _tables as tables
from costs._rates import RECIPES

PAGE = tables.PAGE.read_text("utf-8")

backends = pytest.mark.parametrize("backend", ["asyncio", "trio"])


@backends
@pytest.mark.parametrize("recipe", RECIPES)
def test_recipe_stays_below_its_bounds(recipe: str, backend: Backend) -> None:
    measured, most = rates.measure(recipe, backend), rates.bounds(recipe)
    assert measured.idle <= most.idle
    assert measured.contended <= most.contended
    assert measured.hostile <= most.hostile


def test_page_has_a_row_for_each_recipe() -> None:
    table = PAGE.partition("<!-- rates -->")[2].partition("<!-- end of rates -->")[0]
    names = re.findall(r"^\| `?([A-Z][A-Za-z_.]*`?(?: \([a-z]+\))?)", table, re.MULTILINE)
    assert [name.replace("`", "") for name in names] == list(RECIPES)


@backends
def test_loop_without_a_pause_is_above_every_bound(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def no_wait(self: Alarm) -> None:
        await anyio.lowlevel.checkpoint()

    monkeypatch.setattr(Alarm, "wait", no_wait)
    most = rates.bounds("Semaphore")
    assert rates.rate("Semaphore", "contended", backend) > most.hostile
