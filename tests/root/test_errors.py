"""The error tree: its shape, the properties of each error, messages, copies and pickles."""

from __future__ import annotations

import copy
import inspect
import json
import pickle
import re

import pytest
from kit.checks import check_each
from wire.golden import FOLDER

from aiolead import errors
from aiolead._wire.codes import server_error
from aiolead.errors import (
    AcquireTimeout,
    AioleadError,
    AuthFailedError,
    BarrierLost,
    Blame,
    ClaimLost,
    ConnectFailed,
    ConnectionLossError,
    CounterOverflowError,
    Fenced,
    InvalidDataError,
    LeadershipLost,
    LockLost,
    LossReason,
    MixedLayoutError,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    Outcome,
    QueueFullError,
    ReleaseError,
    RemoteWireError,
    RequestRefusedError,
    RolledBackError,
    RuntimeInconsistencyError,
    SequenceExhaustedError,
    ServerError,
    SessionExpiredError,
    TenureLost,
    TransactionError,
    TreeTooLargeError,
    UnknownServerError,
    UnsupportedError,
)

# KeeperException.Code of ZooKeeper 3.8.0; see tests/assurance/golden/GoldenZooKeeper.java.
GOLDEN = json.loads((FOLDER / "zookeeper-3.8.0.json").read_text())

CLASSES = {
    name: value
    for name, value in vars(errors).items()
    if isinstance(value, type) and issubclass(value, AioleadError)
}

CALLER, NETWORK, SERVER, RIVAL = Blame.CALLER, Blame.NETWORK, Blame.SERVER, Blame.RIVAL
NO, UNKNOWN = Outcome.NOT_APPLIED, Outcome.UNKNOWN

# --- the tree ----------------------------------------------------------------------------------


def documented_tree() -> dict[str, tuple[str | None, str | None]]:
    """Name to (its parent, its second base), as drawn at the top of the module."""
    tree: dict[str, tuple[str | None, str | None]] = {}
    above: list[str] = []
    for line in (inspect.getdoc(errors) or "").splitlines():
        match = re.match(r" {4}((?:[│ ] {3})*)([├└]─ )?([A-Z]\w+(?:, \w+)*)(?:\((\w+)\))?", line)
        if match is None:
            continue
        depth = len(match[1]) // 4 + 1 if match[2] else 0
        del above[depth:]
        names = match[3].split(", ")
        for name in names:
            tree[name] = (above[-1] if above else None, match[4])
        above.append(names[-1])
    return tree


def test_reader_of_the_drawing_finds_the_errors() -> None:
    tree = documented_tree()
    assert len(tree) > 30
    assert tree["AioleadError"] == (None, None)
    assert tree["LockLost"] == ("TenureLost", None)
    assert tree["ConnectFailed"] == ("TransportError", "OSError")


@check_each("name, bases", documented_tree().items())
def test_documented_tree_is_the_real_one(name: str, bases: tuple[str | None, str | None]) -> None:
    drawn = [base for base in bases if base is not None] or ["Exception"]
    assert [base.__name__ for base in CLASSES[name].__bases__] == drawn


def test_drawing_omits_only_leaves_below_server_error() -> None:
    left_out = CLASSES.keys() - documented_tree().keys()
    assert left_out
    assert {CLASSES[name].__bases__ for name in left_out} == {(ServerError,)}


def test_all_is_complete_and_sorted() -> None:
    assert set(errors.__all__) == CLASSES.keys() | {"Blame", "LossReason", "Outcome"}
    assert errors.__all__ == sorted(errors.__all__)


def test_every_class_has_a_docstring_or_a_summary() -> None:
    for cls in CLASSES.values():
        assert cls.__doc__ or cls.__dict__["summary"], cls


# --- the three questions -----------------------------------------------------------------------

