"""A forked child holds nothing, says so at once, and changes nothing of its parent's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import trio
from conftest import ServerUnderTest
from kit.clients import SESSION, JumpingClock, connect
from kit.elsewhere import in_child

from aiolead import Client, Election, Lock, MultiLock, Queue, Semaphore
from aiolead.errors import LossReason, UsageError
from aiolead.model import SessionState

pytestmark = [
    pytest.mark.timeout(60),
    pytest.mark.parametrize("server", ["embedded"], indirect=True),
]


def refusal(function: Callable[[], object]) -> str:
    """What a call is refused with."""
    try:
        function()
    except UsageError as error:
        return str(error)
    return "it was not refused"


def look(held: Any) -> tuple[bool, float, str]:
    return held.is_held, held.remaining(), refusal(held.check)


HOLDS: dict[str, Callable[[Client], Any]] = {
    "election": lambda client: Election(client, "/election").leadership(),
    "lock": lambda client: Lock(client, "/lock"),
    "several": lambda client: MultiLock(Lock(client, "/a"), Lock(client, "/b")),
    "semaphore": lambda client: Semaphore(client, "/semaphore", 2),
}


@pytest.mark.parametrize("make", HOLDS.values(), ids=HOLDS)
async def test_a_forked_child_is_not_a_holder(
    server: ServerUnderTest, make: Callable[[Client], Any]
) -> None:
    async with connect(server) as client, make(client) as held:
        is_held, remaining, refused = in_child(lambda: look(held))
        assert (is_held, remaining) == (False, 0.0)
        assert "was forked: connect in this process, too" in refused
        held.check()
        assert held.is_held
        await held.verify()


async def test_a_claimed_item_is_not_the_childs(server: ServerUnderTest) -> None:
    async with connect(server) as client:
        queue = Queue(client, "/queue")
        await queue.put(b"x")
        async with queue.get() as item:
            is_held, remaining, refused = in_child(lambda: look(item))
            assert (is_held, remaining) == (False, 0.0)
            assert "was forked" in refused
            await item.ack()


async def test_the_statistics_of_a_hold_in_a_child(server: ServerUnderTest) -> None:
    async with connect(server) as client, Lock(client, "/lock") as held:
        statistics = in_child(held.statistics)
        assert not statistics.is_held
        assert statistics.remaining == 0.0
        assert statistics.loss is None
        assert statistics.token == held.token


async def test_a_hold_that_was_lost_before_the_fork(server: ServerUnderTest) -> None:
    clock = JumpingClock()
    async with connect(server, clock=clock) as client:
        with pytest.raises(Exception, match="lost"):
            async with Lock(client, "/lock") as held:
                clock.jump(2 * SESSION)
                is_held, remaining, refused = in_child(lambda: look(held))
        assert (is_held, remaining) == (False, 0.0)
        assert "was forked" in refused
        assert in_child(lambda: held.loss) is LossReason.UNCONFIRMED


async def test_a_client_in_a_child(server: ServerUnderTest) -> None:
    async with connect(server) as client, Lock(client, "/lock"):
        await client.ensure_path("/data")
        async with client.observe_data("/data") as view:

            def state() -> tuple[object, ...]:
                statistics = client.statistics()
                return (
                    client.healthy(),
                    client.state,
                    client.backend.lease.remaining(),
                    client.backend.lease.is_enough(),
                    statistics.state,
                    statistics.held,
                    statistics.lease_remaining,
                    statistics.server,
                    view.is_live,
                    view.value,
                )

            closed = SessionState.CLOSED
            assert in_child(state) == (
                *(False, closed, 0.0, False),
                *(closed, 0, 0.0, None),
                *(False, view.value),
            )
            assert client.healthy()
            assert client.state is SessionState.CONNECTED
            assert view.is_live


async def test_a_child_leaves_the_blocks_of_its_parent(server: ServerUnderTest) -> None:
    """As the interpreter does it when an exception ends the child: that is what it ends with."""
    async with connect(server) as client:
        context = Lock(client, "/lock").acquire()
        async with context as held:

            def leave(error: BaseException | None) -> tuple[str, str]:
                try:
                    context.__aexit__(error and type(error), error, None).send(None)
                except StopIteration:
                    return "left", str(held.loss)
                except BaseException as raised:
                    return type(raised).__name__, str(held.loss)
                return "waits", ""

            # A child of asyncio has no current task any more: leaving fails before it begins.
            is_trio = trio.lowlevel.in_trio_run()
            left, refused = ("left", "UsageError") if is_trio else ("RuntimeError",) * 2
            assert in_child(lambda: leave(SystemExit(3))) == (left, "None")
            assert in_child(lambda: leave(None)) == (refused, "None")
            await held.verify()
        assert not held.is_held
