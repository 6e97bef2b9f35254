"""Requests without end and a server that does not keep up: no role is lost, no memory either."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest
from session.script import Holder, Packet, Script, Watcher, children, get, renew, write

from aiolead._session.requests import request_queue
from aiolead._session.requests.call import Call
from aiolead._wire.codes import OpCode
from aiolead.errors import Outcome, TooManyRequestsError
from aiolead.model import SessionState

TIMEOUT = 8.0


class SlowServer:
    """Answers in order, and each request takes its time.

    Args:
        script: the client.
        pace: seconds for each request.
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
    script = Script(session_timeout=TIMEOUT, **options)
    script.connect(timeout=TIMEOUT)
    script.machine.can_move = True
    holder = Holder(script, urgent=True)
    renew(script)
    return script, holder


@pytest.mark.parametrize("pace", [0.001, 0.005, 0.02])
@pytest.mark.parametrize("kind", ["reads", "writes"])
def test_ten_thousand_requests_at_a_slow_server_cost_no_role(pace: float, kind: str) -> None:
    script, holder = holding()
    server = SlowServer(script, pace)
    ask = write if kind == "writes" else get
    calls = [ask(script, f"/{number}") for number in range(10_000)]
    server.run(10_000 * pace * 1.2 + 5.0)
    assert holder.lost == []
    assert script.cuts == []
    assert all(call.is_done and call.error() is None for call in calls)


def test_it_takes_the_care_to_keep_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """With as many in flight as users may have otherwise, the renewal is answered too late."""
    monkeypatch.setattr(request_queue, "FEWEST", 1000)
    script, holder = holding()
    script.machine.can_move = False
    server = SlowServer(script, 0.005)
    for number in range(10_000):
        get(script, f"/{number}")
    server.run(20.0)
    assert holder.lost != []


def test_the_first_to_come_is_still_the_first_to_be_answered() -> None:
    script, _ = holding(max_in_flight=50)
    order: list[int] = []
    for number in range(2000):
        get(script, f"/{number}").add_done_callback(lambda number=number: order.append(number))
    server = SlowServer(script, 0.005)
    server.run(15.0)
    assert order == list(range(2000))
    # The renewal, and what confirms it, are on top of it.
    assert server.longest <= 51


def test_a_hold_that_begins_among_many_requests_gets_its_renewal_in_time() -> None:
    script = Script(session_timeout=TIMEOUT, max_in_flight=200)
    script.connect(timeout=TIMEOUT)
    server = SlowServer(script, 0.005)
    for number in range(10_000):
        get(script, f"/{number}")
    server.run(0.1)
    holder = Holder(script, urgent=True)
    server.run(40.0)
    assert holder.lost == []


def test_renewals_pass_what_waits_and_their_confirmation_comes_after_their_answer() -> None:
    script, _ = holding(max_in_flight=5)
    for number in range(100):
        get(script, f"/{number}")
    assert len(script.sent()) == 5
    script.now = script.machine.leases.renewal_due()
    script.tick()
    (renewal,) = script.sent()
    assert renewal.op is OpCode.MULTI
    script.reply(renewal.xid - 5, err=-101)
    (read,) = script.sent()
    assert read.op is OpCode.GET_DATA


def test_the_goodbye_is_last_and_waits_for_no_answer() -> None:
    script = Script(max_in_flight=3, max_queued=5)
    script.connect()
    for number in range(5):
        get(script, f"/{number}")
    goodbye = script.machine.close(script.now)
    assert script.ops() == [OpCode.GET_DATA] * 3
    packets = script.serve()
    assert packets == []
    for xid in (1, 2, 3):
        script.reply(xid, err=-101)
    assert script.ops() == [OpCode.GET_DATA] * 2 + [OpCode.CLOSE_SESSION]
    assert not goodbye.is_done


# --- what waits --------------------------------------------------------------------------------


@pytest.mark.parametrize("linked", [True, False])
def test_more_than_may_wait_is_refused_and_nothing_of_it_is_sent(linked: bool) -> None:
    script = Script(max_in_flight=2, max_queued=10)
    script.connect()
    if not linked:
        script.lose_link()
    watcher = Watcher(script)
    for _ in range(10):
        write(script)
    with pytest.raises(TooManyRequestsError, match="max_queued") as refused:
        children(script, "/a", watcher.slot)
    assert refused.value.outcome is Outcome.NOT_APPLIED
    assert not watcher.slot.is_armed
    if not linked:
        script.connect()
    assert script.ops() == [OpCode.SET_DATA] * 2
    # What was sent has made room.
    children(script, "/a", watcher.slot)
    write(script)
    with pytest.raises(TooManyRequestsError):
        write(script)


def test_what_is_not_limited_is_never_refused() -> None:
    script = Script(max_queued=1)
    script.connect()
    write(script)
    script.machine.submit(call(), script.now, limited=False)
    assert len(script.sent()) == 2


def call() -> Call[None]:
    return Call(OpCode.SYNC, b"", lambda _: None)


def test_what_waited_long_at_a_slow_server_waits_a_whole_timeout_for_the_next() -> None:
    script = Script(session_timeout=TIMEOUT, max_in_flight=1)
    script.connect(timeout=TIMEOUT)
    server = SlowServer(script, 3.0)
    reads = [get(script, f"/{number}") for number in range(20)]
    server.run(20.0)
    assert script.machine.state is SessionState.CONNECTED
    script.lose_link()
    script.advance(TIMEOUT - 0.1)
    assert not any(read.error() for read in reads if read.is_done)
    script.advance(0.2)
    assert all(read.is_done for read in reads)


def test_attempts_that_come_to_nothing_are_no_reason_to_wait_longer() -> None:
    script = Script(session_timeout=TIMEOUT)
    script.connect(timeout=TIMEOUT)
    script.lose_link()
    waiting = get(script, "/a")
    for _ in range(7):
        script.open()
        script.advance(1.0)
        script.lose_link()
    assert not waiting.is_done
    script.advance(1.1)
    assert waiting.is_done