ANSWERS = {
    name: answer
    for answer, names in {
        (SERVER, NO, False): (
            "AioleadError WireError RequestRefusedError ServerError RuntimeInconsistencyError "
            "MarshallingError UnimplementedError UnsupportedError NewConfigNoQuorumError "
            "ReconfigInProgressError APIError NoNodeError NotEmptyError NotReadOnlyError "
            "EphemeralOnLocalSessionError NoWatcherError ReconfigDisabledError "
            "ThrottledOpError RolledBackError TransactionError"
        ),
        (CALLER, NO, False): (
            "UsageError AlreadyHeldError UpgradeError TooManyHoldsError TooManyRequestsError "
            "ConfigurationError InvalidPathError InvalidConnectStringError LocalWireError "
            "BadArgumentsError NoAuthError NoChildrenForEphemeralsError InvalidACLError "
            "QuotaExceededError ReleaseError MixedLayoutError CounterOverflowError "
            "TreeTooLargeError SequenceExhaustedError"
        ),
        (SERVER, UNKNOWN, False): (
            "RemoteWireError AnswerTooLargeError UnreadableTextError SystemFaultError "
            "DataInconsistencyError OperationTimeoutError RequestTimeoutError "
            "UnknownServerError"
        ),
        (NETWORK, NO, False): "TransportError ConnectFailed ConnectionLossError",
        (SERVER, UNKNOWN, True): "SessionError",
        (NETWORK, UNKNOWN, True): "SessionExpiredError",
        (CALLER, UNKNOWN, True): "SessionMovedError ClientClosedError",
        (CALLER, NO, True): "AuthFailedError",
        (RIVAL, NO, False): (
            "BadVersionError NodeExistsError CoordinationError AcquireTimeout Fenced "
            "HandOverTimeout InvalidDataError QueueFullError"
        ),
        (RIVAL, UNKNOWN, False): "TenureLost LeadershipLost LockLost BarrierLost ClaimLost",
        (CALLER, UNKNOWN, False): "InternalError",
    }.items()
    for name in names.split()
}


def test_blame_outcome_and_session_over_of_each_class() -> None:
    """An error itself may know better: see the tests below."""
    found = {name: (c.blame, c.outcome, c.session_over) for name, c in CLASSES.items()}
    assert found == ANSWERS


def test_lost_connection_has_an_unknown_outcome_by_default() -> None:
    assert ConnectionLossError("gone").outcome is UNKNOWN
    assert ConnectionLossError("gone", outcome=NO).outcome is NO


@check_each(
    "reason, blame, session_over",
    [
        (LossReason.EXPIRED, NETWORK, True),
        (LossReason.UNCONFIRMED, NETWORK, False),
        (LossReason.DISCONNECTED, NETWORK, False),
        (LossReason.REFUSED, SERVER, False),
        (LossReason.DELETED, RIVAL, False),
        (LossReason.REVOKED, RIVAL, False),
        (LossReason.CLOSED, CALLER, True),
        (LossReason.INTERNAL, CALLER, False),
    ],
)
@check_each("cls", [TenureLost, LeadershipLost, LockLost, BarrierLost, ClaimLost])
def test_loss_has_the_blame_of_its_reason(
    cls: type[TenureLost], reason: LossReason, blame: Blame, session_over: bool
) -> None:
    loss = cls("/a/lock-0000000001", reason, 7)
    assert (loss.blame, loss.outcome, loss.session_over) == (blame, UNKNOWN, session_over)
    assert (loss.path, loss.reason, loss.token) == ("/a/lock-0000000001", reason, 7)


def test_failed_transaction_has_the_properties_of_the_failed_operation() -> None:
    error = TransactionError(
        1, [RolledBackError("/a"), NoAuthError("/b"), RuntimeInconsistencyError("/c")]
    )
    assert (error.index, error.path, error.code, error.blame) == (1, "/b", -102, CALLER)
    assert isinstance(error.cause, NoAuthError)
    assert error.cause is error.results[1]
    kinds = [type(result) for result in error.results]
    assert kinds == [RolledBackError, NoAuthError, RuntimeInconsistencyError]


# --- the codes of the server -------------------------------------------------------------------

