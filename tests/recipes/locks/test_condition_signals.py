"""Signals of a condition that no waiter can pass on: names of others, and ones with children."""

from __future__ import annotations

import logging

import anyio
import pytest
from support.virtual_time import SESSION, connect, on_virtual_time, passes, settled

from aiolead import Client, Condition
from aiolead._recipes.locks.condition_waiter import sort_out
from aiolead.testing import EmbeddedServer
from aiolead.testing.simulation import Backend

pytestmark = pytest.mark.timeout(60)

PATH = "/condition"
SIGNALS = f"{PATH}/signals"

backends = pytest.mark.parametrize("backend", ["asyncio", "trio"])

FOREIGN = "junk"
ORPHAN = "0123456789abcdef-1-wait-0000000000"
"""A signal whose waiter is gone, by its name."""


async def _put_signal(client: Client, name: str, *, with_child: bool) -> None:
    await client.ensure_path(SIGNALS)
    await client.create(f"{SIGNALS}/{name}")
    if with_child:
        await client.create(f"{SIGNALS}/{name}/child")


class Waiters:
    """Tasks that wait for a notification each."""

    def __init__(self) -> None:
        self.woken = 0

    async def wait(self, client: Client) -> None:
        async with Condition(client, PATH) as held:
            await held.wait()
            self.woken += 1


def test_signal_without_a_number_is_no_orphan() -> None:
    seen = sort_out("/", [FOREIGN, ORPHAN], [])
    assert seen.orphans == [ORPHAN]
    assert seen.signals == 1


@backends
@pytest.mark.parametrize("name", [FOREIGN, ORPHAN], ids=["foreign", "orphan"])
def test_signal_that_cannot_be_moved_causes_no_hot_loop(
    backend: Backend, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def play(server: EmbeddedServer) -> None:
        async with connect(server) as a, connect(server) as b, anyio.create_task_group() as tasks:
            await _put_signal(b, name, with_child=True)
            waiters = Waiters()
            for client in (a, b):
                tasks.start_soon(waiters.wait, client)
                await settled()
            before = sum(server.requests.values())
            with anyio.fail_after(100 * SESSION):
                await passes(4 * SESSION)
            # A try and a look for each waiter and session timeout, and the pings.
            assert sum(server.requests.values()) - before < 100
            assert waiters.woken == 0
            async with Condition(a, PATH) as held:
                assert await held.notify_all() == 2
                assert await held.notify() == 0
            await settled()
            assert waiters.woken == 2
            said = {record.message for record in caplog.records}
            assert len(said) == (0 if name == FOREIGN else 1), said
            assert all(f"{SIGNALS}/{name}" in line for line in said)

    with caplog.at_level(logging.WARNING, "aiolead.recipes"):
        on_virtual_time(backend, play)


@backends
def test_orphan_behind_one_that_cannot_be_moved_is_passed_on(backend: Backend) -> None:
    async def play(server: EmbeddedServer) -> None:
        async with connect(server) as a, anyio.create_task_group() as tasks:
            await _put_signal(a, ORPHAN, with_child=True)
            await _put_signal(a, ORPHAN.replace("-1-", "-2-"), with_child=False)
            waiters = Waiters()
            tasks.start_soon(waiters.wait, a)
            await passes(1.0)
            assert waiters.woken == 1

    on_virtual_time(backend, play)


@backends
def test_orphan_that_can_be_moved_later_is_tried_again(backend: Backend) -> None:
    async def play(server: EmbeddedServer) -> None:
        async with connect(server) as a, anyio.create_task_group() as tasks:
            await _put_signal(a, ORPHAN, with_child=True)
            waiters = Waiters()
            tasks.start_soon(waiters.wait, a)
            await passes(1.0)
            assert waiters.woken == 0
            await a.delete(f"{SIGNALS}/{ORPHAN}/child")
            await passes(2 * SESSION)
            assert waiters.woken == 1

    on_virtual_time(backend, play)
