"""Requests in flight and in the queue, and what a transaction's answer says."""

from __future__ import annotations

import pytest

from aiolead._session.requests.call import Call, CallKind, multi_call
from aiolead._session.requests.request_queue import FEWEST, MAX_XID, SEGMENT, RequestQueue, Window
from aiolead._wire.codes import OpCode
from aiolead._wire.framing import FrameReader
from aiolead._wire.jute import Reader, Writer
from aiolead._wire.replies import (
    CreateReply,
    DoneResult,
    ErrorResult,
    MultiReply,
    MultiResult,
    PathReply,
    StatReply,
)
from aiolead._wire.requests import Check, Create, Multi, RequestHeader
from aiolead.errors import (
    AioleadError,
    ConnectionLossError,
    NoAuthError,
    NoNodeError,
    Outcome,
    RemoteWireError,
    RolledBackError,
    RuntimeInconsistencyError,
    SessionExpiredError,
    SessionMovedError,
    TooManyRequestsError,
    TransactionError,
    UnknownServerError,
)
from aiolead.model import OPEN_ACL_UNSAFE, Stat


def call(*, is_write: bool = False, bound: bool = False, size: int = 0) -> Call[int]:
    body = bytes(size)
    kind = CallKind(is_write=is_write, is_bound=bound)
    return Call(OpCode.GET_DATA, body, lambda r: r.i32(), kind=kind)


def queue_of(max_in_flight: int = 1000, max_queued: int = 1000) -> RequestQueue:
    return RequestQueue(Window(max_in_flight, 1.0), max_queued)


def take(requests: RequestQueue, now: float, *, careful: bool = False) -> list[int]:
    return xids(requests.take(now, careful=careful))


def xids(data: bytes) -> list[int]:
    frames = FrameReader(1 << 24).feed(data)
    return [RequestHeader.read(Reader(frame)).xid for frame in frames]


def queued(requests: RequestQueue, *calls: Call[int], at: float = 0.0) -> None:
    for each in calls:
        requests.enqueue(each, at)


def test_requests_leave_in_order_in_one_segment() -> None:
    requests = queue_of()
    calls = [call() for _ in range(5)]
    queued(requests, *calls)
    assert take(requests, 3.0) == [1, 2, 3, 4, 5]
    assert [c.xid for c in calls] == [1, 2, 3, 4, 5]
    assert {c.sent_at for c in calls} == {3.0}
    assert requests.inflight == 5
    assert not requests.has_queued
    assert take(requests, 4.0) == []


def test_a_segment_has_a_limit_that_one_request_may_exceed() -> None:
    requests = queue_of()
    queued(requests, call(size=SEGMENT - 100), call(size=SEGMENT * 2), call(), call())
    assert [take(requests, 0.0) for _ in range(3)] == [[1, 2], [3, 4], []]


def test_xids_wrap_without_zero() -> None:
    requests = queue_of()
    requests._xid = MAX_XID - 2
    queued(requests, *[call() for _ in range(4)])
    assert take(requests, 0.0) == [MAX_XID - 1, MAX_XID, 1, 2]


def test_xids_go_on_over_the_next_connection() -> None:
    requests = queue_of()
    queued(requests, call(), call())
    assert take(requests, 0.0) == [1, 2]
    requests.connection_lost(1.0)
    queued(requests, call())
    assert take(requests, 2.0)[0] > 2


def test_answers_come_in_order() -> None:
    requests = queue_of()
    first, second = call(), call()
    queued(requests, first, second)
    take(requests, 0.0)
    assert requests.awaiting(1) is first
    requests.answered(1.0)
    assert requests.awaiting(2) is second


@pytest.mark.parametrize("xid", [2, 3, 99])
def test_an_answer_that_skips_a_request_is_a_lost_connection(xid: int) -> None:
    requests = queue_of()
    queued(requests, call(), call())
    take(requests, 0.0)
    why = rf"skipped request 1 \(GET_DATA\): it answered request {xid} instead"
    with pytest.raises(ConnectionLossError, match=why):
        requests.awaiting(xid)
    assert requests.inflight == 2


