"""Contenders whose links break: never two holders, never stuck, nothing left behind.

The arena checks the promises after every scene (see `kit.faults`); a scene only says what follows
from its own fault at once. Scenes of one test are played at the same time.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

import anyio
import pytest
from kit.clients import eventually
from kit.faults import (
    AnyProxy,
    Arena,
    Contender,
    MemoryArena,
    an_election,
    only_on,
    together,
)
from kit.virtual_time import with_virtual_server

import aiolead
from aiolead._recipes.layouts import Role, names_of
from aiolead.errors import LossReason
from aiolead.model import SessionState
from aiolead.testing import EmbeddedServer, OpCode
from aiolead.types import Layout

if TYPE_CHECKING:
    from conftest import ServerUnderTest

Direction = Literal["to_server", "to_client", "both"]


def drop(proxy: AnyProxy, which: str, *ops: OpCode, **options: Any) -> None:
    for op in ops:
        (proxy.drop_reply if which == "reply" else proxy.drop_request)(op, **options)


async def line_of(arena: Arena, line: str) -> list[str]:
    """The identities of the contenders in a line, in order."""
    async with arena.witness() as witness:
        contenders = await aiolead.Lock(witness, line).contenders()
    return [each.identity for each in contenders]


async def znodes_of(arena: Arena, contender: Contender) -> list[str]:
    """The paths of a contender's znodes, known by owner and content."""
    async with arena.witness() as witness:
        line = await aiolead.Lock(witness, contender.line).contenders()
    session_id = contender.client.session_id
    return [p.path for p in line if (p.identity, p.session_id) == (contender.name, session_id)]


async def reconnected(contender: Contender, links: int = 2) -> None:
    await eventually(
        lambda: (
            contender.proxy.connections >= links
            and contender.client.state is SessionState.CONNECTED
            and contender.machine.watches.is_live
        ),
        f"{contender!r} is on its link number {links}",
    )


async def hand_over(*contenders: Contender) -> None:
    """Each leaves, and the next one holds."""
    for one, other in pairwise(contenders):
        one.leave()
        await other.holding()


# --- links that break --------------------------------------------------------------------------


async def broken_link_of_the_holder(how: str, arena: Arena, line: str) -> None:
    a, b, _ = await arena.line(line, "a", "b", "c")
    (a.proxy.reset if how == "reset" else a.proxy.fin)()
    await reconnected(a)
    assert a.is_holding
    assert not a.losses
    assert not b.is_holding
    await hand_over(a, b)


async def broken_link_of_the_waiter(how: str, arena: Arena, line: str) -> None:
    a, b, c = await arena.line(line, "a", "b", "c")
    before = await znodes_of(arena, b)
    for contender in (b, c):
        (contender.proxy.reset if how == "reset" else contender.proxy.fin)()
        await reconnected(contender)
    assert await znodes_of(arena, b) == before
    await hand_over(a, b, c)


async def turn_that_comes_while_the_waiter_is_away(arena: Arena, line: str) -> None:
    a, b, _ = await arena.line(line, "a", "b", "c")
    b.proxy.refuse()
    b.proxy.reset()
    a.leave()
    await a.served()
    b.proxy.heal()
    await b.holding()


async def event_of_the_turn_that_is_lost(arena: Arena, line: str) -> None:
    a, b, _ = await arena.line(line, "a", "b", "c")
    b.proxy.drop_reply(OpCode.NOTIFICATION)
    await hand_over(a, b)
    assert b.proxy.connections == 2


async def handshake_whose_answer_is_lost(arena: Arena, line: str) -> None:
    a, b, _ = await arena.line(line, "a", "b", "c")
    for contender in (a, b):
        contender.proxy.drop_reply(OpCode.CREATE_SESSION)
        contender.proxy.reset()
    await reconnected(a, links=3)
    await reconnected(b, links=3)
    assert not a.losses
    await hand_over(a, b)


# --- messages that are lost --------------------------------------------------------------------

LOOKING = (OpCode.EXISTS, OpCode.GET_DATA, OpCode.GET_CHILDREN, OpCode.SET_WATCHES, OpCode.SYNC)
SEARCH = (OpCode.SYNC, OpCode.GET_CHILDREN, OpCode.SET_WATCHES)

JOINING: dict[str, Callable[[Any], object]] = {
    "create-reply": lambda p: p.drop_reply(OpCode.CREATE2),
    "create-requests": lambda p: p.drop_request(OpCode.CREATE2, 3),
    "create-and-search": lambda p: drop(p, "reply", OpCode.CREATE2, *SEARCH),
    "look-replies": lambda p: drop(p, "reply", *LOOKING),
    "look-requests": lambda p: drop(p, "request", *LOOKING),
    "silent-create-reply": lambda p: p.drop_reply(OpCode.CREATE2, how="silence"),
    "silent-create-request": lambda p: p.drop_request(OpCode.CREATE2, how="silence"),
}
"""The messages that a contender loses as it joins."""

CREATES = {"create-reply": 1, "create-requests": 4}
"""How many creates it takes."""


