"""The queue of requests: what is in flight, what waits, and how many requests may."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from aiolead._session.present_server import PresentServer
from aiolead._session.requests import (
    FEWEST,
    MAX_XID,
    READ,
    SEGMENT,
    Call,
    CallKind,
    RequestQueue,
    no_result,
)
from aiolead._session.suspects import (
    FORGOTTEN_AFTER,
    LOSSES,
    LOSSES_OF_SHORT,
    MOST_RECORDS,
    SHORT,
    Suspects,
)
from aiolead._wire.codes import OpCode
from aiolead._wire.jute import FrameReader, Reader
from aiolead._wire.requests import RequestHeader
from aiolead.errors import (
    AioleadError,
    ConnectionLossError,
    NoNodeError,
    Outcome,
    RequestRefusedError,
    TooManyRequestsError,
)


def call(*, is_write: bool = False, bound: bool = False, size: int = 0) -> Call[int]:
    kind = CallKind(is_write=is_write, is_bound=bound)
    return Call(OpCode.GET_DATA, bytes(size), lambda r: r.i32(), kind=kind)


def uncounted(*, bound: bool = True) -> Call[int]:
    """A request of the client itself, which `max_in_flight` does not count."""
    kind = CallKind(is_bound=bound, is_counted=False)
    return Call(OpCode.SYNC, b"", lambda r: r.i32(), kind=kind)


def queue_of(*calls: Call[int], max_in_flight: int = 1000, max_queued: int = 1000) -> RequestQueue:
    requests = RequestQueue(
        PresentServer(), max_in_flight=max_in_flight, max_queued=max_queued, prompt=1.0
    )
    enqueue(requests, *calls)
    return requests


def enqueue(requests: RequestQueue, *calls: Call[int], at: float = 0.0) -> None:
    for each in calls:
        requests.enqueue(each, at)


def take(requests: RequestQueue, now: float = 0.0, *, careful: bool = False) -> list[int]:
    """The xids of what leaves now."""
    frames = FrameReader(1 << 24).feed(requests.take(now, careful=careful))
    return [RequestHeader.read(Reader(frame)).xid for frame in frames]


def fail_overdue(requests: RequestQueue, now: float, patience: float) -> None:
    requests.fail_overdue(now, patience, lambda: AioleadError("late"))


def outcomes(*calls: Call[int]) -> list[Outcome]:
    errors = [each.error() for each in calls]
    assert all(isinstance(error, ConnectionLossError) for error in errors)
    return [error.outcome for error in errors if error]


# --- sending -----------------------------------------------------------------------------------


def test_requests_leave_in_order_in_one_segment() -> None:
    calls = [call() for _ in range(5)]
    requests = queue_of(*calls)
    assert take(requests, 3.0) == [1, 2, 3, 4, 5]
    assert [c.xid for c in calls] == [1, 2, 3, 4, 5]
    assert {c.sent_at for c in calls} == {3.0}
    assert requests.inflight == 5
    assert not requests.has_queued
    assert take(requests, 4.0) == []


def test_segment_has_a_limit_that_one_request_may_exceed() -> None:
    requests = queue_of(call(size=SEGMENT - 100), call(size=SEGMENT * 2), call(), call())
    assert [take(requests) for _ in range(3)] == [[1, 2], [3, 4], []]


def test_xids_wrap_without_zero() -> None:
    requests = queue_of(*[call() for _ in range(4)])
    requests._xid = MAX_XID - 2
    assert take(requests) == [MAX_XID - 1, MAX_XID, 1, 2]


def test_data_of_a_write_are_not_kept_for_its_answer() -> None:
    write, read = call(is_write=True, size=1000), call(size=1000)
    assert take(queue_of(write, read)) == [1, 2]
    assert write.body == b""
    assert len(read.body) == 1000  # it may have to be sent again


class Bringing:
    """The effect of a request that enqueues another one as it leaves, and takes it at once."""

    def __init__(self, requests: RequestQueue, other: Call[int]) -> None:
        self._requests = requests
        self._other = other
        self.taken_meanwhile = [0]

    def sending(self, body: bytes) -> bytes | None:
        enqueue(self._requests, self._other)
        self.taken_meanwhile = take(self._requests)
        return body

    def armed(self, *, missing: bool = False) -> None: ...

    def abandon(self) -> None: ...


def test_request_enqueued_while_another_leaves_follows_it() -> None:
    first, second = call(), call()
    requests = queue_of(first, max_in_flight=5)
    first.arming = bringing = Bringing(requests, second)
    assert take(requests) == [1, 2]
    assert (first.xid, second.xid) == (1, 2)
    assert bringing.taken_meanwhile == []


# --- answers -----------------------------------------------------------------------------------


def test_done_callbacks_run_once_in_order() -> None:
    each, seen = call(), []
    each.add_done_callback(lambda: seen.append(1))
    each.add_done_callback(lambda: seen.append(2))
    assert seen == []
    each.succeed(7)
    each.add_done_callback(lambda: seen.append(3))  # runs immediately
    assert seen == [1, 2, 3]
    assert each.result() == 7
    assert each.error() is None


def test_result_before_the_answer_is_an_error() -> None:
    each = call()
    with pytest.raises(RuntimeError, match="not been answered"):
        each.result()
    each.fail(NoNodeError("/a"))
    with pytest.raises(NoNodeError):
        each.result()


# --- losing the connection ---------------------------------------------------------------------


def test_lost_connection_sends_reads_again_and_fails_writes() -> None:
    reads, writes, unsent = [call(), call()], [call(is_write=True), call(is_write=True)], call()
    requests = queue_of(reads[0], writes[0], reads[1], writes[1])
    take(requests)
    enqueue(requests, unsent)
    requests.connection_lost(5.0)
    assert outcomes(*writes) == [Outcome.UNKNOWN] * 2
    assert requests.inflight == 0
    assert take(requests, 6.0) == [5, 6, 7]
    assert [requests.oldest, reads[0].xid, reads[1].xid, unsent.xid] == [reads[0], 5, 6, 7]


def test_unsent_write_waits_for_the_next_connection_unless_bound() -> None:
    write, bound, read = call(is_write=True), call(is_write=True, bound=True), call()
    requests = queue_of(write, bound, read)
    requests.connection_lost(5.0)
    assert outcomes(bound) == [Outcome.NOT_APPLIED]
    take(requests, 6.0)
    assert [write.xid, read.xid] == [1, 2]


def test_bound_request_ends_with_its_connection_sent_or_not() -> None:
    requests, sent, unsent = queue_of(), uncounted(), uncounted()
    requests.enqueue_first(sent, 0.0)
    take(requests)
    requests.enqueue_first(unsent, 0.0)
    requests.connection_lost(1.0)
    assert outcomes(sent, unsent) == [Outcome.UNKNOWN, Outcome.NOT_APPLIED]
    assert not requests.has_queued


def test_wait_of_a_repeated_read_begins_with_the_loss_of_the_connection() -> None:
    read, unsent = call(), call()
    requests = queue_of(read)
    take(requests)
    enqueue(requests, unsent, at=1.0)
    requests.connection_lost(5.0)
    assert requests.waiting_since == 5.0
    fail_overdue(requests, 12.0, 8.0)
    assert not read.is_done
    fail_overdue(requests, 13.0, 8.0)
    assert read.is_done
    assert unsent.is_done


@pytest.mark.parametrize("at", [0.1, 1000.1, 123456.7, 1e6 / 3])
@pytest.mark.parametrize("patience", [0.1, 0.3, 8.0, 1.1])
def test_overdue_request_is_failed_exactly_when_it_is_due(at: float, patience: float) -> None:
    requests = queue_of()
    enqueue(requests, call(), at=at)
    assert requests.waiting_since == at
    fail_overdue(requests, at + patience, patience)
    assert not requests.has_queued


# --- limits ------------------------------------------------------------------------------------


def test_requests_in_flight_are_limited() -> None:
    requests = queue_of(*[call() for _ in range(7)], max_in_flight=3)
    assert take(requests) == [1, 2, 3]
    assert take(requests) == []
    requests.answered(1.0)
    requests.answered(1.0)
    assert take(requests) == [4, 5]
    assert requests.inflight == 3
    assert requests.has_queued


def test_uncounted_requests_leave_first_and_do_not_wait() -> None:
    users = [call() for _ in range(4)]
    requests = queue_of(*users, max_in_flight=2)
    assert take(requests) == [1, 2]
    renewal, confirmation = uncounted(), uncounted()
    requests.enqueue_first(renewal, 1.0)
    requests.enqueue_first(confirmation, 1.0)
    assert requests.has_queued
    assert take(requests, 1.0) == [3, 4]
    assert [renewal.xid, confirmation.xid] == [3, 4]
    for xid in (1, 2):
        assert requests.oldest is users[xid - 1]
        requests.answered(2.0)
    # The two in flight are the client's own: there is room for two of the users'.
    assert take(requests, 2.0) == [5, 6]
    requests.answered(2.0)
    requests.answered(2.0)
    assert take(requests, 2.0) == []


def test_uncounted_request_behind_others_waits_for_them_and_for_no_answer() -> None:
    goodbye = uncounted(bound=False)
    requests = queue_of(call(), call(), goodbye, max_in_flight=1)
    assert take(requests) == [1]
    requests.answered(1.0)
    assert take(requests) == [2, 3]
    assert goodbye.xid == 3


def test_repeated_reads_are_counted_once() -> None:
    requests = queue_of(*[call() for _ in range(3)], max_in_flight=2)
    assert take(requests) == [1, 2]
    requests.connection_lost(1.0)
    assert take(requests, 2.0) == [3, 4]
    requests.answered(3.0)
    assert take(requests, 3.0) == [5]


def test_malformed_answer_makes_room() -> None:
    requests = queue_of(call(), call(), max_in_flight=1)
    take(requests)
    requests.fail_oldest(AioleadError("what?"))
    assert take(requests) == [2]


@pytest.fixture
def little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aiolead._session.requests.MAX_QUEUED_BYTES", 1000)


@pytest.mark.usefixtures("little_memory")
def test_large_requests_fill_the_queue_as_well() -> None:
    requests = queue_of(call(), call(size=501), max_in_flight=1)
    requests.refuse_if_full(call())
    enqueue(requests, call(size=501))
    with pytest.raises(TooManyRequestsError, match="requests of 1002 bytes wait"):
        requests.refuse_if_full(call())
    assert take(requests) == [1]
    requests.answered(1.0)
    take(requests)
    requests.refuse_if_full(call())


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize(
    "end",
    [
        lambda requests: requests.connection_lost(1.0),
        lambda requests: fail_overdue(requests, 9.0, 1.0),
        lambda requests: requests.fail_all(lambda: AioleadError("over")),
    ],
    ids=["lost", "overdue", "over"],
)
def test_failed_requests_make_room(end: Callable[[RequestQueue], None]) -> None:
    large = [call(bound=True, size=501) for _ in range(3)]
    requests = queue_of(*large, max_in_flight=2, max_queued=3)
    end(requests)
    requests.refuse_if_full(call())
    enqueue(requests, *[call() for _ in range(3)])
    assert len(take(requests, 9.0)) == 2


def test_few_requests_are_in_flight_with_care_until_the_server_was_quick() -> None:
    requests = queue_of(*[call() for _ in range(300)], max_in_flight=50)
    assert len(take(requests, careful=True)) == FEWEST
    for _ in range(FEWEST):
        requests.answered(0.5)
    assert len(take(requests, 1.0, careful=True)) == 2 * FEWEST
    for _ in range(2 * FEWEST):
        requests.answered(1.5)
    assert len(take(requests, 2.0, careful=True)) == 50
    # Without need for care it is as many as may be, however slow the server was.
    requests.connection_lost(3.0)
    assert len(take(requests, 4.0, careful=True)) == FEWEST
    assert len(take(requests, 4.0)) == 50 - FEWEST


# --- the window --------------------------------------------------------------------------------

Answers = tuple[int, float, float]
"""How many requests that were in flight together are answered, when sent, and how long it took."""


def queue_after(most: int, *answers: Answers) -> RequestQueue:
    requests = queue_of(max_in_flight=most)
    for count, sent, took in answers:
        enqueue(requests, *[call() for _ in range(count)])
        assert len(take(requests, sent)) == count
        for _ in range(count):
            requests.answered(sent + took)
    return requests


def test_window_doubles_with_each_full_window_answered_in_time() -> None:
    answers: list[Answers] = []
    for size in [16, 32, 64, 128, 256, 512, 1000, 1000]:
        assert queue_after(1000, *answers).careful == size
        answers.append((size, 0.0, 1.0))


@pytest.mark.parametrize(
    ("most", "answers", "careful"),
    [
        pytest.param(1000, [(3, 0.0, 0.1)] * 1000, FEWEST, id="few quick answers prove nothing"),
        pytest.param(1000, [(400, 0.0, 0.5)], 800, id="quick answers"),
        pytest.param(1000, [(400, 0.0, 0.5), (800, 1.0, 1.1)], 400, id="halved once per window"),
        pytest.param(
            1000, [(400, 0.0, 0.5), (800, 1.0, 1.1), (400, 3.0, 5.0)], 200, id="halved twice"
        ),
        pytest.param(100, [(100, 0.0, 0.5)], 100, id="never above the user's limit"),
        pytest.param(
            100,
            [(100, 0.0, 0.5), *[(1, at, 2.0) for at in range(0, 100, 10)]],
            FEWEST,
            id="never 0",
        ),
        *[pytest.param(most, [], most, id=f"a limit of {most}") for most in (1, 5, FEWEST)],
    ],
)
def test_window_with_care(most: int, answers: list[Answers], careful: int) -> None:
    requests = queue_after(most, *answers)
    assert requests.careful == careful
    enqueue(requests, *[call() for _ in range(most + 1)])
    assert len(take(requests, 200.0)) == most


def test_window_without_care_is_the_limit_and_the_next_server_starts_over() -> None:
    requests = queue_after(1000, (1, 0.0, 9.0))
    enqueue(requests, *[call() for _ in range(1001)])
    assert len(take(requests, 10.0)) == 1000
    requests = queue_after(1000, (500, 0.0, 0.5))
    requests.connection_lost(1.0)
    assert requests.careful == FEWEST


# --- requests over which connections are lost --------------------------------------------------


def test_read_over_which_connections_are_lost_repeatedly_fails() -> None:
    """The read may be the cause: a server that dies of it, or a hostile one."""
    read = call()
    requests = queue_of(read)
    for now in (100.0, 101.0, 108.0, 116.0):
        take(requests, now - 1)
        requests.connection_lost(now, 8.0)
        assert not read.is_done
    take(requests, 116.0)
    requests.connection_lost(116.1, 8.0)
    assert outcomes(read) == [Outcome.NOT_APPLIED]
    assert not requests.has_queued


PATIENCE = 10.0


def read_of(size: int, path: str = "/a") -> Call[None]:
    read = Call(OpCode.GET_DATA, b"", no_result, READ, path)
    read.size = size
    return read


@pytest.mark.parametrize(("size", "together"), [(SHORT, 2), (SHORT + 1, 1)])
def test_old_losses_are_forgotten(size: int, together: int) -> None:
    suspects, read = Suspects(), read_of(size)
    for number in range(LOSSES_OF_SHORT):
        for _ in range(together):
            now = number * (FORGOTTEN_AFTER + 1) * PATIENCE
            assert suspects.lost(read, now, PATIENCE, "closed") is None


@pytest.mark.parametrize(("size", "budget"), [(SHORT, LOSSES_OF_SHORT), (SHORT + 1, LOSSES)])
def test_recent_losses_refuse_the_request(size: int, budget: int) -> None:
    suspects, read = Suspects(), read_of(size)
    lost = [suspects.lost(read, number * PATIENCE, PATIENCE, "closed") for number in range(budget)]
    assert lost[:-1] == [None] * (budget - 1)
    assert isinstance(lost[-1], RequestRefusedError)
    # A short one may be sent again: its length is not the cause.
    held_back = suspects.refusal(read, (budget - 1) * PATIENCE) is not None
    assert held_back == lost[-1].is_held_back == (size > SHORT)


def test_oldest_of_many_suspected_requests_is_forgotten() -> None:
    suspects = Suspects()
    reads = [read_of(SHORT, f"/{number}") for number in range(MOST_RECORDS + 1)]
    for read in reads:
        suspects.lost(read, 0.0, PATIENCE, "closed")
    assert [suspects.has(read) for read in reads] == [False] + [True] * MOST_RECORDS


def test_suspected_request_of_a_failed_handshake_is_sent_on_the_next_connection() -> None:
    suspected, other = read_of(100), call()
    requests = queue_of(suspected, other)
    requests.take(0.0, careful=False)
    requests.connection_lost(0.1, PATIENCE, "closed right after it")

    assert requests.take(0.2, careful=False, early=True)  # with the handshake
    assert requests.oldest is suspected
    requests.requeue_inflight()

    assert requests.take(0.3, careful=False)
    assert requests.oldest is suspected
