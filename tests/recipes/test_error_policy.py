"""The policy on errors: its table, and the answer to a delete."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, cast

import pytest

from aiolead import errors
from aiolead._recipes import errors as error_policy
from aiolead._recipes.errors import Action, Step, action_for, may_be_applied
from aiolead._recipes.naming import Naming, PendingDelete, RegisteredNode
from aiolead._recipes.place_parts import all_of
from aiolead.abc import CoordinationClient
from aiolead.errors import (
    AioleadError,
    AnswerTooLargeError,
    BadVersionError,
    ClientClosedError,
    ConnectionLossError,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    NotReadOnlyError,
    OperationTimeoutError,
    Outcome,
    QuotaExceededError,
    ReleaseError,
    RemoteWireError,
    RequestRefusedError,
    RequestTimeoutError,
    RuntimeInconsistencyError,
    SessionExpiredError,
    SystemFaultError,
    ThrottledOpError,
    TransactionError,
    UnreadableTextError,
)
from aiolead.paths import basename

LOST = ConnectionLossError("the connection is lost")
NOT_SENT = ConnectionLossError("there is no link", outcome=Outcome.NOT_APPLIED)
REFUSED = RequestRefusedError("SET_DATA", "/a", 100_000, losses=2, retry_in=10.0, why="closed")

ROWS: dict[AioleadError, tuple[Action, ...]] = {
    LOST: (Action.RECONNECT, Action.RECONNECT, Action.RECONNECT),
    RemoteWireError("nonsense"): (Action.RECONNECT, Action.RECONNECT, Action.RECONNECT),
    AnswerTooLargeError("too many"): (Action.RAISE, Action.REFUSED, Action.RAISE),
    NotReadOnlyError("/a"): (Action.RECONNECT, Action.RECONNECT, Action.RECONNECT),
    REFUSED: (Action.RAISE, Action.PAUSE, Action.PAUSE, Action.RAISE),
    SessionExpiredError("over"): (Action.START_AGAIN, Action.GONE, Action.RECONNECT),
    ClientClosedError("closed"): (Action.RAISE, Action.GONE, Action.RAISE),
    ThrottledOpError("/a"): (Action.PAUSE, Action.PAUSE, Action.PAUSE),
    RequestTimeoutError("/a"): (Action.PAUSE, Action.PAUSE, Action.PAUSE),
    OperationTimeoutError("/a"): (Action.PAUSE, Action.PAUSE, Action.PAUSE),
    NoNodeError("/a"): (Action.RAISE, Action.GONE, Action.RAISE),
    BadVersionError("/a"): (Action.RAISE, Action.RECONNECT, Action.RAISE),
    NoAuthError("/a"): (Action.RAISE, Action.REFUSED, Action.RAISE),
    NotEmptyError("/a"): (Action.SET_ASIDE, Action.REFUSED, Action.SET_ASIDE),
    UnreadableTextError("not UTF-8"): (Action.RAISE, Action.REFUSED, Action.RAISE),
    QuotaExceededError("/a"): (Action.RAISE, Action.REFUSED, Action.RAISE),
    SystemFaultError("/a"): (Action.RAISE, Action.REFUSED, Action.RAISE),
}
"""In the order of `Step`; the last one, ASK, is as FOLLOW where it is not given."""


@pytest.mark.parametrize("error", ROWS, ids=lambda error: type(error).__name__)
def test_action_is_that_of_the_table(error: AioleadError) -> None:
    row = ROWS[error]
    whole = row if len(row) == len(Step) else (*row, row[-1])
    assert tuple(action_for(error, step) for step in Step) == whole


def test_every_error_has_a_row() -> None:
    classes = [each for each in vars(errors).values() if isinstance(each, type)]
    kinds = [each for each in classes if issubclass(each, AioleadError)]
    assert len(kinds) > 50
    rows = [each for row, _ in error_policy.TABLE for each in row]
    for kind in kinds:
        assert issubclass(kind, tuple(rows))


def test_error_of_an_operation_counts_for_its_transaction() -> None:
    error = TransactionError(1, [RuntimeInconsistencyError("/a"), NoNodeError("/b")])
    assert action_for(error, Step.RELEASE) is Action.GONE


@pytest.mark.parametrize(
    ("error", "may"),
    [
        (None, False),
        (LOST, True),
        (NOT_SENT, False),
        (REFUSED, True),
        (RemoteWireError("nonsense"), True),
        (RequestTimeoutError("/a"), True),
        (SystemFaultError("/a"), True),
        (ThrottledOpError("/a"), False),
        (NodeExistsError("/a"), False),
        (SessionExpiredError("over"), False),
    ],
)
def test_create_may_have_been_applied_after_these_errors(
    error: AioleadError | None, may: bool
) -> None:
    assert may_be_applied(error) is may


# --- the answer to a delete ----------------------------------------------------------------------


class Answer:
    """A reply that is there."""

    is_done = True

    def __init__(self, error: AioleadError | None) -> None:
        self._error = error

    def error(self) -> AioleadError | None:
        return self._error

    def add_done_callback(self, callback: Callable[[], object]) -> None:
        callback()


class Jobs:
    """A client that counts the jobs that it is given."""

    session_timeout = 8.0

    def __init__(self) -> None:
        self.spawned = 0
        self.backend = self

    def spawn(self, *_: object) -> None:
        self.spawned += 1


def deletion(error: AioleadError | None, path: str = "/a/b") -> tuple[PendingDelete, Jobs]:
    jobs = Jobs()
    client, naming = cast(CoordinationClient, jobs), cast(Naming, None)
    node = RegisteredNode(path, basename(path), 0, 1, 1)
    return PendingDelete(client, naming, node, cast(Any, Answer(error)), id), jobs


REPEATED = (
    LOST,
    NOT_SENT,
    *(e for e, row in ROWS.items() if row[1] in (Action.RECONNECT, Action.PAUSE)),
)
GONE = (None, NoNodeError("/a/b"), SessionExpiredError("over"), ClientClosedError("closed"))
KEPT = (NoAuthError("/a/b"), NotEmptyError("/a/b"))


def test_delete_is_repeated_done_or_refused_by_its_answer(
    caplog: pytest.LogCaptureFixture,
) -> None:
    for error in REPEATED:
        gone, jobs = deletion(error)
        assert (gone.is_done, jobs.spawned) == (False, 1), error
    for each in GONE:
        gone, jobs = deletion(each)
        assert (gone.is_done, gone.error, jobs.spawned) == (True, each, 0), each
    assert caplog.records == []
    for refused in KEPT:
        gone, jobs = deletion(refused)
        refusal = gone.error
        assert isinstance(refusal, ReleaseError)
        assert (refusal.path, refusal.cause, jobs.spawned) == ("/a/b", refused, 0)
        record = caplog.records.pop()  # once, as nobody waits
        assert (record.levelno, record.getMessage()) == (logging.WARNING, str(refusal))
    assert caplog.records == []


def test_refused_delete_says_what_to_do() -> None:
    assert "allow DELETE on /a, delete it by hand, or close the client" in str(
        ReleaseError("/a/b", NoAuthError("/a/b"))
    )
    assert "allow DELETE on /, " in str(ReleaseError("/a", NoAuthError("/a")))
    assert "allow" not in str(ReleaseError("/a/b", NotEmptyError("/a/b")))


def test_several_refused_deletes_are_named_together() -> None:
    errors = [None, NoAuthError("/a"), NoNodeError("/b"), NoAuthError("/c")]
    parts = [deletion(error, f"/{name}")[0] for error, name in zip(errors, "0abc", strict=True)]
    several = all_of(parts)
    assert several is not None
    for _ in range(2):
        refusal = several.error
        assert isinstance(refusal, ReleaseError)
        assert refusal.path == "/a"
        assert [note.split()[0] for note in refusal.__notes__] == ["/c"]
