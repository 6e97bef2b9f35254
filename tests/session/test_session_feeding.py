"""The question whether one round of the proof is enough, and the renewals where it is not."""

from __future__ import annotations

from itertools import pairwise

import pytest
from session.half_ticks import waited
from session.script import NO_NODE, STAT, Holder, Packet, Script, renewals

from aiolead._wire.codes import OpCode
from aiolead._wire.replies import DataReply
from aiolead.errors import NoAuthError

TIMEOUT = 8.0
MARGIN = 0.808
NO_AUTH = NoAuthError.code
THROTTLED = -127

VOTERS = b"server.1=a:1:2:participant\nserver.2=b:1:2:participant\nversion=0"
WITH_OBSERVER = VOTERS + b"\nserver.3=c:1:2:observer;0.0.0.0:2181"


@pytest.fixture
def script() -> Script:
    script = Script()
    script.shows_question = True
    script.connect()
    return script


def answer(script: Script, what: bytes | int | None) -> None:
    """Answer the question, which is the first thing to be sent, and then the renewal behind it."""
    question, renewal = script.sent()
    assert question.is_question
    if isinstance(what, int):
        script.reply(question.xid, err=what)
    else:
        script.reply(question.xid, DataReply(what, STAT))
    script.answer(renewal)
    script.confirm()


def is_direct(script: Script) -> bool:
    return script.machine._lease_proof.is_direct


def test_the_question_leaves_in_the_segment_of_the_first_renewal(script: Script) -> None:
    script.advance(5.0, serve=script.serve)
    assert script.ops() == []  # nothing is held: nothing is asked
    Holder(script, urgent=True)
    script.tick()
    data = script.machine.data_to_send(script.now)
    assert script.machine.data_to_send(script.now) == b""
    assert b"/zookeeper/config" in data
    assert b"/held" in data


@pytest.mark.parametrize("what", [NO_NODE, None, b"", VOTERS, b"version=0"])
def test_one_round_is_enough_without_observers(script: Script, what: bytes | int | None) -> None:
    Holder(script, urgent=True)
    script.tick()
    answer(script, what)
    assert is_direct(script)


@pytest.mark.parametrize(
    "what", [NO_AUTH, THROTTLED, WITH_OBSERVER, b"server.1=a:1:2:witness", b"server.x=\xff"]
)
def test_two_rounds_are_needed_if_there_may_be_an_observer(
    script: Script, what: bytes | int
) -> None:
    Holder(script, urgent=True)
    script.tick()
    assert not is_direct(script)
    answer(script, what)
    assert not is_direct(script)


def test_the_question_is_asked_once_on_each_connection(script: Script) -> None:
    Holder(script, urgent=True)
    packets: list[Packet] = []
    for _ in range(2):
        script.tick()
        answer(script, NO_NODE)
        served = len(packets)
        script.advance(5.0, serve=lambda: packets.extend(script.serve()))
        assert renewals(packets[served:])
        script.lose_link()
        assert not is_direct(script)
        script.connect()
    assert not any(packet.is_question for packet in packets)


@pytest.mark.parametrize(("code", "again"), [(THROTTLED, True), (NO_AUTH, False)])
def test_a_question_that_is_refused_for_a_while_is_asked_again(
    script: Script, code: int, again: bool
) -> None:
    Holder(script, urgent=True)
    script.tick()
    answer(script, code)
    packets = script.advance(1.1)
    assert [packet.op for packet in packets] == ([OpCode.GET_DATA] if again else []) + [
        OpCode.MULTI
    ]


def test_a_client_without_enough_lease_asks_with_its_next_write(script: Script) -> None:
    machine = script.machine
    assert machine.has_enough_lease(script.now)
    script.advance(2 * TIMEOUT, serve=script.serve)
    assert not machine.has_enough_lease(script.now)
    assert not machine.has_enough_lease(script.now)
    (packet,) = script.sent()
    assert packet.is_question


def test_a_question_without_a_connection_is_not_queued(script: Script) -> None:
    script.lose_link()
    script.now += 2 * TIMEOUT
    assert not script.machine.has_enough_lease(script.now)
    script.connect()
    assert script.ops() == []


# --- the lease with two rounds -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("tick", "least", "most", "gap"),
    [
        pytest.param(None, 0.27, 0.40, 1 / 8, id="unknown tick"),
        pytest.param(4.0, 0.27, 0.40, 1 / 8, id="tick of half the timeout"),
        pytest.param(3.0, 0.33, 0.53, 3 / 16, id="tick of three eighths"),
        pytest.param(2.0, 0.52, 0.65, 1 / 8, id="tick of a quarter"),
        pytest.param(0.5, 0.52, 0.65, 1 / 8, id="short tick"),
    ],
)
@pytest.mark.parametrize("latency", [0.0, 0.02])
def test_the_lease_with_two_rounds_is_long_enough(
    tick: float | None, least: float, most: float, gap: float, latency: float
) -> None:
    """Shortest when a renewal has left, and longest when it is confirmed."""
    script = Script(tick_time=tick)
    script.shows_question = True
    script.connect()
    holder = Holder(script, urgent=True)
    script.tick()
    answer(script, WITH_OBSERVER)
    sent, left = [], []

    def serve() -> None:
        while packets := script.sent():
            sent.extend(packet.sent for packet in renewals(packets))
            script.now += latency
            left.append((script.machine.leases.deadline - script.now) / TIMEOUT)
            for packet in packets:
                script.answer(packet)
            left.append((script.machine.leases.deadline - script.now) / TIMEOUT)

    script.advance(10 * TIMEOUT, serve=serve)
    assert holder.reasons == []
    settled = left[len(left) // 2 :]
    slack = 8 * latency / TIMEOUT
    assert least - slack <= min(settled) <= least + 0.03
    assert max(settled) <= most
    gaps = [later - earlier for earlier, later in pairwise(sent)]
    assert max(gaps) <= waited(gap * TIMEOUT) * 1.001 + 4 * latency


def test_one_round_renews_as_before(script: Script) -> None:
    Holder(script, urgent=True)
    script.tick()
    answer(script, VOTERS)
    packets = script.advance(waited(TIMEOUT / 4) - 0.01)
    assert renewals(packets) == []
    assert len(renewals(script.advance(0.02))) == 1
