"""The answer to a transaction, and the errors that it stands for."""

from __future__ import annotations

import pytest
from session.script import STAT

from aiolead._session.requests import Call, multi_call, read_answer
from aiolead._wire import replies, requests
from aiolead._wire.codes import OpCode
from aiolead._wire.jute import Reader, Writer
from aiolead.errors import (
    NoAuthError,
    NoNodeError,
    RemoteWireError,
    RolledBackError,
    RuntimeInconsistencyError,
    SessionExpiredError,
    SessionMovedError,
    TransactionError,
    UnknownServerError,
)
from aiolead.model import OPEN_ACL_UNSAFE

CREATE = requests.Create("/b", b"", OPEN_ACL_UNSAFE, 0)
NO_NODE, NO_AUTH = NoNodeError.code, NoAuthError.code


def answer(call: Call[object], *results: tuple[OpCode, replies.MultiResult]) -> object:
    w = Writer()
    replies.MultiReply(results).write(w)
    return read_answer(call, 0, Reader(bytes(w.buffer)))


def failed(*codes: int) -> object:
    """The error of a failed transaction that checks two znodes."""
    checks = multi_call(
        requests.Multi((requests.Check("/a", -1), requests.Check("/b", -1))), ["/a", "/b"]
    )
    return answer(checks, *((OpCode.ERROR, replies.ErrorResult(code)) for code in codes))


def test_result_of_a_transaction_that_was_applied() -> None:
    call = multi_call(requests.Multi((requests.Check("/a", -1), CREATE)), ["/a", "/b"])
    done, created = replies.DoneResult(OpCode.CHECK), replies.CreateReply("/b", STAT)
    assert answer(call, (OpCode.CHECK, done), (OpCode.CREATE2, created)) == [done, created]


@pytest.mark.parametrize(
    "result",
    [
        (OpCode.CHECK, replies.DoneResult(OpCode.CHECK)),
        (OpCode.SET_DATA, replies.StatReply(STAT)),
        (OpCode.CREATE, replies.PathReply("/c")),
        (OpCode.CREATE, replies.PathReply("/b0000000001")),
    ],
)
def test_results_of_another_transaction_are_refused(
    result: tuple[OpCode, replies.MultiResult],
) -> None:
    with pytest.raises(RemoteWireError):
        answer(multi_call(requests.Multi((CREATE,)), ["/b"]), result)


@pytest.mark.parametrize(
    ("flags", "created", "fits"),
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
def test_created_path_must_fit_the_request(flags: int, created: str, fits: bool) -> None:
    request = requests.Create("/a", b"", OPEN_ACL_UNSAFE, flags)
    if fits:
        assert request.checked(created) == created
    else:
        with pytest.raises(RemoteWireError, match="created was"):
            request.checked(created)


@pytest.mark.parametrize(
    ("codes", "index", "kind"),
    [
        ((0, NO_NODE), 1, NoNodeError),
        ((NO_AUTH, -2), 0, NoAuthError),
        ((0, NO_AUTH), 1, NoAuthError),
        ((-777, -2), 0, UnknownServerError),
        # A code that is not a ServerError on its own stays one in here.
        ((-4, -2), 0, UnknownServerError),
    ],
)
def test_failed_transaction_names_the_operation_and_its_error(
    codes: tuple[int, ...], index: int, kind: type
) -> None:
    error = failed(*codes)
    assert isinstance(error, TransactionError)
    assert error.index == index
    assert isinstance(error.cause, kind)
    assert error.path == ("/a", "/b")[index]
    other = RolledBackError if index else RuntimeInconsistencyError
    assert isinstance(error.results[1 - index], other)


@pytest.mark.parametrize(("code", "kind"), [(-112, SessionExpiredError), (-118, SessionMovedError)])
def test_transaction_may_fail_with_the_session(code: int, kind: type) -> None:
    assert isinstance(failed(0, code), kind)


@pytest.mark.parametrize(
    ("codes", "message"),
    [
        ((NO_NODE,), "1 results for a transaction of 2 operations"),
        ((NO_NODE, -2, -2), "3 results for a transaction of 2 operations"),
        ((), "0 results for a transaction of 2 operations"),
        ((0, -2), "a transaction failed, but no operation of it did"),
    ],
)
def test_contradictory_answer_is_refused(codes: tuple[int, ...], message: str) -> None:
    with pytest.raises(RemoteWireError, match=message):
        failed(*codes)


def test_transaction_may_be_refused_as_a_whole() -> None:
    checks = multi_call(requests.Multi((requests.Check("/a", -1),)), ["/a"])
    assert isinstance(read_answer(checks, NO_AUTH, Reader(b"")), NoAuthError)
