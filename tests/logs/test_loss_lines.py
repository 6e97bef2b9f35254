"""The lines of the log about lost holds, and about a process that stood still."""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path

import anyio
import pytest
from kit.virtual_time import (
    SESSION,
    Link,
    VirtualClock,
    embedded,
    passes,
    virtually,
    with_virtual_server,
)
from logs.log_lines import Lines, rows

import aiolead
from aiolead import ACL, Client, Election, LeadershipLost, Lock
from aiolead._recipes.znode import Znode
from aiolead.errors import ConnectionLossError, LockLost, LossReason
from aiolead.events import Event, EventName
from aiolead.model import Permission
from aiolead.testing import EmbeddedServer

End = Callable[[EmbeddedServer, Client], Awaitable[None]]

LOST = "LOST leadership of /x (token N) after N s: "


def recipes_lines(lines: Lines) -> list[str]:
    return [each for each in lines.all if "leadership" in each or "Lock" in each]


async def lead_until_lost(client: Client) -> LeadershipLost:
    """Leads until leadership is lost; gives the error."""
    with pytest.raises(LeadershipLost) as lost:
        async with Election(client, "/x", identity="host-1:4711").leadership():
            await passes(100.0)
    return lost.value


@virtually
async def test_term_has_a_beginning_and_an_end(lines: Lines) -> None:
    async with embedded() as server, Link(server).connect() as client:
        async with Election(client, "/x", identity="host-1:4711").leadership():
            await passes(2.0)
        async with Lock(client, "/lock"):
            pass
    assert recipes_lines(lines) == [
        "I holds leadership of /x as host-1:4711 (token N)",
        "I leadership of /x has ended (token N) after N s: released",
    ]


@virtually
async def test_loss_without_a_server_says_which_and_why(lines: Lines) -> None:
    async with embedded() as server:
        link = Link(server)
        async with link.connect() as client, anyio.create_task_group() as tasks:

            async def lead() -> None:
                error = await lead_until_lost(client)
                assert error.reason is LossReason.UNCONFIRMED
                assert "10.0.0.1:2181: the proxy refuses connections" in error.cause
                assert error.cause in str(error)

            tasks.start_soon(lead)
            await passes(1.0)
            link.down()
            await passes(12.0)
            with pytest.raises(ConnectionLossError, match="the proxy refuses connections"):
                await client.get("/")
    (said,) = [each for each in recipes_lines(lines) if each.startswith("W ")]
    assert said == (
        f"W {LOST}the lease ran out before the quorum confirmed it "
        "(no server for N s: zk:N: the proxy refuses connections)"
    )


async def place(client: Client) -> str:
    """The znode of the leader."""
    (name,) = await client.get_children("/x")
    return f"/x/{name}"


async def expire(server: EmbeddedServer, client: Client) -> None:
    server.expire_session(client.session_id)


async def delete(_: EmbeddedServer, client: Client) -> None:
    await client.delete(await place(client))


async def forbid(_: EmbeddedServer, client: Client) -> None:
    await client.set_acl(await place(client), [ACL.world(Permission.ADMIN)])


async def revoke(_: EmbeddedServer, client: Client) -> None:
    await Election(client, "/x").revoke()


async def close(_: EmbeddedServer, client: Client) -> None:
    await client.aclose()


ENDED = "I leadership of /x has ended (token N) after N s: "
ENDS = [
    (expire, f"W {LOST}the session expired"),
    (delete, f"W {LOST}the znode was deleted by somebody else"),
    (forbid, f"W {LOST}the servers refused to confirm the znode"),
    (revoke, f"{ENDED}another process asked for it, by `revoke`"),
    (close, f"{ENDED}the client was closed"),
]


@pytest.mark.parametrize(("end", "line"), ENDS)
@with_virtual_server
async def test_line_says_why_the_term_has_ended(
    server: EmbeddedServer, client: Client, lines: Lines, end: End, line: str
) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lead_until_lost, client)
        await passes(1.0)
        await end(server, client)
        await passes(20.0)
    assert not any("no server" in each for each in lines.all)
    assert recipes_lines(lines)[1:] == [line]


@virtually
async def test_loss_by_a_lost_connection(lines: Lines) -> None:
    async with embedded() as server, Link(server).connect() as client:
        election = Election(client, "/x", on_disconnect="resign")
        with pytest.raises(LeadershipLost):
            async with election.leadership():
                await passes(1.0)
                server.disconnect()
                await passes(1.0)
    assert recipes_lines(lines)[1:] == [
        f"W {LOST}the connection was lost, and the hold does not outlast it"
    ]


