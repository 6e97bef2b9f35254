"""A forked child holds nothing, says so at once, and changes nothing of its parent's.

`test_callers.py` looks at each hold in a child.
"""

from __future__ import annotations

import pytest
import trio
from conftest import ServerUnderTest
from kit.clients import SESSION, JumpingClock, connect
from kit.elsewhere import in_child
from kit.selection import on_embedded

from aiolead import Client, Lock, TenureLost
from aiolead.errors import LossReason
from aiolead.model import SessionState

pytestmark = [pytest.mark.timeout(60), on_embedded]


async def test_statistics_of_a_hold_in_a_child(a: Client) -> None:
    async with Lock(a, "/lock") as held:
        statistics = in_child(held.statistics)
        assert (statistics.is_held, statistics.remaining, statistics.loss) == (False, 0.0, None)
        assert statistics.token == held.token


async def test_hold_that_was_lost_before_the_fork_keeps_its_reason(server: ServerUnderTest) -> None:
    clock = JumpingClock()
    async with connect(server, clock=clock) as client:
        with pytest.raises(TenureLost):
            async with Lock(client, "/lock") as held:
                clock.jump(2 * SESSION)
        assert in_child(lambda: held.loss) is LossReason.UNCONFIRMED


async def test_client_in_a_child_is_closed(a: Client) -> None:
    await a.ensure_path("/data")
    async with Lock(a, "/lock"), a.observe_data("/data") as view:

        def state() -> tuple[object, ...]:
            lease, statistics = a.backend.lease, a.statistics()
            return (
                *(a.healthy(), a.state, lease.remaining(), lease.is_enough()),
                *(statistics.state, statistics.held, statistics.lease_remaining, statistics.server),
                *(view.is_live, view.value),
            )

        closed = SessionState.CLOSED
        assert in_child(state) == (
            *(False, closed, 0.0, False),
            *(closed, 0, 0.0, None),
            *(False, view.value),
        )
        assert " closed " in in_child(lambda: repr(a))
        assert a.healthy()
        assert a.state is SessionState.CONNECTED
        assert view.is_live


async def test_child_leaves_the_blocks_of_its_parent(a: Client) -> None:
    """The interpreter does so when an exception ends the child, which ends with that exception."""
    context = Lock(a, "/lock").acquire()
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