# Named otherwise than in ZooKeeper.
BY_CODE = {
    "SYSTEMERROR": "SystemFaultError",
    "APIERROR": "APIError",
    "SESSIONCLOSEDREQUIRESASLAUTH": "AuthFailedError",
    # Java uses these inside a client or a server and never sends them.
    "UNKNOWNSESSION": "UnknownServerError",
    "INVALIDCALLBACK": "UnknownServerError",
}


def class_of(code: str) -> type[AioleadError]:
    """`NONODE` is `NoNodeError`, `MARSHALLINGERROR` is `MarshallingError`."""
    names = {name.removesuffix("Error").upper(): name for name in CLASSES}
    return CLASSES[BY_CODE.get(code) or names[code.removesuffix("ERROR")]]


@check_each("name", GOLDEN["codes"].keys() - {"OK"})
def test_every_code_of_zookeeper_has_its_error(name: str) -> None:
    code = GOLDEN["codes"][name]
    error = server_error(code, "/a/b")
    assert type(error) is class_of(name)
    if isinstance(error, ServerError):
        assert (error.code, error.path) == (code, "/a/b")
        assert "/a/b" in str(error)


def test_no_two_classes_share_a_code() -> None:
    codes = [c.code for c in CLASSES.values() if issubclass(c, ServerError) and vars(c).get("code")]
    assert len(codes) == len(set(codes))
    assert set(codes) < set(GOLDEN["codes"].values())


@pytest.mark.parametrize("code", [-116, -126, -9999, 1, 2**31 - 1, -(2**31)])
def test_unknown_code_is_kept(code: int) -> None:
    error = server_error(code, "/a")
    assert isinstance(error, UnknownServerError)
    assert error.code == code
    assert str(error) == f"the server answered with the unknown error code {code}: /a"


def test_connection_loss_reported_by_the_server_has_an_unknown_outcome() -> None:
    error = server_error(-4, "/a")
    assert isinstance(error, ConnectionLossError)
    assert error.outcome is UNKNOWN


# --- messages, copies and pickles --------------------------------------------------------------


def samples() -> list[AioleadError]:
    """One of each class that can be made; constructors of their own with all that they take."""
    special: list[AioleadError] = [
        RemoteWireError("too short", offset=7),
        RemoteWireError("too short"),
        ConnectFailed("no server"),
        ConnectFailed("no server", [("zk1:2181", OSError(111, "refused")), ("b:1", ValueError())]),
        ConnectionLossError("gone", outcome=NO),
        RequestRefusedError(
            "SET_DATA", "/a", 100_000, losses=2, retry_in=10.0, why="closed", outcome=UNKNOWN
        ),
        NodeExistsError("/a", message="said otherwise"),
        NoNodeError("/a"),
        NoNodeError(),
        UnknownServerError(-999, "/a"),
        UnknownServerError(-999),
        UnsupportedError("this", "3.7", "3.5.9", "zk1:2181 is 3.5.9"),
        TransactionError(0, [NoNodeError("/a"), RuntimeInconsistencyError("/b")]),
        *(
            cls("/a", r, 2**40)
            for cls in (TenureLost, LeadershipLost, LockLost, BarrierLost, ClaimLost)
            for r in LossReason
        ),
        ReleaseError("/a/b", NoAuthError("/a/b")),
        ReleaseError("/a/b", NotEmptyError("/a/b")),
        Fenced("/a"),
        MixedLayoutError("/a/b", "sorts otherwise"),
        MixedLayoutError("/a/b", "sorts otherwise", session_id=7),
        SequenceExhaustedError("/a"),
        SequenceExhaustedError("/a", last=7),
        InvalidDataError("/a", ValueError("3 bytes rather than 4"), version=7),
        InvalidDataError("/a", "it is empty"),
        TreeTooLargeError("/a", 10),
        CounterOverflowError("/a", 2**31, "it does not fit into 4 bytes"),
        QueueFullError("/a", 10, 10),
        AcquireTimeout("not our turn within 5 s"),
    ]
    made = {type(error) for error in special}
    return special + [c("/a") for c in CLASSES.values() if c not in made]


