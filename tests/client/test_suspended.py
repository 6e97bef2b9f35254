"""A machine that was suspended: the lease's clock has gone on, that of the event loop has not."""

from __future__ import annotations

import anyio
import pytest
from support.faults import only_on
from support.recipes import PATIENCE, JumpingClock, eventually

import aiolead
from aiolead.errors import LockLost, LossReason
from aiolead.testing import EmbeddedServer, Hooks

SESSION = 20 * PATIENCE
"""So long that nothing is due within the time that the test waits, in seconds."""


@only_on("trio")
async def test_a_holder_is_told_soon_after_the_machine_wakes_up() -> None:
    """Rather than when the event loop would have looked next."""
    clock = JumpingClock()
    async with (
        EmbeddedServer(max_session_timeout=SESSION) as server,
        aiolead.connect(
            server.connect_string,
            session_timeout=SESSION,
            connect_timeout=PATIENCE,
            hooks=Hooks(clock=clock),
        ) as client,
    ):
        with anyio.fail_after(PATIENCE), pytest.raises(LockLost) as lost:
            async with aiolead.Lock(client, "/l"):
                machine = client._core.machine
                await eventually(
                    # It has settled and was renewed: the next thing is due in minutes.
                    lambda: machine.next_deadline() > clock() + PATIENCE, "all is quiet"
                )  # fmt: skip
                clock.jump(SESSION)
                await anyio.sleep_forever()
        assert lost.value.reason is LossReason.UNCONFIRMED
