"""Contenders whose links break: never two holders, never stuck, nothing left behind.

What must hold after every scene is checked by the arena (see `kit.faults`); a scene only says
what must follow from its own fault at once. Scenes of one test are played at the same time.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Literal

import anyio
import pytest
from kit.faults import (
    Arena,
    Contender,
    MemoryArena,
    a_lock,
    an_election,
    eventually,
    only_on,
    together,
)
from kit.virtual_time import on_virtual_time

import aiolead
from aiolead._recipes.contention.layouts import Role
from aiolead.errors import LossReason
from aiolead.model import SessionState
from aiolead.testing import EmbeddedServer, FaultProxy, OpCode
from aiolead.testing.simulation import Backend
from aiolead.types import Layout

if TYPE_CHECKING:
    from conftest import ServerUnderTest

How = Literal["reset", "fin"]
Direction = Literal["to_server", "to_client", "both"]

LOOKING = (OpCode.EXISTS, OpCode.GET_DATA, OpCode.GET_CHILDREN, OpCode.SET_WATCHES, OpCode.SYNC)


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


# --- a link that breaks at once ----------------------------------------------------------------


async def broken_link_of_the_holder(how: How, arena: Arena, line: str) -> None:
    a, b, _ = await arena.line(line, "a", "b", "c")
    (a.proxy.reset if how == "reset" else a.proxy.fin)()
    await reconnected(a)
    assert a.is_holding
    assert not a.losses
    assert not b.is_holding
    a.leave()
    await b.holding()


async def broken_link_of_the_waiter(how: How, arena: Arena, line: str) -> None:
    a, b, c = await arena.line(line, "a", "b", "c")
    before = await znodes_of(arena, b)
    for contender in (b, c):
        (contender.proxy.reset if how == "reset" else contender.proxy.fin)()
        await reconnected(contender)
    assert await znodes_of(arena, b) == before
    a.leave()
    await b.holding()
    b.leave()
    await c.holding()


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
    a.leave()
    await b.holding()
    assert b.proxy.connections == 2


async def handshake_whose_answer_is_lost(arena: Arena, line: str) -> None:
    a, b, _ = await arena.line(line, "a", "b", "c")
    for contender in (a, b):
        contender.proxy.drop_reply(OpCode.CREATE_SESSION)
        contender.proxy.reset()
    await reconnected(a, links=3)
    await reconnected(b, links=3)
    assert not a.losses
    a.leave()
    await b.holding()


async def first_session_that_the_client_does_not_hear_of(arena: Arena, line: str) -> None:
    a = arena.contender(line, "a", prepare=lambda p: p.drop_reply(OpCode.CREATE_SESSION))
    await a.holding()


# --- messages that are lost --------------------------------------------------------------------


async def lost_create(which: str, count: int, arena: Arena, line: str) -> None:
    """With the answer lost, the znode is there, and is found again; never is there a second one."""

    def prepare(proxy: FaultProxy) -> None:
        (proxy.drop_reply if which == "reply" else proxy.drop_request)(OpCode.CREATE2, count)

    a, _ = await arena.line(line, "a", "b")
    c = arena.contender(line, "c", prepare=prepare)
    await c.waiting()
    assert len(await znodes_of(arena, c)) == 1
    assert c.proxy.requests["CREATE2"] == (1 if which == "reply" else count + 1)
    d = arena.contender(line, "d")
    await d.waiting()
    for contender in (a, arena.contenders[1]):
        contender.leave()


async def lost_create_of_the_only_one(arena: Arena, line: str) -> None:
    a = arena.contender(line, "a", prepare=lambda p: p.drop_reply(OpCode.CREATE2))
    await a.holding()
    assert len(await znodes_of(arena, a)) == 1


async def lost_create_and_lost_search_for_it(arena: Arena, line: str) -> None:
    def prepare(proxy: FaultProxy) -> None:
        proxy.drop_reply(OpCode.CREATE2)
        for op in (OpCode.SYNC, OpCode.GET_CHILDREN, OpCode.SET_WATCHES):
            proxy.drop_reply(op)

    a, b = await arena.line(line, "a", "b")
    c = arena.contender(line, "c", prepare=prepare)
    await c.waiting()
    assert len(await znodes_of(arena, c)) == 1
    a.leave()
    b.leave()
    await c.holding()


async def lost_looks_while_joining(which: str, arena: Arena, line: str) -> None:
    def prepare(proxy: FaultProxy) -> None:
        for op in LOOKING:
            (proxy.drop_reply if which == "reply" else proxy.drop_request)(op)

    a, b = await arena.line(line, "a", "b")
    c = arena.contender(line, "c", prepare=prepare)
    await c.waiting()
    assert len(await znodes_of(arena, c)) == 1
    a.leave()
    b.leave()
    await c.holding()


async def lost_delete(which: str, arena: Arena, line: str) -> None:
    a, b, _ = await arena.line(line, "a", "b", "c")
    (a.proxy.drop_reply if which == "reply" else a.proxy.drop_request)(OpCode.DELETE)
    a.leave()
    await a.served()
    await b.holding()
    assert not a.losses


async def lost_delete_of_a_waiter_that_gives_up(arena: Arena, line: str) -> None:
    """What cannot be deleted when a wait is cancelled stays a debt of the client."""
    a, b = await arena.line(line, "a", "b")
    async with arena.witness() as witness:
        lock = aiolead.Lock(b.client, line, identity="b2")
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_enter, lock)

                async def both_of_b_wait() -> bool:
                    return len(await aiolead.Lock(witness, line).contenders()) == 3

                await eventually(both_of_b_wait, "both of b stand in line")
                b.proxy.drop_request(OpCode.DELETE)
                scope.cancel()
    a.leave()
    await b.holding()


async def _enter(lock: aiolead.Lock) -> None:
    async with lock:
        raise AssertionError("it is not its turn")


async def lost_renewal(which: str, arena: Arena, line: str) -> None:
    a, b, _ = await arena.line(line, "a", "b", "c", make=an_election)
    (a.proxy.drop_reply if which == "reply" else a.proxy.drop_request)(OpCode.MULTI)
    await reconnected(a)
    assert not a.losses
    renewals = a.proxy.requests["MULTI"]
    await eventually(lambda: a.proxy.requests["MULTI"] > renewals, "the next renewal")
    assert a.is_holding
    assert not b.is_holding
    a.leave()
    await b.holding()


async def cut_frame(
    size: int, direction: Literal["to_server", "to_client"], arena: Arena, line: str
) -> None:
    """A cut in the middle of whatever passes next, at the holder and at a waiter."""
    a, b, _ = await arena.line(line, "a", "b", "c", make=an_election)
    for contender in (a, b):
        contender.proxy.cut_after(size, direction)
    await reconnected(a)
    assert not a.losses
    await reconnected(b)
    a.leave()
    await b.holding()


async def play_breaks_and_losses(server: ServerUnderTest) -> None:
    # Nothing here waits for the end of a session, so that of a slow machine should not come.
    async with Arena(server.hosts, server.chroot, session_timeout=8.0) as arena:
        await together(
            arena,
            partial(broken_link_of_the_holder, "reset"),
            partial(broken_link_of_the_holder, "fin"),
            partial(broken_link_of_the_waiter, "reset"),
            partial(broken_link_of_the_waiter, "fin"),
            turn_that_comes_while_the_waiter_is_away,
            event_of_the_turn_that_is_lost,
            handshake_whose_answer_is_lost,
            first_session_that_the_client_does_not_hear_of,
            partial(lost_create, "reply", 1),
            partial(lost_create, "request", 3),
            lost_create_of_the_only_one,
            lost_create_and_lost_search_for_it,
            partial(lost_looks_while_joining, "reply"),
            partial(lost_looks_while_joining, "request"),
            partial(lost_delete, "reply"),
            partial(lost_delete, "request"),
            lost_delete_of_a_waiter_that_gives_up,
        )


@pytest.mark.parametrize("server", ["embedded", "standalone"], indirect=True)
async def test_links_that_break_and_messages_that_are_lost(server: ServerUnderTest) -> None:
    await play_breaks_and_losses(server)


@only_on("asyncio+uvloop")
@pytest.mark.parametrize("server", ["ensemble"], indirect=True)
async def test_links_to_an_ensemble_that_break(server: ServerUnderTest) -> None:
    await play_breaks_and_losses(server)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_renewals_that_are_lost_and_frames_that_are_cut(backend: Backend) -> None:
    """These have to wait for something to pass."""

    async def play(server: EmbeddedServer) -> None:
        async with MemoryArena(server, session_timeout=6.0) as arena:
            await together(
                arena,
                partial(lost_renewal, "reply"),
                partial(lost_renewal, "request"),
                partial(cut_frame, 3, "to_server"),
                partial(cut_frame, 3, "to_client"),
                partial(cut_frame, 17, "to_server"),
                partial(cut_frame, 19, "to_client"),
            )

    on_virtual_time(backend, play)


# --- links that fall silent --------------------------------------------------------------------


async def silent_holder(direction: Direction, arena: Arena, line: str) -> None:
    a, b, _ = await arena.line(line, "a", "b", "c")
    a.proxy.blackhole(direction)
    await a.beaten()
    assert a.losses == [LossReason.UNCONFIRMED]
    if direction == "to_client":
        # The servers still hear of A, so its session stays. Its znode goes when A deletes it: over
        # this very link, if the lease ran out before the silence was noticed, or after the healing.
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
        # The servers go on hearing of it: whoever waits behind it has to wait for the healing.
        # Where that takes long, it gives its session up, and stands in line once more.
        await eventually(lambda: b.client.state is SessionState.SUSPENDED, "b notices")
        a.leave()
        c.leave()
        await a.served()
        b.proxy.heal()
        await b.holding()
        return
    async with arena.witness() as witness:

        async def b_is_gone() -> bool:
            line_now = await aiolead.Lock(witness, line).contenders()
            return "b" not in [contender.identity for contender in line_now]

        await eventually(b_is_gone, "the session of b expires")
    a.leave()
    await c.holding()
    b.proxy.heal()
    c.leave()
    await b.holding()
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
    a.leave()
    await b.holding()


async def surrendering_holder(arena: Arena, line: str) -> None:
    def surrenders(client: aiolead.Client, line: str, name: str) -> aiolead.Lock:
        return aiolead.Lock(client, line, identity=name, on_disconnect="resign")

    (a,) = await arena.line(line, "a", make=surrenders)
    b = arena.contender(line, "b", make=a_lock)
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


async def joining_into_silence(which: str, arena: Arena, line: str) -> None:
    def prepare(proxy: FaultProxy) -> None:
        drop = proxy.drop_reply if which == "reply" else proxy.drop_request
        drop(OpCode.CREATE2, how="silence")

    a, b = await arena.line(line, "a", "b")
    c = arena.contender(line, "c", prepare=prepare)
    await c.waiting()
    assert c.proxy.connections == 2
    assert len(await znodes_of(arena, c)) == 1
    a.leave()
    b.leave()
    await c.holding()


async def create_that_is_applied_after_it_was_looked_for(arena: Arena, line: str) -> None:
    """A ghost: a znode of ours that we do not know of. It must not stop the line for ever."""
    a, b = await arena.line(line, "a", "b")
    c = arena.contender(line, "c", prepare=lambda p: p.drop_request(OpCode.CREATE2))
    await c.waiting()
    first = Layout.CURATOR._prefix(Role.LOCK, c.machine.session_id, 1)
    c.proxy.refuse()  # two connections would take the session from each other
    c.proxy.reset()
    # No server would take a create from an old connection. A server that was slow, or frozen, with
    # the create already read, would; what it leaves is made here by other means.
    await arena.create_in_session(c.client, f"{line}/{first}", b"c")
    c.proxy.heal()
    assert len(await znodes_of(arena, c)) == 2
    d = arena.contender(line, "d")
    await d.waiting()
    for contender in (a, b, c):
        contender.leave()
    await d.holding()


async def play_silence(arena: Arena) -> None:
    await together(
        arena,
        partial(silent_holder, "both"),
        partial(silent_holder, "to_server"),
        partial(silent_holder, "to_client"),
        stalled_holder,
        partial(silent_waiter, "both"),
        partial(silent_waiter, "to_server"),
        partial(silent_waiter, "to_client"),
        partial(short_silence, "both"),
        partial(short_silence, "to_server"),
        partial(short_silence, "to_client"),
        surrendering_holder,
        release_into_silence,
        partial(joining_into_silence, "reply"),
        partial(joining_into_silence, "request"),
        create_that_is_applied_after_it_was_looked_for,
    )


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_links_that_fall_silent(backend: Backend) -> None:
    async def play(server: EmbeddedServer) -> None:
        async with MemoryArena(server, session_timeout=3.0) as arena:
            await play_silence(arena)

    on_virtual_time(backend, play)


@pytest.mark.exhaustive("the same as on the embedded server")
@only_on("trio")
@pytest.mark.keeps_time(5.0)
@pytest.mark.parametrize("server", ["standalone"], indirect=True)
async def test_links_to_a_real_server_that_fall_silent(server: ServerUnderTest) -> None:
    # Some dozens of clients on one event loop, and a busy machine: all are to have time to renew.
    async with Arena(server.hosts, server.chroot, session_timeout=5.0) as arena:
        await play_silence(arena)
