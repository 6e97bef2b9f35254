"""Requests in flight and in the queue, and what a transaction's answer says."""

from __future__ import annotations

import pytest

from aiolead._session.depot import MAX_XID, SEGMENT, Call, Depot
from aiolead._session.transaction import multi_call
from aiolead._wire.codes import OpCode
from aiolead._wire.framing import FrameReader
from aiolead._wire.jute import Reader, Writer
from aiolead._wire.replies import CreateReply, DoneResult, ErrorResult, MultiReply
from aiolead._wire.requests import Check, Multi, RequestHeader
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
    TransactionError,
    UnknownServerError,
)
from aiolead.model import Stat


def call(*, is_write: bool = False, bound: bool = False, size: int = 0) -> Call[int]:
    body = bytes(size)
    return Call(OpCode.GET_DATA, body, lambda r: r.i32(), is_write=is_write, bound=bound)


def xids(data: bytes) -> list[int]:
    frames = FrameReader(1 << 24).feed(data)
    return [RequestHeader.read(Reader(frame)).xid for frame in frames]


def queued(depot: Depot, *calls: Call[int], at: float = 0.0) -> None:
    for each in calls:
        depot.enqueue(each, at)


def test_requests_leave_in_order_in_one_segment() -> None:
    depot = Depot()
    calls = [call() for _ in range(5)]
    queued(depot, *calls)
    assert xids(depot.take(3.0)) == [1, 2, 3, 4, 5]
    assert [c.xid for c in calls] == [1, 2, 3, 4, 5]
    assert {c.sent_at for c in calls} == {3.0}
    assert depot.inflight == 5
    assert not depot.has_queued
    assert depot.take(4.0) == b""


def test_a_segment_has_a_limit_that_one_request_may_exceed() -> None:
    depot = Depot()
    queued(depot, call(size=SEGMENT - 100), call(size=SEGMENT * 2), call(), call())
    assert [xids(depot.take(0.0)) for _ in range(3)] == [[1, 2], [3, 4], []]


def test_xids_wrap_without_zero() -> None:
    depot = Depot()
    depot._xid = MAX_XID - 2
    queued(depot, *[call() for _ in range(4)])
    assert xids(depot.take(0.0)) == [MAX_XID - 1, MAX_XID, 1, 2]


def test_answers_come_in_order() -> None:
    depot = Depot()
    first, second = call(), call()
    queued(depot, first, second)
    depot.take(0.0)
    assert depot.awaiting(1) is first
    depot.answered()
    assert depot.awaiting(2) is second


@pytest.mark.parametrize("xid", [2, 3, 99])
def test_an_answer_to_another_request_is_not_the_protocol(xid: int) -> None:
    depot = Depot()
    queued(depot, call(), call())
    depot.take(0.0)
    with pytest.raises(RemoteWireError, match=f"answer to request {xid}, where 1 was next"):
        depot.awaiting(xid)
    assert depot.inflight == 2


def test_an_answer_where_nothing_was_asked_is_not_the_protocol() -> None:
    depot = Depot()
    queued(depot, call())
    with pytest.raises(RemoteWireError, match="answer to request 1, where none was sent"):
        depot.awaiting(1)


def test_a_lost_link_sends_reads_again_and_fails_writes() -> None:
    depot = Depot()
    reads, writes, unsent = [call(), call()], [call(is_write=True), call(is_write=True)], call()
    queued(depot, reads[0], writes[0], reads[1], writes[1])
    depot.take(0.0)
    queued(depot, unsent)
    depot.link_lost(5.0)
    for write in writes:
        error = write.error()
        assert isinstance(error, ConnectionLossError)
        assert error.outcome is Outcome.UNKNOWN
    assert depot.inflight == 0
    assert xids(depot.take(6.0)) == [5, 6, 7]
    assert [depot.awaiting(5), reads[0].xid, reads[1].xid, unsent.xid] == [reads[0], 5, 6, 7]