def test_an_answer_where_nothing_was_asked_is_a_lost_connection() -> None:
    requests = queue_of()
    queued(requests, call())
    with pytest.raises(ConnectionLossError, match="answered request 1, but none was in flight"):
        requests.awaiting(1)


def test_a_lost_link_sends_reads_again_and_fails_writes() -> None:
    requests = queue_of()
    reads, writes, unsent = [call(), call()], [call(is_write=True), call(is_write=True)], call()
    queued(requests, reads[0], writes[0], reads[1], writes[1])
    take(requests, 0.0)
    queued(requests, unsent)
    requests.connection_lost(5.0)
    for write in writes:
        error = write.error()
        assert isinstance(error, ConnectionLossError)
        assert error.outcome is Outcome.UNKNOWN
    assert requests.inflight == 0
    assert take(requests, 6.0) == [5, 6, 7]
    assert [requests.awaiting(5), reads[0].xid, reads[1].xid, unsent.xid] == [reads[0], 5, 6, 7]


def test_unsent_writes_wait_for_the_next_link_unless_bound_to_this_one() -> None:
    requests = queue_of()
    write, bound, read = call(is_write=True), call(is_write=True, bound=True), call()
    queued(requests, write, bound, read)
    requests.connection_lost(5.0)
    error = bound.error()
    assert isinstance(error, ConnectionLossError)
    assert error.outcome is Outcome.NOT_APPLIED
    take(requests, 6.0)
    assert [write.xid, read.xid] == [1, 2]


def test_a_read_that_went_out_in_vain_waits_from_the_loss_of_the_link() -> None:
    requests = queue_of()
    read, unsent = call(), call()
    queued(requests, read, at=0.0)
    take(requests, 0.0)
    queued(requests, unsent, at=1.0)
    requests.connection_lost(5.0)
    assert requests.waiting_since == 5.0
    requests.fail_overdue(12.0, 8.0, lambda: AioleadError("late"))
    assert not read.is_done
    requests.fail_overdue(13.0, 8.0, lambda: AioleadError("late"))
    assert read.is_done
    assert unsent.is_done


@pytest.mark.parametrize("at", [0.1, 1000.1, 123456.7, 1e6 / 3])
@pytest.mark.parametrize("patience", [0.1, 0.3, 8.0, 1.1])
def test_what_is_due_is_failed_exactly_then(at: float, patience: float) -> None:
    requests = queue_of()
    queued(requests, call(), at=at)
    assert requests.waiting_since == at
    requests.fail_overdue(at + patience, patience, lambda: AioleadError("late"))
    assert not requests.has_queued


def test_the_end_of_a_session_fails_everything_and_knows_what_was_sent() -> None:
    requests = queue_of()
    sent, unsent = call(is_write=True), call(is_write=True)
    queued(requests, sent)
    take(requests, 0.0)
    queued(requests, unsent)
    requests.fail_all(lambda: ConnectionLossError("over"))
    outcomes = [error.outcome for c in (sent, unsent) if (error := c.error())]
    assert outcomes == [Outcome.UNKNOWN, Outcome.NOT_APPLIED]
    assert (requests.inflight, requests.has_queued) == (0, False)


def test_what_a_failed_call_makes_its_caller_ask_for_is_not_failed_with_it() -> None:
    requests = queue_of()
    first, again = call(), call()
    first.add_done_callback(lambda: requests.enqueue(again, 9.0))
    queued(requests, first)
    requests.fail_all(lambda: ConnectionLossError("over"))
    assert first.is_done
    assert not again.is_done
    assert requests.waiting_since == 9.0


# --- limits ------------------------------------------------------------------------------------


def free(*, bound: bool = True) -> Call[int]:
    kind = CallKind(is_bound=bound, is_counted=False)
    return Call(OpCode.SYNC, b"", lambda r: r.i32(), kind=kind)


def test_no_more_are_in_flight_than_may_be() -> None:
    requests = queue_of(max_in_flight=3)
    queued(requests, *[call() for _ in range(7)])
    assert take(requests, 0.0) == [1, 2, 3]
    assert take(requests, 0.0) == []
    requests.answered(1.0)
    requests.answered(1.0)
    assert take(requests, 0.0) == [4, 5]
    assert requests.inflight == 3
    assert requests.has_queued