def state(error: BaseException) -> object:
    """All that an error carries, comparable."""
    fields = {
        name: [state(e) if isinstance(e, BaseException) else repr(e) for e in value]
        if isinstance(value, tuple)
        else (state(value) if isinstance(value, BaseException) else value)
        for name, value in vars(error).items()
        if name != "attempts"
    }
    attempts = [(a, repr(e)) for a, e in getattr(error, "attempts", ())]
    return type(error), str(error), error.args, fields, attempts


def test_samples_have_every_class() -> None:
    assert {type(error) for error in samples()} == set(CLASSES.values())


@check_each("error", samples(), ids=lambda e: type(e).__name__)
def test_errors_survive_copying_and_pickling(error: AioleadError) -> None:
    error.add_note("seen by the worker")
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert state(pickle.loads(pickle.dumps(error, protocol))) == state(error)
    assert state(copy.copy(error)) == state(error)
    assert state(copy.deepcopy(error)) == state(error)


@check_each("error", samples(), ids=lambda e: type(e).__name__)
def test_errors_have_a_message_and_a_repr(error: AioleadError) -> None:
    assert str(error)
    assert "\n" not in str(error)
    assert type(error).__name__ in repr(error)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (NoNodeError("/a"), "no such znode: /a"),
        (NoNodeError(), "no such znode"),
        (NodeExistsError("/a", message="already there"), "already there: /a"),
        (RemoteWireError("too short", offset=0), "too short (at byte 0)"),
        (RemoteWireError("too short"), "too short"),
        (
            ConnectFailed("none", [("a:1", OSError(111, "refused")), ("b:2", TimeoutError())]),
            "none (a:1: refused; b:2: TimeoutError)",
        ),
        (
            ConnectFailed("none", [("a:1", OSError(111, "Connect call failed ('::1', 1, 0, 0)"))]),
            "none (a:1: Connection refused)",
        ),
        (
            ConnectFailed("none", [("a:1", OSError(111, "Error connecting to ('::1', 1): no"))]),
            "none (a:1: Connection refused)",
        ),
        (
            TransactionError(1, [RolledBackError("/a"), NoNodeError("/b")]),
            "operation 1 of the transaction failed: no such znode: /b",
        ),
        (
            LeadershipLost("/a/n", LossReason.DELETED, 7),
            "leadership of /a/n lost (token 7): the znode was deleted by somebody else",
        ),
        (
            LockLost("/a/n", LossReason.EXPIRED, 8),
            "lock of /a/n lost (token 8): the session expired",
        ),
        (Fenced("/a"), "write refused: /a is no longer ours, so the role is not either"),
        (MixedLayoutError("/a/b", "is no contender"), "/a/b is no contender"),
        (MixedLayoutError("/a", "is none", session_id=-1), f"/a (of session 0x{'f' * 16}) is none"),
        (MixedLayoutError("/a", "is none", session_id=0), "/a (of no session) is none"),
        (
            QueueFullError("/jobs", 12, 10),
            "/jobs has 12 items, and may have 10: put again when some were consumed",
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_message(error: AioleadError, text: str) -> None:
    assert str(error) == text


@pytest.mark.parametrize(
    ("error", "builtin"),
    [
        (AcquireTimeout("late"), TimeoutError),
        (ConnectFailed("none"), OSError),
        (errors.UsageError("no"), RuntimeError),
        (errors.InvalidPathError("no"), ValueError),
        (errors.LocalWireError("no"), ValueError),
        (errors.ClientClosedError("closed"), RuntimeError),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_error_is_a_builtin_error_as_well(error: AioleadError, builtin: type[Exception]) -> None:
    assert isinstance(error, builtin)


def test_session_is_over_after_session_errors() -> None:
    for code in (-112, -115, -118, -124):
        assert server_error(code).session_over
    assert isinstance(server_error(-112), SessionExpiredError)
    assert isinstance(server_error(-124), AuthFailedError)