@virtually
async def test_loss_by_a_defect_has_one_traceback(
    lines: Lines, monkeypatch: pytest.MonkeyPatch, internal_errors: list[logging.LogRecord]
) -> None:
    def defect(*_: object) -> None:
        raise ZeroDivisionError("a defect")

    async with embedded() as server, Link(server).connect() as client:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lead_until_lost, client)
            await passes(1.0)
            monkeypatch.setattr(Znode, "_seen", defect)
            (name,) = await client.get_children("/x")
            await client.set(f"/x/{name}", b"other")
            await passes(1.0)
    monkeypatch.undo()
    assert recipes_lines(lines)[1:] == [
        f"W {LOST}an unexpected error inside aiolead, which is in its log"
    ]
    assert len(internal_errors) == 1


async def hold(client: Client, path: str) -> None:
    with pytest.raises(LockLost):
        async with Lock(client, path):
            await anyio.sleep_forever()


@virtually
async def test_many_losses_are_a_few_lines(lines: Lines) -> None:
    async with embedded() as server, Link(server).connect() as client:
        async with anyio.create_task_group() as tasks:
            for number in range(300):
                tasks.start_soon(hold, client, f"/{number}")
            await passes(5.0)
            server.expire_session(client.session_id)
    lost = [each for each in recipes_lines(lines) if each.startswith("W LOST Lock /")]
    assert len(lost) == 11
    assert lost[-1].endswith("the session expired (and 289 times before)")


# --- a process that stood still ------------------------------------------------------------------


STOOD_STILL = (
    "W this process stood still for N s or more: its event loop was blocked, or the process or its "
    "machine was frozen"
)


class JumpingClock(VirtualClock):
    """A client's clock that passes over the time in which the process stood still."""

    jumped = 0.0

    def __call__(self) -> float:
        return super().__call__() + self.jumped


@virtually
async def test_standstill_of_a_leader_explains_its_loss(lines: Lines) -> None:
    clock = JumpingClock()
    async with embedded() as server, Link(server).connect(clock=clock) as client:
        with pytest.raises(LeadershipLost) as lost:
            async with Election(client, "/x").leadership():
                await passes(20.0)
                clock.jumped = 12.0
                await passes(5.0)
    assert lost.value.reason is LossReason.UNCONFIRMED
    assert re.match(r"this process stood still for 1[12]\.\d s or more$", lost.value.cause)
    cause = "(this process stood still for N s or more)"
    assert [each for each in lines.all if "stood still" in each] == [
        STOOD_STILL,
        f"W {LOST}the lease ran out before the quorum confirmed it {cause}",
    ]


@virtually
async def test_short_standstill_costs_a_line_and_nothing_else(lines: Lines) -> None:
    clock = JumpingClock()
    async with embedded() as server, Link(server).connect(clock=clock) as client:
        async with Lock(client, "/x"):
            await passes(20.0)
            clock.jumped = SESSION / 4 + 0.1
            await passes(5.0)
    assert [each for each in lines.all if "stood still" in each] == [STOOD_STILL]


@virtually
async def test_waiting_for_hours_is_no_standstill(lines: Lines) -> None:
    async with embedded() as server, Link(server).connect() as client, Lock(client, "/x"):
        await passes(900.0)
    assert not any("stood still" in each for each in lines.all)


# --- the page ------------------------------------------------------------------------------------


def test_page_has_the_lines_of_the_recipes() -> None:
    path = Path(aiolead.__file__).parents[1] / "docs" / "reference" / "logging.md"
    who = {"recipe": "Election", "identity": "host-1:4711", "token": 3}
    over = {**who, "lasted": 5.4, "hidden": 0, "cause": ""}
    waits = {"waited": 30.0, "is_known": 1, "age": 7399.0, "position": 4, "holder": "host-1:4711"}
    created = datetime(2026, 11, 28, 3, 12, tzinfo=UTC).timestamp()
    stood_still = "this process stood still for 5.2 s or more"
    events = [
        (EventName.TENURE_BEGUN, who),
        (EventName.CONTENTION_WAITING, {**who, **waits}),
        (EventName.CONTENTION_BLOCKED, {"znode": "/x/a-0000000000", "created": created}),
        (EventName.TENURE_ENDED, {**over, "reason": "released"}),
        (EventName.TENURE_ENDED, {**over, "reason": "unconfirmed", "cause": stood_still}),
    ]
    lines = [str(Event(name, logging.INFO, 1, "/x", fields)) for name, fields in events]
    assert rows(path, "Elections and locks") == lines