def test_what_goes_first_is_not_counted_and_does_not_wait() -> None:
    requests = queue_of(max_in_flight=2)
    users = [call() for _ in range(4)]
    queued(requests, *users)
    assert take(requests, 0.0) == [1, 2]
    renewal, confirmation = free(), free()
    requests.enqueue_first(renewal, 1.0)
    requests.enqueue_first(confirmation, 1.0)
    assert requests.has_queued
    assert take(requests, 1.0) == [3, 4]
    assert [renewal.xid, confirmation.xid] == [3, 4]
    for xid in (1, 2):
        assert requests.awaiting(xid) is users[xid - 1]
        requests.answered(2.0)
    # The two in flight are the client's own: there is room for two of the users'.
    assert take(requests, 2.0) == [5, 6]
    requests.answered(2.0)
    requests.answered(2.0)
    assert take(requests, 2.0) == []


def test_what_comes_last_waits_for_what_was_queued_but_for_no_answer() -> None:
    requests = queue_of(max_in_flight=1)
    goodbye = free(bound=False)
    queued(requests, call(), call(), goodbye)
    assert take(requests, 0.0) == [1]
    requests.answered(1.0)
    assert take(requests, 0.0) == [2, 3]
    assert goodbye.xid == 3


def test_a_full_queue_is_full_and_what_left_it_makes_room() -> None:
    requests = queue_of(max_in_flight=2, max_queued=5)
    for _ in range(5):
        requests.refuse_if_full(call())
        queued(requests, call())
    with pytest.raises(TooManyRequestsError, match="5 requests wait to be sent already"):
        requests.refuse_if_full(call())
    take(requests, 0.0)
    requests.refuse_if_full(call())


