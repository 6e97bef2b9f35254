"""Contenders whose sessions end, at every stage of their lives.

The servers end a session at once, as they do when an operator (or another process) closes it. No
lease can foresee that, so the hold of a holder ends there as far as exclusion goes (see
`Revoked` in `aiolead.testing.history`); it must still be told, and everybody must get on.
"""

from __future__ import annotations

import struct
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from kit.faults import (
    Arena,
    Contender,
    a_lock,
    an_election,
    eventually,
    only_on,
    together,
)

import aiolead
from aiolead._session.machine import SessionMachine
from aiolead._session.requests.call import UNPROVEN_WRITE, Call, multi_call
from aiolead._wire.framing import encode_record, frame
from aiolead._wire.handshake import ConnectResponse
from aiolead._wire.requests import Check, Multi
from aiolead.errors import Fenced, LeadershipLost, LossReason, SessionExpiredError
from aiolead.model import SessionState
from aiolead.testing import EmbeddedServer, FaultProxy, HeldReply, OpCode

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
    # In line again, at the end.
    async with arena.witness() as witness:

        async def b_is_last() -> bool:
            line_now = await aiolead.Lock(witness, line).contenders()
            return [contender.identity for contender in line_now] == ["a", "c", "b"]

        await eventually(b_is_last, "b stands at the end of the line")
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

    def prepare(proxy: FaultProxy) -> None:
        replies.append(proxy.hold_reply(OpCode.CREATE2))

    a, b = await arena.line(line, "a", "b")
    c = arena.contender(line, "c", prepare=prepare)
    await c.online()
    (reply,) = replies
    await reply.wait()
    before = c.client.session_id
    await arena.end_session(c)
    if which == "answered":
        reply.release()
    else:
        reply.cut()
    await another_session(c, before)
    await c.waiting()
    a.leave()
    b.leave()
    await c.holding()


async def while_releasing(which: str, arena: Arena, line: str) -> None:
    a, b, _ = await arena.line(line, "a", "b", "c")
    if which == "deleted":
        held = a.proxy.hold_reply(OpCode.DELETE)
        a.leave()
        await held.wait()
        before = a.client.session_id
        await arena.end_session(a)
        held.cut()
    else:
        a.proxy.refuse()
        a.proxy.reset()
        before = a.client.session_id
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
            partial(while_holding, "lock"),
            partial(while_holding, "election"),
            while_holding_without_a_link,
            while_waiting,
            of_everybody,
            partial(while_joining, "answered"),
            partial(while_joining, "unanswered"),
            partial(while_releasing, "deleted"),
            partial(while_releasing, "undeleted"),
        )


@pytest.mark.parametrize("server", ["embedded", "standalone"], indirect=True)
async def test_sessions_that_end(server: ServerUnderTest) -> None:
    await play_ends(server)


@only_on("trio")
@pytest.mark.parametrize("server", ["ensemble"], indirect=True)
async def test_sessions_of_an_ensemble_that_end(server: ServerUnderTest) -> None:
    await play_ends(server)


async def test_session_that_expires_under_a_fenced_write() -> None:
    """What no lease can foresee, the servers refuse."""
    async with (
        EmbeddedServer() as server,
        aiolead.connect(server.connect_string) as client,
        aiolead.connect(server.connect_string) as other,
    ):
        await client.create("/data")
        with anyio.fail_after(20):
            with pytest.raises(LeadershipLost) as lost:
                async with aiolead.Election(client, "/e").leadership() as term:
                    fenced = term.fenced()
                    await fenced.set("/data", b"mine")
                    server.expire_session(client.session_id)
                    await anyio.sleep_forever()
            assert lost.value.reason in (LossReason.EXPIRED, LossReason.DELETED)
            async with aiolead.Election(other, "/e").leadership() as successor:
                assert successor.token > term.token
                await successor.fenced().set("/data", b"theirs")
                await client.ready()
                with pytest.raises(Fenced):
                    await fenced.set("/data", b"mine again")
        assert (await other.get("/data"))[0] == b"theirs"


@pytest.mark.parametrize("operation", ["create", "transaction"])
def test_server_that_serves_a_session_which_is_over(operation: str) -> None:
    """A follower does that if the session moved there while the leader closed it (seen on 3.8).

    It answers pings for ever, and every write with an error. So that error must end the link: the
    leader answers the next handshake, and says what is true.
    """
    states: list[SessionState] = []
    machine = SessionMachine(
        session_timeout=2.0,
        auth=(),
        max_request=1 << 20,
        max_reply=1 << 20,
        max_in_flight=1000,
        max_queued=1000,
        max_ephemeral_paths=768 * 1024,
        tick_time=None,
        grace_period=None,
        on_state=lambda state, _: states.append(state),
        on_output=lambda: None,
        on_due=lambda _: None,
    )
    machine.connection_made(0.0)
    machine.data_to_send(0.0)
    machine.receive(encode_record(ConnectResponse(2000, 7, bytes(16))), 0.0)
    call: Call[Any]
    expired = struct.pack(">iqi", 1, 9, -112)
    if operation == "create":
        call = Call(OpCode.CREATE2, b"", lambda _: None, kind=UNPROVEN_WRITE)
        answer = expired
    else:
        call = multi_call(Multi((Check("/a", -1),)), ["/a"])
        results = struct.pack(">i?ii", -1, False, -112, -112) + struct.pack(">i?i", -1, True, -1)
        answer = struct.pack(">iqi", 1, 9, 0) + results
    machine.submit(call, 0.1)
    machine.data_to_send(0.1)
    with pytest.raises(SessionExpiredError):
        machine.receive(frame(answer), 0.2)
    assert isinstance(call.error(), SessionExpiredError)
    machine.connection_lost(0.2)
    assert states == [SessionState.CONNECTED, SessionState.SUSPENDED]
