"""What becomes due earlier than it was wakes the client at once: it does not sleep until then.

The unit tests of the session ask `next_deadline`, so they cannot see a missing wake-up.
"""

from __future__ import annotations

import logging

import anyio
import pytest
from kit.virtual_time import SESSION, embedded, passes, virtually
from kit.virtual_time import connect as connect_virtually

from aiolead import ACL, CreateMode, Lock
from aiolead.errors import LossReason
from aiolead.model import Permission
from aiolead.testing import EmbeddedServer, OpCode

GRAIN = 0.01
"""How exactly moments are seen, in seconds."""

UNREADABLE = [ACL(Permission.ALL & ~Permission.READ, "world", "anyone")]


async def renewal(server: EmbeddedServer) -> float:
    """When the next renewal reaches the server."""
    before = server.requests["MULTI"]
    while server.requests["MULTI"] == before:
        await passes(GRAIN)
    return anyio.current_time()


@virtually
@pytest.mark.parametrize("urgent", [True, False])
async def test_new_hold_is_confirmed_as_soon_as_it_is_due(urgent: bool) -> None:
    async with embedded() as server, connect_virtually(server) as client:
        await client.create("/kept", mode=CreateMode.EPHEMERAL)
        await passes(GRAIN)
        began = anyio.current_time()
        options = {"urgent": True} if urgent else {}
        hold = client.backend.lease.hold("/kept", lambda _reason: None, **options)
        confirmed = await renewal(server)
        assert confirmed - began == pytest.approx(0.0 if urgent else 0.1, abs=2 * GRAIN)
        hold.release()


@virtually
async def test_refused_renewal_is_tried_again_after_its_pause() -> None:
    async with (
        embedded() as server,
        connect_virtually(server) as client,
        Lock(client, "/lock") as held,
    ):
        await renewal(server)
        server.throttle(OpCode.MULTI)
        refused = await renewal(server)
        again = await renewal(server)
        assert again - refused == pytest.approx(SESSION / 32, abs=2 * GRAIN)
        assert held.is_held


@virtually
async def test_other_holds_are_confirmed_at_once_when_one_is_refused() -> None:
    async with embedded() as server, connect_virtually(server) as client:
        lost: list[LossReason] = []
        for path, acl in {"/kept": None, "/lost": UNREADABLE}.items():
            await client.create(path, mode=CreateMode.EPHEMERAL, acl=acl)
        kept = client.backend.lease.hold("/kept", lost.append, urgent=True)
        await renewal(server)
        refused = client.backend.lease.hold("/lost", lost.append, urgent=True)
        before = server.requests["MULTI"]
        await renewal(server)
        await passes(GRAIN)
        assert server.requests["MULTI"] == before + 2
        assert lost == [LossReason.REFUSED]
        kept.release()
        refused.release()


@virtually
async def test_loss_that_could_not_be_reported_is_reported_again_soon(
    internal_errors: list[logging.LogRecord],
) -> None:
    async with embedded() as server, connect_virtually(server) as client:
        times = []

        def lost(_reason: LossReason) -> None:
            times.append(anyio.current_time())
            if len(times) == 1:
                raise RuntimeError("the first report fails")

        await client.create("/lost", mode=CreateMode.EPHEMERAL)
        hold = client.backend.lease.hold("/lost", lost)
        await renewal(server)
        hold.lose(LossReason.DELETED)
        while len(times) < 2:
            await passes(GRAIN)
        assert times[1] - times[0] <= 2 * GRAIN
        hold.release()
    assert len(internal_errors) == 1
