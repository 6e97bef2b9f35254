"""A machine that was suspended: the lease's clock has gone on, that of the event loop has not."""

from __future__ import annotations

import anyio
import pytest
from kit.clients import JumpingClock
from kit.virtual_time import VirtualClock, connect, embedded, passes, virtually

from aiolead import Lock, LockLost
from aiolead.errors import LossReason

SESSION = 1000.0
"""So long that nothing is due within a minute, in seconds."""


@virtually
async def test_a_holder_is_told_soon_after_the_machine_wakes_up() -> None:
    """Rather than when the event loop would have looked next."""
    clock = JumpingClock(VirtualClock())
    async with (
        embedded(max_session_timeout=SESSION) as server,
        connect(server, session_timeout=SESSION, clock=clock) as client,
    ):
        with pytest.raises(LockLost) as lost:
            async with Lock(client, "/l"):
                machine = client._core.machine
                # Until it has settled and was renewed. Who was just woken sleeps briefly, once.
                await passes(60.0)
                assert machine.next_deadline() > clock() + 60.0
                woken_at = anyio.current_time()
                clock.jump(SESSION)
                await anyio.sleep_forever()
        assert lost.value.reason is LossReason.UNCONFIRMED
        assert anyio.current_time() - woken_at <= 1.1
