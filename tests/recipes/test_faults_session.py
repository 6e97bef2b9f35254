"""Contenders whose sessions end, at every stage of their lives.

The servers end a session at once, as they do when an operator (or another process) closes it. No
lease can foresee that, so the hold of a holder ends there as far as exclusion goes (see
`Revoked` in `aiolead.testing.history`); the loss must still be reported, and everybody must go on.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest
from kit.clients import eventually
from kit.faults import Arena, Contender, a_lock, an_election, only_on, together
from session.script import Script

import aiolead
from aiolead._session.requests import multi_call
from aiolead._wire.requests import Check, Multi
from aiolead.errors import LossReason, SessionExpiredError
from aiolead.model import SessionState
from aiolead.testing import HeldReply, OpCode

if TYPE_CHECKING:
    from conftest import ServerUnderTest


async def another_session(contender: Contender, before: int) -> None:
    await eventually(
        lambda: (
            contender.client.session_id not in (0, before)
            and contender.client.state is SessionState.CONNECTED
        ),
        f"{contender!r} has another session",
    )


async def while_holding(what: str, arena: Arena, line: str) -> None:
    make = an_election if what == "election" else a_lock
    a, b = await arena.line(line, "a", "b", make=make)
    lost = a.tenure
    await arena.end_session(a)
    await a.beaten()
    assert a.losses[0] in (LossReason.EXPIRED, LossReason.DELETED)
    assert not lost.is_held
    await b.holding()
    b.leave()
    await a.holding()
    assert a.tenure.session_id == a.client.session_id
    assert not lost.is_held  # the new session is not the old one's heir


async def while_holding_without_a_link(arena: Arena, line: str) -> None:
    """The lease still runs when the link comes back; but there is no session any more."""
    a, b, _ = await arena.line(line, "a", "b", "c", session_timeout=9.0)
    a.proxy.refuse()
    a.proxy.reset()
    await eventually(lambda: a.client.state is SessionState.SUSPENDED, "a has no link")
    await arena.end_session(a)
    await b.holding()
    a.proxy.heal()
    await a.beaten()
    assert a.losses == [LossReason.EXPIRED]


async def while_waiting(arena: Arena, line: str) -> None:
    a, b, c = await arena.line(line, "a", "b", "c")
    before = b.client.session_id
    await arena.end_session(b)
    await another_session(b, before)
    # In the queue again, at the end.
    async with arena.witness() as witness:

        async def b_is_last() -> bool:
            line_now = await aiolead.Lock(witness, line).contenders()
            return [contender.identity for contender in line_now] == ["a", "c", "b"]

        await eventually(b_is_last, "b is the last one in the queue")
    await b.waiting()
    a.leave()
    await c.holding()
    c.leave()
    await b.holding()


async def of_everybody(arena: Arena, line: str) -> None:
    a, b, c = await arena.line(line, "a", "b", "c")
    for contender in (c, b, a):
        await arena.end_session(contender)
    await a.beaten()


async def while_joining(which: str, arena: Arena, line: str) -> None:
    """Between the create and its answer; the answer then comes, or does not."""
    replies: list[HeldReply] = []
    a, b = await arena.line(line, "a", "b")
    c = arena.contender(line, "c", prepare=lambda p: replies.append(p.hold_reply(OpCode.CREATE2)))
    await c.online()
    (reply,) = replies
    await reply.wait()
    before = c.client.session_id
    await arena.end_session(c)
    (reply.release if which == "answered" else reply.cut)()
    await another_session(c, before)
    await c.waiting()
    a.leave()
    b.leave()
    await c.holding()


async def while_releasing(which: str, arena: Arena, line: str) -> None:
    a, b, _ = await arena.line(line, "a", "b", "c")
    before = a.client.session_id
    if which == "deleted":
        held = a.proxy.hold_reply(OpCode.DELETE)
        a.leave()
        await held.wait()
        await arena.end_session(a)
        held.cut()
    else:
        a.proxy.refuse()
        a.proxy.reset()
        a.leave()
        await arena.end_session(a)
        a.proxy.heal()
    await a.served()
    await b.holding()
    await another_session(a, before)


async def play_ends(server: ServerUnderTest) -> None:
    async with Arena(server.hosts, server.chroot, session_timeout=8.0) as arena:
        await together(
            arena,
            *(partial(while_holding, what) for what in ("lock", "election")),
            while_holding_without_a_link,
            while_waiting,
            of_everybody,
            *(partial(while_joining, which) for which in ("answered", "unanswered")),
            *(partial(while_releasing, which) for which in ("deleted", "undeleted")),
        )


@pytest.mark.parametrize("server", ["embedded", "standalone"], indirect=True)
@pytest.mark.only_zookeeper("a session that outlives its connection")
async def test_sessions_that_end(server: ServerUnderTest) -> None:
    await play_ends(server)


@only_on("trio")
@pytest.mark.parametrize("server", ["ensemble"], indirect=True)
async def test_sessions_of_an_ensemble_that_end(server: ServerUnderTest) -> None:
    await play_ends(server)


def test_transaction_in_a_session_that_is_over_ends_the_connection() -> None:
    """A follower serves such a session if it moved there while the leader closed it (seen on 3.8).

    It answers pings forever, and every write with an error. So that error must end the link: the
    leader answers the next handshake, and says what is true.
    """
    script = Script()
    script.connect()
    call = script.submit(multi_call(Multi((Check("/a", -1),)), ["/a"]))
    (packet,) = script.sent()
    with pytest.raises(SessionExpiredError):
        script.refuse(packet, 0, -112)
    assert isinstance(call.error(), SessionExpiredError)
    script.disconnect()
    states = [state for state, _ in script.states]
    assert states == [SessionState.CONNECTED, SessionState.SUSPENDED]