@pytest.fixture
def small_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if there were little memory."""
    monkeypatch.setattr("aiolead._session.requests.request_queue.MAX_QUEUED_BYTES", 1000)


@pytest.mark.usefixtures("small_queue")
def test_large_requests_fill_the_queue_as_well() -> None:
    requests = queue_of(max_in_flight=1)
    large = [call(size=501) for _ in range(2)]
    queued(requests, call(), large[0])
    requests.refuse_if_full(call())
    queued(requests, large[1])
    with pytest.raises(TooManyRequestsError, match="requests of 1002 bytes wait"):
        requests.refuse_if_full(call())
    assert take(requests, 0.0) == [1]
    requests.answered(1.0)
    take(requests, 0.0)
    requests.refuse_if_full(call())


@pytest.mark.usefixtures("small_queue")
@pytest.mark.parametrize("end", ["lost", "overdue", "over"])
def test_what_has_left_the_queue_in_another_way_takes_no_room(end: str) -> None:
    requests = queue_of(max_in_flight=2, max_queued=3)
    queued(requests, *[call(bound=True, size=501) for _ in range(3)])
    match end:
        case "lost":
            requests.connection_lost(1.0)
        case "overdue":
            requests.fail_overdue(9.0, 1.0, lambda: AioleadError("late"))
        case _:
            requests.fail_all(lambda: AioleadError("over"))
    requests.refuse_if_full(call())
    queued(requests, *[call() for _ in range(3)])
    assert len(take(requests, 9.0)) == 2


def test_reads_that_are_sent_again_count_once() -> None:
    requests = queue_of(max_in_flight=2)
    queued(requests, *[call() for _ in range(3)])
    assert take(requests, 0.0) == [1, 2]
    requests.connection_lost(1.0)
    assert take(requests, 2.0) == [3, 4]
    requests.answered(3.0)
    assert take(requests, 3.0) == [5]


def test_an_answer_that_makes_no_sense_makes_room() -> None:
    requests = queue_of(max_in_flight=1)
    queued(requests, call(), call())
    take(requests, 0.0)
    requests.fail_oldest(AioleadError("what?"))
    assert take(requests, 0.0) == [2]


def test_what_is_meant_for_this_connection_ends_with_it_sent_or_not() -> None:
    requests = queue_of()
    sent, unsent = free(), free()
    requests.enqueue_first(sent, 0.0)
    take(requests, 0.0)
    requests.enqueue_first(unsent, 0.0)
    requests.connection_lost(1.0)
    outcomes = [error.outcome for c in (sent, unsent) if (error := c.error())]
    assert outcomes == [Outcome.UNKNOWN, Outcome.NOT_APPLIED]
    assert not requests.has_queued


def test_the_data_of_a_write_is_not_kept_for_its_answer() -> None:
    requests = queue_of()
    write, read = call(is_write=True, size=1000), call(size=1000)
    queued(requests, write, read)
    assert take(requests, 0.0) == [1, 2]
    assert write.body == b""
    assert len(read.body) == 1000  # it may have to be sent again


def test_while_care_is_needed_a_few_are_in_flight_until_the_server_has_shown_its_speed() -> None:
    requests = queue_of(max_in_flight=50)
    queued(requests, *[call() for _ in range(300)])
    assert len(take(requests, 0.0, careful=True)) == FEWEST
    for _ in range(FEWEST):
        requests.answered(0.5)
    assert len(take(requests, 1.0, careful=True)) == 2 * FEWEST
    for _ in range(2 * FEWEST):
        requests.answered(1.5)
    assert len(take(requests, 2.0, careful=True)) == 50
    # Whatever the server has shown, without need for care it is as many as may be.
    requests.connection_lost(3.0)
    assert len(take(requests, 4.0, careful=True)) == FEWEST
    assert len(take(requests, 4.0)) == 50 - FEWEST


# --- calls -------------------------------------------------------------------------------------


def test_callbacks_run_once_in_order_and_at_once_if_it_is_done() -> None:
    each, seen = call(), []
    each.add_done_callback(lambda: seen.append(1))
    each.add_done_callback(lambda: seen.append(2))
    assert seen == []
    each._succeed(7)
    each.add_done_callback(lambda: seen.append(3))
    assert seen == [1, 2, 3]
    assert each.result() == 7
    assert each.error() is None


def test_a_result_is_not_there_before_the_answer() -> None:
    each = call()
    with pytest.raises(RuntimeError, match="not been answered"):
        each.result()
    each._fail(NoNodeError("/a"))
    with pytest.raises(NoNodeError):
        each.result()


# --- transactions ------------------------------------------------------------------------------


def body(reply: MultiReply) -> Reader:
    w = Writer()
    reply.write(w)
    return Reader(bytes(w.buffer))


def checks(*paths: str) -> Call[object]:
    return multi_call(Multi(tuple(Check(path, -1) for path in paths)), paths)


def failed(*codes: int) -> MultiReply:
    return MultiReply(tuple((OpCode.ERROR, ErrorResult(code)) for code in codes))


def test_a_transaction_that_worked() -> None:
    stat = Stat(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)
    results = ((OpCode.CHECK, DoneResult(OpCode.CHECK)), (OpCode.CREATE2, CreateReply("/b", stat)))
    create = Create("/b", b"", OPEN_ACL_UNSAFE, 0)
    call = multi_call(Multi((Check("/a", -1), create)), ["/a", "/b"])
    answer = call._read(0, body(MultiReply(results)))
    assert answer == [DoneResult(OpCode.CHECK), CreateReply("/b", stat)]


@pytest.mark.parametrize(
    "result",
    [
        (OpCode.CHECK, DoneResult(OpCode.CHECK)),
        (OpCode.SET_DATA, StatReply(Stat(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11))),
        (OpCode.CREATE, PathReply("/c")),
        (OpCode.CREATE, PathReply("/b0000000001")),
    ],
)
def test_a_transaction_with_the_results_of_another_one(result: tuple[OpCode, MultiResult]) -> None:
    call = multi_call(Multi((Create("/b", b"", OPEN_ACL_UNSAFE, 0),)), ["/b"])
    with pytest.raises(RemoteWireError):
        call._read(0, body(MultiReply((result,))))


@pytest.mark.parametrize(
    ("flags", "created", "is_it"),
    [
        (0, "/a", True),
        (0, "/a0000000001", False),
        (0, "/b", False),
        (0, "", False),
        (2, "/a0000000001", True),
        (3, "/a-2147483648", True),
        (2, "/a", False),
        (2, "/a0000000001/b", False),
        (2, "/b0000000001", False),
        (2, "/a\u0660123456789", False),
    ],
)
def test_what_was_created_is_what_was_asked_for(flags: int, created: str, is_it: bool) -> None:
    request = Create("/a", b"", OPEN_ACL_UNSAFE, flags)
    if is_it:
        assert request.checked(created) == created
    else:
        with pytest.raises(RemoteWireError, match="created was"):
            request.checked(created)


def test_a_read_over_which_links_are_lost_again_and_again_fails() -> None:
    """It may be the read that they are lost over: a server that dies of it, or means to."""
    requests = queue_of()
    read = call()
    queued(requests, read)
    for now in (100.0, 101.0, 108.0, 116.0):
        take(requests, now - 1)
        requests.connection_lost(now, 8.0)
        assert not read.is_done
    take(requests, 116.0)
    requests.connection_lost(116.1, 8.0)
    error = read.error()
    assert isinstance(error, ConnectionLossError)
    assert error.outcome is Outcome.NOT_APPLIED
    assert not requests.has_queued


def test_a_transaction_that_failed_says_which_operation_and_why() -> None:
    error = checks("/a", "/b", "/c")._read(0, body(failed(0, NoNodeError.code, -2)))
    assert isinstance(error, TransactionError)
    assert error.index == 1
    assert isinstance(error.cause, NoNodeError)
    assert error.path == "/b"
    assert [type(e) for e in error.results] == [
        RolledBackError, NoNodeError, RuntimeInconsistencyError,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("codes", "index", "kind"),
    [
        ((NoAuthError.code, -2), 0, NoAuthError),
        ((0, NoAuthError.code), 1, NoAuthError),
        ((-777, -2), 0, UnknownServerError),
        # A code that is not a ServerError on its own stays one in here.
        ((-4, -2), 0, UnknownServerError),
    ],
)
def test_the_guilty_operation(codes: tuple[int, ...], index: int, kind: type) -> None:
    error = checks("/a", "/b")._read(0, body(failed(*codes)))
    assert isinstance(error, TransactionError)
    assert error.index == index
    assert isinstance(error.cause, kind)


@pytest.mark.parametrize(("code", "kind"), [(-112, SessionExpiredError), (-118, SessionMovedError)])
def test_the_session_may_be_over_in_the_midst_of_it(code: int, kind: type) -> None:
    assert isinstance(checks("/a", "/b")._read(0, body(failed(0, code))), kind)


@pytest.mark.parametrize(
    ("codes", "message"),
    [
        ((NoNodeError.code,), "1 results for a transaction of 2 operations"),
        ((NoNodeError.code, -2, -2), "3 results for a transaction of 2 operations"),
        ((), "0 results for a transaction of 2 operations"),
        ((0, -2), "a transaction failed, but no operation of it did"),
    ],
)
def test_an_answer_that_makes_no_sense(codes: tuple[int, ...], message: str) -> None:
    with pytest.raises(RemoteWireError, match=message):
        checks("/a", "/b")._read(0, body(failed(*codes)))


def test_a_transaction_may_be_refused_as_a_whole() -> None:
    answer = checks("/a")._read(NoAuthError.code, Reader(b""))
    assert isinstance(answer, NoAuthError)


class _Bringing:
    """A request that has another one queued as it leaves, and somebody who sends that at once."""

    def __init__(self, requests: RequestQueue, other: Call[object]) -> None:
        self._requests = requests
        self._other = other
        self.taken_meanwhile = [0]

    def sending(self, body: bytes) -> bytes | None:
        self._requests.enqueue(self._other, 0.0)
        self.taken_meanwhile = take(self._requests, 0.0)
        return body

    def armed(self, *, missing: bool = False) -> None: ...

    def abandon(self) -> None: ...


def test_what_is_queued_while_something_leaves_leaves_behind_it() -> None:
    requests = queue_of(max_in_flight=5)
    first, second = call(), call()
    first.arming = bringing = _Bringing(requests, second)
    queued(requests, first)
    assert take(requests, 0.0) == [1, 2]
    assert (first.xid, second.xid) == (1, 2)
    assert bringing.taken_meanwhile == []
