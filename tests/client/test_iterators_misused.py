"""State iterators that are used without their `async with`, or after it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import pytest
from kit.checks import PATIENCE

import aiolead

Make = Callable[[aiolead.Client], Any]


def _campaign(client: aiolead.Client) -> Any:
    return aiolead.Election(client, "/election").campaign()


def _observer(client: aiolead.Client) -> Any:
    return aiolead.Election(client, "/election").observe()


def _session(client: aiolead.Client) -> Any:
    return client.observe()


@pytest.fixture(params=[_campaign, _observer, _session])
def make(request: pytest.FixtureRequest) -> Make:
    return request.param


async def test_unopened_ones_say_so(make: Make, embedded: str, chroot: str) -> None:
    """They would wait for ever: nothing gives them their values."""
    async with aiolead.connect(embedded + chroot) as client:
        states = make(client)
        with (
            anyio.fail_after(PATIENCE),
            pytest.raises(aiolead.errors.UsageError, match="async with"),
        ):
            await anext(aiter(states))


async def test_closed_ones_are_over(make: Make, embedded: str, chroot: str) -> None:
    async with aiolead.connect(embedded + chroot) as client:
        async with make(client) as states:
            await anext(aiter(states))
        with anyio.fail_after(PATIENCE):
            async for _ in states:
                pass


async def test_a_session_observer_cancelled_on_entering_leaves_nothing(embedded: str) -> None:
    async with aiolead.connect(embedded) as client:
        before = len(client._core._subscribers)
        with anyio.CancelScope() as scope:
            scope.cancel()
            async with client.observe():
                pytest.fail("entered")
        assert len(client._core._subscribers) == before