async def joining(what: str, arena: Arena, line: str) -> None:
    """Lost or not: its znode is there once, and is found again."""
    a, b = await arena.line(line, "a", "b")
    c = arena.contender(line, "c", prepare=JOINING[what])
    await c.waiting()
    assert len(await znodes_of(arena, c)) == 1
    assert c.proxy.requests["CREATE2"] == CREATES.get(what, c.proxy.requests["CREATE2"])
    if what.startswith("silent"):
        assert c.proxy.connections == 2
    d = arena.contender(line, "d")
    await d.waiting()
    await hand_over(a, b, c)


async def only_one(op: OpCode, arena: Arena, line: str) -> None:
    """The answer to a create is lost, of its znode or of its session."""
    a = arena.contender(line, "a", prepare=lambda p: p.drop_reply(op))
    await a.holding()
    assert len(await znodes_of(arena, a)) == 1


async def lost_delete(which: str, arena: Arena, line: str) -> None:
    a, b, _ = await arena.line(line, "a", "b", "c")
    drop(a.proxy, which, OpCode.DELETE)
    a.leave()
    await a.served()
    await b.holding()
    assert not a.losses


async def lost_delete_of_a_waiter_that_gives_up(arena: Arena, line: str) -> None:
    """A znode that cannot be deleted as a wait is cancelled is a pending delete of the client."""
    a, b = await arena.line(line, "a", "b")

    async def wait() -> None:
        async with aiolead.Lock(b.client, line, identity="b2"):
            raise AssertionError("it is not its turn")

    async def both_of_b_wait() -> bool:
        return await line_of(arena, line) == ["a", "b", "b2"]

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        await eventually(both_of_b_wait, "both of b are queued")
        b.proxy.drop_request(OpCode.DELETE)
        tasks.cancel_scope.cancel()
    await hand_over(a, b)


async def play_breaks_and_losses(server: ServerUnderTest) -> None:
    # Nothing here waits for the end of a session, so that of a slow machine should not come.
    async with Arena(server.hosts, server.chroot, session_timeout=8.0) as arena:
        await together(
            arena,
            *(partial(broken_link_of_the_holder, how) for how in ("reset", "fin")),
            *(partial(broken_link_of_the_waiter, how) for how in ("reset", "fin")),
            turn_that_comes_while_the_waiter_is_away,
            event_of_the_turn_that_is_lost,
            handshake_whose_answer_is_lost,
            *(partial(joining, what) for what in JOINING if not what.startswith("silent")),
            *(partial(only_one, op) for op in (OpCode.CREATE2, OpCode.CREATE_SESSION)),
            *(partial(lost_delete, which) for which in ("reply", "request")),
            lost_delete_of_a_waiter_that_gives_up,
        )


@pytest.mark.parametrize("server", ["embedded", "standalone"], indirect=True)
@pytest.mark.only_zookeeper("a create with CREATE2 on the wire")
async def test_links_that_break_and_messages_that_are_lost(server: ServerUnderTest) -> None:
    await play_breaks_and_losses(server)


@only_on("asyncio+uvloop")
@pytest.mark.parametrize("server", ["ensemble"], indirect=True)
async def test_links_to_an_ensemble_that_break(server: ServerUnderTest) -> None:
    await play_breaks_and_losses(server)


# --- renewals that are lost, and frames that are cut -------------------------------------------


async def lost_renewal(which: str, arena: Arena, line: str) -> None:
    a, b, _ = await arena.line(line, "a", "b", "c", make=an_election)
    drop(a.proxy, which, OpCode.MULTI)
    await reconnected(a)
    assert not a.losses
    renewals = a.proxy.requests["MULTI"]
    await eventually(lambda: a.proxy.requests["MULTI"] > renewals, "the next renewal")
    assert a.is_holding
    assert not b.is_holding
    await hand_over(a, b)


async def cut_frame(size: int, direction: Any, arena: Arena, line: str) -> None:
    """A cut in the middle of whatever passes next, at the holder and at a waiter."""
    a, b, _ = await arena.line(line, "a", "b", "c", make=an_election)
    for contender in (a, b):
        contender.proxy.cut_after(size, direction)
    await reconnected(a)
    assert not a.losses
    await reconnected(b)
    await hand_over(a, b)


@with_virtual_server
async def test_renewals_that_are_lost_and_frames_that_are_cut(server: EmbeddedServer) -> None:
    """These have to wait for something to pass."""
    async with MemoryArena(server, session_timeout=6.0) as arena:
        await together(
            arena,
            *(partial(lost_renewal, which) for which in ("reply", "request")),
            *(partial(cut_frame, size, "to_server") for size in (3, 17)),
            *(partial(cut_frame, size, "to_client") for size in (3, 19)),
        )


# --- links that fall silent --------------------------------------------------------------------