def test_unsent_writes_wait_for_the_next_link_unless_bound_to_this_one() -> None:
    depot = Depot()
    write, bound, read = call(is_write=True), call(is_write=True, bound=True), call()
    queued(depot, write, bound, read)
    depot.link_lost(5.0)
    error = bound.error()
    assert isinstance(error, ConnectionLossError)
    assert error.outcome is Outcome.NOT_APPLIED
    depot.take(6.0)
    assert [write.xid, read.xid] == [1, 2]


def test_a_read_that_went_out_in_vain_waits_from_the_loss_of_the_link() -> None:
    depot = Depot()
    read, unsent = call(), call()
    queued(depot, read, at=0.0)
    depot.take(0.0)
    queued(depot, unsent, at=1.0)
    depot.link_lost(5.0)
    assert depot.oldest_queued_at == 5.0
    depot.fail_overdue(12.0, 8.0, lambda: AioleadError("late"))
    assert not read.is_done
    depot.fail_overdue(13.0, 8.0, lambda: AioleadError("late"))
    assert read.is_done
    assert unsent.is_done


@pytest.mark.parametrize("at", [0.1, 1000.1, 123456.7, 1e6 / 3])
@pytest.mark.parametrize("patience", [0.1, 0.3, 8.0, 1.1])
def test_what_is_due_is_failed_exactly_then(at: float, patience: float) -> None:
    depot = Depot()
    queued(depot, call(), at=at)
    assert depot.oldest_queued_at == at
    depot.fail_overdue(at + patience, patience, lambda: AioleadError("late"))
    assert not depot.has_queued


def test_the_end_of_a_session_fails_everything_and_knows_what_was_sent() -> None:
    depot = Depot()
    sent, unsent = call(is_write=True), call(is_write=True)
    queued(depot, sent)
    depot.take(0.0)
    queued(depot, unsent)
    depot.fail_all(lambda: ConnectionLossError("over"))
    outcomes = [error.outcome for c in (sent, unsent) if (error := c.error())]
    assert outcomes == [Outcome.UNKNOWN, Outcome.NOT_APPLIED]
    assert (depot.inflight, depot.has_queued) == (0, False)


def test_what_a_failed_call_makes_its_caller_ask_for_is_not_failed_with_it() -> None:
    depot = Depot()
    first, again = call(), call()
    first.add_done_callback(lambda: depot.enqueue(again, 9.0))
    queued(depot, first)
    depot.fail_all(lambda: ConnectionLossError("over"))
    assert first.is_done
    assert not again.is_done
    assert depot.oldest_queued_at == 9.0


# --- calls -------------------------------------------------------------------------------------


def test_callbacks_run_once_in_order_and_at_once_if_it_is_done() -> None:
    each, seen = call(), []
    each.add_done_callback(lambda: seen.append(1))
    each.add_done_callback(lambda: seen.append(2))
    assert seen == []
    each.succeed(7)
    each.add_done_callback(lambda: seen.append(3))
    assert seen == [1, 2, 3]
    assert each.result() == 7
    assert each.error() is None


def test_a_result_is_not_there_before_the_answer() -> None:
    each = call()
    with pytest.raises(RuntimeError, match="not been answered"):
        each.result()
    each.fail(NoNodeError("/a"))
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
    answer = checks("/a", "/b").read(0, body(MultiReply(results)))
    assert answer == [DoneResult(OpCode.CHECK), CreateReply("/b", stat)]


def test_a_transaction_that_failed_says_which_operation_and_why() -> None:
    error = checks("/a", "/b", "/c").read(0, body(failed(0, NoNodeError.code, -2)))
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
    error = checks("/a", "/b").read(0, body(failed(*codes)))
    assert isinstance(error, TransactionError)
    assert error.index == index
    assert isinstance(error.cause, kind)


@pytest.mark.parametrize(("code", "kind"), [(-112, SessionExpiredError), (-118, SessionMovedError)])
def test_the_session_may_be_over_in_the_midst_of_it(code: int, kind: type) -> None:
    assert isinstance(checks("/a", "/b").read(0, body(failed(0, code))), kind)


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
        checks("/a", "/b").read(0, body(failed(*codes)))


def test_a_transaction_may_be_refused_as_a_whole() -> None:
    answer = checks("/a").read(NoAuthError.code, Reader(b""))
    assert isinstance(answer, NoAuthError)
