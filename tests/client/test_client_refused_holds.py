"""Znodes that the servers do not confirm, since their ACL gives the client no READ."""

from __future__ import annotations

import anyio
import pytest
from conftest import ServerUnderTest
from kit.clients import PATIENCE, connect, eventually

import aiolead
from aiolead import ACL, CreateMode
from aiolead.errors import LockLost, LossReason
from aiolead.model import Permission

UNREADABLE = [ACL(Permission.ALL & ~Permission.READ, "world", "anyone")]


def session_timeout(server: ServerUnderTest) -> float:
    """Holds are renewed four times per timeout. A real server takes its time on a busy machine."""
    return 2.0 if server.kind == "embedded" else 4.0


@pytest.mark.parametrize("is_first", [True, False], ids=["first renewal", "later renewal"])
async def test_a_znode_that_cannot_be_confirmed_ends_its_own_hold_alone(
    server: ServerUnderTest, is_first: bool
) -> None:
    async with connect(server, session_timeout=session_timeout(server)) as client:
        kept: list[LossReason] = []
        lost: list[LossReason] = []
        await client.create("/kept", mode=CreateMode.EPHEMERAL)
        await client.create("/lost", mode=CreateMode.EPHEMERAL)
        keeps = client.backend.lease.hold("/kept", kept.append, urgent=True)
        if is_first:
            await client.set_acl("/lost", UNREADABLE)
        loses = client.backend.lease.hold("/lost", lost.append, urgent=True)
        if not is_first:
            await eventually(lambda: client.statistics().renewals >= 2, "both are confirmed")
            assert lost == []
            await client.set_acl("/lost", UNREADABLE)
        await eventually(lambda: lost, "it is lost")
        assert lost == [LossReason.REFUSED]
        loses.release()
        before = client.statistics().renewals
        await eventually(
            lambda: client.statistics().renewals > before + 1, "the other is confirmed"
        )
        assert (kept, client.statistics().late_renewals) == ([], 0)
        keeps.release()


async def test_a_lock_whose_znode_becomes_unreadable_says_so(server: ServerUnderTest) -> None:
    async with connect(server, session_timeout=session_timeout(server)) as client:
        other = aiolead.Lock(client, "/other")
        async with other as held_on:
            with anyio.fail_after(PATIENCE), pytest.raises(LockLost) as raised:
                async with aiolead.Lock(client, "/lock") as held:
                    await client.set_acl(held.path, UNREADABLE)
                    await anyio.sleep_forever()
            assert raised.value.reason is LossReason.REFUSED
            assert "refused to confirm the znode" in str(raised.value)
            held_on.check()
            with anyio.fail_after(PATIENCE):
                async with aiolead.Lock(client, "/lock"):
                    pass
