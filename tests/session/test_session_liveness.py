"""A request that is never answered, although the server answers pings: its connection is lost."""

from __future__ import annotations

import pytest
from session.script import (
    START,
    Script,
    Watcher,
    get,
    pass_time,
    write,
)

from aiolead._session.requests.call import Call
from aiolead._wire.codes import XID_SET_WATCHES, OpCode
from aiolead.errors import ConnectionLossError, Outcome
from aiolead.model import Auth

TIMEOUT = 8.0
BOUND = TIMEOUT * 2 / 3


def until_cut(script: Script, longest: float = 30.0) -> float:
    """Seconds until the connection is given up, while nothing but pings is answered."""
    start = script.now
    while not script.cuts and script.now < start + longest:
        pass_time(script)
    return script.now - start


@pytest.mark.parametrize("kind", [write, get])
def test_a_request_that_is_swallowed_costs_its_connection(script: Script, kind: object) -> None:
    call = write(script, "/a") if kind is write else get(script, "/a")
    (packet,) = script.sent()
    assert until_cut(script) == pytest.approx(BOUND, abs=0.11)
    name = f"{packet.op.name} /a"
    assert script.cuts == [f"the server answers, but has not answered {name} for 5.33333 seconds"]
    if kind is write:
        error = call.error()
        assert isinstance(error, ConnectionLossError)
        assert error.outcome is Outcome.UNKNOWN
    script.connect()
    script.serve()
    assert call.is_done


def test_what_is_answered_before_it_puts_that_off(script: Script) -> None:
    """A server that works off many requests is well, however long the last one waits."""
    calls = [get(script, f"/{number}") for number in range(10)]
    for packet in script.sent():
        for _ in range(50):
            pass_time(script)
        script.answer(packet)
    assert script.cuts == []
    assert all(call.is_done for call in calls)


def test_a_ping_that_was_sent_before_it_puts_that_off_and_later_ones_do_not(
    script: Script,
) -> None:
    (ping,) = script.advance(2.7)
    write(script)
    script.sent()
    script.advance(2.5)
    script.answer(ping)
    answered = script.now
    until_cut(script)
    assert script.now - answered == pytest.approx(BOUND, abs=0.11)


def test_a_long_answer_that_has_begun_puts_that_off(script: Script) -> None:
    get(script, "/a")
    script.sent()
    for _ in range(10):
        script.feed(bytes([0, 0, 1, 0, 0, 0, 0, 1]) if script.now == START else b"\0")
        for _ in range(50):
            script.advance(0.1)
            script.sent()
    assert script.cuts == []


def test_a_long_event_that_has_begun_does_not(script: Script) -> None:
    write(script)
    script.sent()
    script.feed(bytes.fromhex("00000064ffffffff"))
    script.advance(BOUND + 0.1)
    assert len(script.cuts) == 1


def test_a_request_that_left_with_the_handshake_counts_from_the_answer_to_that() -> None:
    script = Script()
    call = get(script, "/a")
    script.connect(after=4.0)
    script.sent()
    assert until_cut(script) == pytest.approx(BOUND, abs=0.11)
    script.connect()
    script.serve()
    assert call.result() == b"data"


def test_watches_whose_setting_again_is_swallowed_cost_their_connection(script: Script) -> None:
    watcher = Watcher(script)
    get(script, "/a", watcher.slot)
    script.serve()
    script.lose_link()
    script.connect()
    (rearm,) = script.sent()
    assert rearm.xid == XID_SET_WATCHES
    start = script.now
    while script.now < start + BOUND - 0.2:  # other requests are answered all the time
        pass_time(script)
        get(script, "/b")
        script.serve()
    assert script.cuts == []
    until_cut(script)
    assert script.cuts == [
        "the server answers, but has not answered SetWatches for 5.33333 seconds"
    ]
    script.connect()
    script.serve()
    assert watcher.slot.is_armed


def test_credentials_that_are_swallowed_cost_their_connection(script: Script) -> None:
    done: Call[None] = Call(OpCode.AUTH, b"", lambda _: None)
    script.advance(1.0)
    script.machine.login.add(Auth.digest("a", "secret"), done, script.now)
    script.sent()
    assert until_cut(script) == pytest.approx(BOUND, abs=0.11)
    assert "credentials" in script.cuts[0]
    script.connect()
    script.serve()
    assert done.is_done


def test_after_everything_was_answered_nothing_but_silence_counts(script: Script) -> None:
    get(script, "/a")
    script.serve()
    for _ in range(200):
        pass_time(script)
    assert script.cuts == []