async def silent_holder(direction: Direction, arena: Arena, line: str) -> None:
    a, b, _ = await arena.line(line, "a", "b", "c")
    a.proxy.blackhole(direction)
    await a.beaten()
    assert a.losses == [LossReason.UNCONFIRMED]
    if direction == "to_client":
        # The servers still receive A's pings, so its session stays. A deletes its znode over this
        # link, if its lease ran out before the silence was noticed, or after the healing.
        a.proxy.heal()
    await b.holding()
    a.proxy.heal()


async def stalled_holder(arena: Arena, line: str) -> None:
    """As with a black hole; but then everything that was sent arrives, late."""
    a, b, _ = await arena.line(line, "a", "b", "c")
    a.proxy.stall()
    await a.beaten()
    await b.holding()
    a.proxy.heal()
    await eventually(lambda: a.client.session_id != 0, "a has another session")


async def silent_waiter(direction: Direction, arena: Arena, line: str) -> None:
    a, b, c = await arena.line(line, "a", "b", "c")
    session_id = b.client.session_id
    b.proxy.blackhole(direction)
    if direction == "to_client":
        # The servers still receive its pings, so the waiter behind it has to wait for the healing.
        # Where that takes long, it gives its session up, and queues once more.
        await eventually(lambda: b.client.state is SessionState.SUSPENDED, "b notices")
        a.leave()
        c.leave()
        await a.served()
        b.proxy.heal()
        await b.holding()
        return

    async def b_is_gone() -> bool:
        return "b" not in await line_of(arena, line)

    await eventually(b_is_gone, "the session of b expires")
    await hand_over(a, c)
    b.proxy.heal()
    await hand_over(c, b)
    assert b.client.session_id != session_id


async def short_silence(direction: Direction, arena: Arena, line: str) -> None:
    """Of the holder and a waiter, far shorter than the session timeout: nothing comes of it."""
    a, b, _ = await arena.line(line, "a", "b", "c", session_timeout=8.0)
    for contender in (a, b):
        contender.proxy.blackhole(direction)
    await anyio.sleep(0.3)
    for contender in (a, b):
        contender.proxy.heal()
        await reconnected(contender)
    assert not a.losses
    assert a.tenure.is_held
    await hand_over(a, b)


async def resigning_holder(arena: Arena, line: str) -> None:
    def resigns(client: aiolead.Client, line: str, name: str) -> aiolead.Lock:
        return aiolead.Lock(client, line, identity=name, on_disconnect="resign")

    (a,) = await arena.line(line, "a", make=resigns)
    b = arena.contender(line, "b")
    await b.waiting()
    a.proxy.reset()
    await a.beaten()
    assert a.losses == [LossReason.DISCONNECTED]
    assert not a.tenure.is_held
    await b.holding()


async def release_into_silence(arena: Arena, line: str) -> None:
    """The delete is never answered: leaving is bounded all the same."""
    a, b, _ = await arena.line(line, "a", "b", "c")
    a.proxy.drop_request(OpCode.DELETE, how="silence")
    a.leave()
    await a.served()
    a.proxy.heal()
    await b.holding()


async def create_that_is_applied_after_it_was_looked_for(arena: Arena, line: str) -> None:
    """A znode of its own that the client does not know of must not stop the line forever."""
    a, b = await arena.line(line, "a", "b")
    c = arena.contender(line, "c", prepare=lambda p: p.drop_request(OpCode.CREATE2))
    await c.waiting()
    first = names_of(Layout.CURATOR, Role.LOCK).prefix(c.machine.session_id, 1)
    c.proxy.refuse()  # two connections would take the session from each other
    c.proxy.reset()
    # No server would take a create from an old connection. A server that was slow, or frozen, with
    # the create already read, would; its znode is made here by other means.
    await arena.create_in_session(c.client, f"{line}/{first}", b"c")
    c.proxy.heal()
    assert len(await znodes_of(arena, c)) == 2
    d = arena.contender(line, "d")
    await d.waiting()
    for contender in (a, b, c):
        contender.leave()
    await d.holding()


async def play_silence(arena: Arena) -> None:
    directions: tuple[Direction, ...] = ("both", "to_server", "to_client")
    await together(
        arena,
        *(partial(silent_holder, direction) for direction in directions),
        stalled_holder,
        *(partial(silent_waiter, direction) for direction in directions),
        *(partial(short_silence, direction) for direction in directions),
        resigning_holder,
        release_into_silence,
        *(partial(joining, what) for what in JOINING if what.startswith("silent")),
        create_that_is_applied_after_it_was_looked_for,
    )


@with_virtual_server
async def test_links_that_fall_silent(server: EmbeddedServer) -> None:
    async with MemoryArena(server, session_timeout=3.0) as arena:
        await play_silence(arena)


@pytest.mark.exhaustive("the same as on the embedded server")
@only_on("trio")
@pytest.mark.keeps_time(5.0)
@pytest.mark.parametrize("server", ["standalone"], indirect=True)
async def test_links_to_a_real_server_that_fall_silent(server: ServerUnderTest) -> None:
    # Some dozens of clients on one event loop, and a busy machine: all are to have time to renew.
    async with Arena(server.hosts, server.chroot, session_timeout=5.0) as arena:
        await play_silence(arena)
