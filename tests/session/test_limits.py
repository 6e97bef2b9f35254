"""Many requests at a slow server: no role is lost, and memory is bounded."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest
from session.script import TIMEOUT, Holder, Packet, Script, Watcher, connected

from aiolead._session import requests
from aiolead._session.requests import Call
from aiolead._wire.codes import OpCode
from aiolead.errors import Outcome, TooManyRequestsError
from aiolead.model import SessionState


class SlowServer:
    """Answers in order, and each request takes its time.

    Args:
        script: the client.
        pace: seconds for each request.

    Attributes:
        longest: the most requests that have waited for their answers.
    """

    def __init__(self, script: Script, pace: float) -> None:
        self._script = script
        self._pace = pace
        self._backlog: deque[Packet] = deque()
        self._free_at = script.now
        self.longest = 0

    def run(self, seconds: float) -> None:
        """Lets time pass, on both sides."""
        script = self._script
        end = script.now + seconds
        while True:
            self._take()
            answer_at = self._free_at if self._backlog else end
            now = min(answer_at, script.machine.next_deadline(), end)
            script.now = max(script.now, now)
            if self._backlog and answer_at <= script.now:
                script.answer(self._backlog.popleft())
                self._free_at = script.now + self._pace
            script.tick()
            if script.now >= end:
                return

    def _take(self) -> None:
        packets = self._script.sent()
        if packets and not self._backlog:
            self._free_at = self._script.now + self._pace
        self._backlog += packets
        self.longest = max(self.longest, len(self._backlog))


def holding(**options: Any) -> tuple[Script, Holder]:
    script = connected(**options)
    script.machine.can_move = True
    holder = script.hold(urgent=True)
    script.renew()
    return script, holder


def read_many(script: Script, count: int) -> list[Call[Any]]:
    return [script.get(f"/{number}") for number in range(count)]


@pytest.mark.parametrize("pace", [0.001, 0.005, 0.02])
@pytest.mark.parametrize("ask", ["get", "write"])
def test_ten_thousand_requests_at_a_slow_server_cost_no_role(pace: float, ask: str) -> None:
    script, holder = holding()
    server = SlowServer(script, pace)
    calls = [getattr(script, ask)(f"/{number}") for number in range(10_000)]
    server.run(10_000 * pace * 1.2 + 5.0)
    assert holder.lost == []
    assert script.cuts == []
    assert all(call.is_done and call.error() is None for call in calls)


def test_role_is_lost_without_care_for_the_number_in_flight(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With as many in flight as users may have otherwise, the renewal is answered too late."""
    monkeypatch.setattr(requests, "FEWEST", 1000)
    script, holder = holding()
    script.machine.can_move = False
    server = SlowServer(script, 0.005)
    read_many(script, 10_000)
    server.run(20.0)
    assert holder.lost != []


def test_requests_are_answered_in_their_order() -> None:
    script, _ = holding(max_in_flight=50)
    order: list[int] = []
    for number, call in enumerate(read_many(script, 2000)):
        call.add_done_callback(lambda number=number: order.append(number))
    server = SlowServer(script, 0.005)
    server.run(15.0)
    assert order == list(range(2000))
    # The renewal, and what confirms it, are on top of it.
    assert server.longest <= 51


def test_hold_that_begins_among_many_requests_is_renewed_in_time() -> None:
    script = connected(max_in_flight=200)
    server = SlowServer(script, 0.005)
    read_many(script, 10_000)
    server.run(0.1)
    holder = script.hold(urgent=True)
    server.run(40.0)
    assert holder.lost == []


def test_renewal_overtakes_waiting_requests_and_its_confirmation_follows_its_answer() -> None:
    script, _ = holding(max_in_flight=5)
    read_many(script, 100)
    assert len(script.sent()) == 5
    script.now = script.machine.renewals.due()
    script.tick()
    (renewal,) = script.sent()
    assert renewal.op is OpCode.MULTI
    script.reply(renewal.xid - 5, err=-101)
    assert script.ops() == [OpCode.GET_DATA]


def test_closing_the_session_is_sent_last_and_waits_for_no_answer() -> None:
    script = connected(max_in_flight=3, max_queued=5)
    read_many(script, 5)
    goodbye = script.machine.close(script.now)
    assert script.ops() == [OpCode.GET_DATA] * 3
    assert script.serve() == []
    for xid in (1, 2, 3):
        script.reply(xid, err=-101)
    assert script.ops() == [OpCode.GET_DATA] * 2 + [OpCode.CLOSE_SESSION]
    assert not goodbye.is_done


# --- requests that wait ------------------------------------------------------------------------


@pytest.mark.parametrize("is_connected", [True, False])
def test_request_beyond_the_limit_is_refused_and_has_no_effect(is_connected: bool) -> None:
    script = connected(max_in_flight=2, max_queued=10)
    if not is_connected:
        script.disconnect()
    watcher = Watcher(script)
    for _ in range(10):
        script.write()
    with pytest.raises(TooManyRequestsError, match=r"^10 requests .*max_queued") as refused:
        script.children("/a", watcher.slot)
    assert refused.value.outcome is Outcome.NOT_APPLIED
    assert not watcher.is_armed
    if not is_connected:
        script.connect()
    assert script.ops() == [OpCode.SET_DATA] * 2
    # The two that were sent have made room.
    script.children("/a", watcher.slot)
    script.write()
    with pytest.raises(TooManyRequestsError):
        script.write()


def test_request_of_a_recipe_is_never_refused() -> None:
    script = connected(max_queued=1)
    script.write()
    script.machine.submit(Call(OpCode.SYNC, b"", lambda _: None), script.now)
    assert len(script.sent()) == 2


def test_request_that_waited_at_a_slow_server_waits_a_whole_timeout_for_the_next() -> None:
    script = connected(max_in_flight=1)
    server = SlowServer(script, 3.0)
    reads = read_many(script, 20)
    server.run(20.0)
    assert script.machine.state is SessionState.CONNECTED
    script.disconnect()
    script.advance(TIMEOUT - 0.1)
    assert not any(read.error() for read in reads if read.is_done)
    script.advance(0.2)
    assert all(read.is_done for read in reads)


def test_failed_attempts_to_connect_do_not_extend_the_wait(script: Script) -> None:
    script.disconnect()
    waiting = script.get("/a")
    for _ in range(7):
        script.open()
        script.advance(1.0)
        script.disconnect()
    assert not waiting.is_done
    script.advance(1.1)
    assert waiting.is_done
