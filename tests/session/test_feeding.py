"""The question whether one round of the proof is enough, and the renewals where it is not."""

from __future__ import annotations

from itertools import pairwise

import pytest
from session.script import NO_NODE, STAT, TIMEOUT, Packet, Script, renewals, waited

from aiolead._wire.codes import OpCode
from aiolead._wire.replies import DataReply
from aiolead.errors import NoAuthError

NO_AUTH = NoAuthError.code
THROTTLED = -127

VOTERS = b"server.1=a:1:2:participant\nserver.2=b:1:2:participant\nversion=0"
WITH_OBSERVER = VOTERS + b"\nserver.3=c:1:2:observer;0.0.0.0:2181"


def asking(**options: float | None) -> Script:
    """A session whose questions a test answers itself."""
    script = Script(**options)
    script.shows_question = True
    script.connect()
    return script


@pytest.fixture
def script() -> Script:
    return asking()


def answer(script: Script, what: bytes | int | None) -> None:
    """Answers the question, which is sent first, with data or an error; and then the renewal."""
    script.tick()
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


def test_question_leaves_in_the_segment_of_the_first_renewal(script: Script) -> None:
    script.serve_for(5.0)
    assert script.ops() == []  # nothing is held: nothing is asked
    script.hold(urgent=True)
    script.tick()
    data = script.machine.data_to_send(script.now)
    assert script.machine.data_to_send(script.now) == b""
    assert b"/zookeeper/config" in data
    assert b"/held" in data


@pytest.mark.parametrize(
    ("what", "direct"),
    [
        *[(what, True) for what in (NO_NODE, None, b"", VOTERS, b"version=0")],
        # There may be an observer.
        *[(what, False) for what in (NO_AUTH, THROTTLED, WITH_OBSERVER)],
        *[(what, False) for what in (b"server.1=a:1:2:witness", b"server.x=\xff")],
    ],
)
def test_one_round_is_enough_where_there_is_no_observer(
    script: Script, what: bytes | int | None, direct: bool
) -> None:
    script.hold(urgent=True)
    assert not is_direct(script)
    answer(script, what)
    assert is_direct(script) is direct


def test_question_is_asked_once_on_each_connection(script: Script) -> None:
    script.hold(urgent=True)
    packets: list[Packet] = []
    for _ in range(2):
        answer(script, NO_NODE)
        served = script.serve_for(5.0)
        assert renewals(served)
        packets += served
        script.disconnect()
        assert not is_direct(script)
        script.connect()
    assert not any(packet.is_question for packet in packets)


@pytest.mark.parametrize(
    ("code", "ops"), [(THROTTLED, [OpCode.GET_DATA, OpCode.MULTI]), (NO_AUTH, [OpCode.MULTI])]
)
def test_question_is_repeated_if_the_refusal_may_be_temporary(
    script: Script, code: int, ops: list[OpCode]
) -> None:
    script.hold(urgent=True)
    answer(script, code)
    assert [packet.op for packet in script.advance(1.1)] == ops


def test_client_without_enough_lease_asks_with_its_next_write(script: Script) -> None:
    renewals = script.machine.renewals
    assert renewals.first_is_in_time(script.now)
    script.serve_for(2 * TIMEOUT)
    assert not renewals.first_is_in_time(script.now)
    assert not renewals.first_is_in_time(script.now)
    assert script.one().is_question


def test_question_is_not_queued_without_a_connection(script: Script) -> None:
    script.disconnect()
    script.now += 2 * TIMEOUT
    assert not script.machine.renewals.first_is_in_time(script.now)
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
def test_lease_with_two_rounds_is_long_enough(
    tick: float | None, least: float, most: float, gap: float, latency: float
) -> None:
    """Shortest when a renewal has left, and longest when it is confirmed."""
    script = asking(tick_time=tick)
    holder = script.hold(urgent=True)
    answer(script, WITH_OBSERVER)
    sent, left = [], []

    def serve() -> None:
        while packets := script.sent():
            sent.extend(packet.sent for packet in renewals(packets))
            script.now += latency
            left.append((script.deadline - script.now) / TIMEOUT)
            for packet in packets:
                script.answer(packet)
            left.append((script.deadline - script.now) / TIMEOUT)

    script.advance(10 * TIMEOUT, serve=serve)
    assert holder.reasons == []
    settled = left[len(left) // 2 :]
    slack = 8 * latency / TIMEOUT
    assert least - slack <= min(settled) <= least + 0.03
    assert max(settled) <= most
    gaps = [later - earlier for earlier, later in pairwise(sent)]
    assert max(gaps) <= waited(gap * TIMEOUT) * 1.001 + 4 * latency


def test_interval_of_renewals_with_one_round_is_unchanged(script: Script) -> None:
    script.hold(urgent=True)
    answer(script, VOTERS)
    packets = script.advance(waited(TIMEOUT / 4) - 0.01)
    assert renewals(packets) == []
    assert len(renewals(script.advance(0.02))) == 1
