"""Every error that aiolead raises.

    AioleadError
    ├─ UsageError(RuntimeError)           an object was misused: the caller's mistake
    │   └─ AlreadyHeldError               this task already holds, or waits for, this object
    │       └─ UpgradeError               ... for reading, and asks to write
    ├─ TooManyRequestsError               too many requests wait to be sent already
    ├─ TooManyHoldsError                  one session has as much as it may hold
    ├─ ConfigurationError(ValueError)     an argument was refused before any I/O
    │   ├─ InvalidPathError
    │   └─ InvalidConnectStringError
    ├─ WireError                          bytes that are not ZooKeeper's protocol
    │   ├─ LocalWireError(ValueError)     ... that the caller asked to send
    │   └─ RemoteWireError                ... that the peer sent
    │       ├─ AnswerTooLargeError        more elements than the client takes
    │       └─ UnreadableTextError        a text in an answer that is not UTF-8
    ├─ InternalError                      a defect: a job or a callback raised something unexpected
    ├─ TransportError
    │   ├─ ConnectFailed(OSError)         no server could be reached in time: see `attempts`
    │   ├─ ConnectionLossError            the connection was lost before the answer
    │   └─ RequestRefusedError            ... each time that this request was sent
    ├─ SessionError                       the session is over, and its ephemerals with it
    │   ├─ SessionExpiredError
    │   ├─ SessionMovedError
    │   ├─ AuthFailedError
    │   └─ ClientClosedError(RuntimeError)
    ├─ ServerError                        the server answered with an error code
    │   ├─ NoNodeError, NodeExistsError, BadVersionError, NoAuthError, ...
    │   ├─ UnimplementedError             the server does not know the operation
    │   │   └─ UnsupportedError           ... known in advance, so nothing was sent
    │   ├─ TransactionError               one operation of a transaction failed; none was applied
    │   └─ UnknownServerError             a code that this version does not know
    └─ CoordinationError
        ├─ AcquireTimeout(TimeoutError)   nothing was acquired within `timeout`
        ├─ TenureLost                     a hold ended before its holder released it: see `reason`
        │   ├─ LeadershipLost
        │   ├─ LockLost
        │   ├─ BarrierLost
        │   └─ ClaimLost
        ├─ ReleaseError                   the servers refused to delete the znode: it stays
        ├─ Fenced                         a fenced write was refused: the hold is over
        ├─ MixedLayoutError               a neighbour's layout would not exclude this contender
        ├─ QueueFullError                 the queue has its maximum of items
        ├─ SequenceExhaustedError         the path has used up its sequence numbers
        ├─ InvalidDataError               a znode's data is not what the recipe expects
        ├─ CounterOverflowError           a counter would leave the range of its format
        └─ TreeTooLargeError              a tree has more znodes than its copy may have

Each error answers three questions: whose fault is it (`blame`), may the write have been applied
(`outcome`), and is the session over (`session_over`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from ._error_base import (
    AioleadError,
    APIError,
    BadArgumentsError,
    BadVersionError,
    Blame,
    DataInconsistencyError,
    EphemeralOnLocalSessionError,
    InvalidACLError,
    LossReason,
    MarshallingError,
    NewConfigNoQuorumError,
    NoAuthError,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    NotReadOnlyError,
    NoWatcherError,
    OperationTimeoutError,
    Outcome,
    QuotaExceededError,
    ReconfigDisabledError,
    ReconfigInProgressError,
    RequestTimeoutError,
    RolledBackError,
    RuntimeInconsistencyError,
    ServerError,
    SystemFaultError,
    ThrottledOpError,
    TransactionError,
    UnimplementedError,
    UnknownServerError,
    UnsupportedError,
)
from ._escaping import shown_session
from ._parsing import shown

__all__ = [
    "APIError",
    "AcquireTimeout",
    "AioleadError",
    "AlreadyHeldError",
    "AnswerTooLargeError",
    "AuthFailedError",
    "BadArgumentsError",
    "BadVersionError",
    "BarrierLost",
    "Blame",
    "ClaimLost",
    "ClientClosedError",
    "ConfigurationError",
    "ConnectFailed",
    "ConnectionLossError",
    "CoordinationError",
    "CounterOverflowError",
    "DataInconsistencyError",
    "EphemeralOnLocalSessionError",
    "Fenced",
    "InternalError",
    "InvalidACLError",
    "InvalidConnectStringError",
    "InvalidDataError",
    "InvalidPathError",
    "LeadershipLost",
    "LocalWireError",
    "LockLost",
    "LossReason",
    "MarshallingError",
    "MixedLayoutError",
    "NewConfigNoQuorumError",
    "NoAuthError",
    "NoChildrenForEphemeralsError",
    "NoNodeError",
    "NoWatcherError",
    "NodeExistsError",
    "NotEmptyError",
    "NotReadOnlyError",
    "OperationTimeoutError",
    "Outcome",
    "QueueFullError",
    "QuotaExceededError",
    "ReconfigDisabledError",
    "ReconfigInProgressError",
    "ReleaseError",
    "RemoteWireError",
    "RequestRefusedError",
    "RequestTimeoutError",
    "RolledBackError",
    "RuntimeInconsistencyError",
    "SequenceExhaustedError",
    "ServerError",
    "SessionError",
    "SessionExpiredError",
    "SessionMovedError",
    "SystemFaultError",
    "TenureLost",
    "ThrottledOpError",
    "TooManyHoldsError",
    "TooManyRequestsError",
    "TransactionError",
    "TransportError",
    "TreeTooLargeError",
    "UnimplementedError",
    "UnknownServerError",
    "UnreadableTextError",
    "UnsupportedError",
    "UpgradeError",
    "UsageError",
    "WireError",
]


# --- the caller's mistakes ---------------------------------------------------------------------


class UsageError(AioleadError, RuntimeError, blame=Blame.CALLER):
    """An object was used in a way that can never work; nothing was sent."""


class AlreadyHeldError(UsageError):
    """This task already holds, or waits for, this object: waiting again could never end."""


class UpgradeError(AlreadyHeldError):
    """This task holds the read lock and asks for the write lock.

    Two readers that upgrade would wait for each other forever. Release the read lock first, or
    acquire the write lock from the start and `downgrade` it.
    """


class TooManyRequestsError(AioleadError, blame=Blame.CALLER):
    """Too many requests wait to be sent already (`Limits.max_queued`); nothing was sent.

    Servers are slow or unreachable, and the program does not await replies before it sends more.
    """


class TooManyHoldsError(AioleadError, blame=Blame.CALLER):
    """The session has as many holds or ephemeral znodes as it may have; nothing was sent.

    Use more clients. A session has 1,250 holds for each second of its timeout, so that it can lose
    them in time. The paths of its ephemeral znodes have 768 KiB together
    (`Limits.max_ephemeral_paths`), so that the servers survive the end of the session
    (ZOOKEEPER-4306).
    """


class ConfigurationError(AioleadError, ValueError, blame=Blame.CALLER):
    """An argument was refused before any I/O. The message names it and says what is allowed."""


class InvalidPathError(ConfigurationError):
    """A path that no ZooKeeper server would accept."""


class InvalidConnectStringError(ConfigurationError):
    """A connect string that is not `host[:port][,host[:port]...][/chroot]`."""


# --- bytes -------------------------------------------------------------------------------------


class WireError(AioleadError):
    """Bytes that are not ZooKeeper's protocol."""


class LocalWireError(WireError, ValueError, blame=Blame.CALLER):
    """A value that cannot be put on the wire; nothing was sent."""


class RemoteWireError(WireError, outcome=Outcome.UNKNOWN):
    """The peer sent something that is not a record of the protocol. The connection is closed.

    Attributes:
        offset: where in the frame decoding failed, in bytes; None if unknown.
    """

    def __init__(self, message: str, *, offset: int | None = None) -> None:
        super().__init__(message if offset is None else f"{message} (at byte {offset})")
        self.offset = offset


class AnswerTooLargeError(RemoteWireError):
    """A list in an answer has more elements than the client takes.

    A listing may have one name for each 32 bytes of `Limits.max_reply` (two million by default),
    since short names take ten times their size in memory; ACLs and identities may be 10,000. Names
    with accents take up to eight times their size. So a listing of them is refused beyond three
    times `max_reply` in memory, and beyond 65,536 names that ZooKeeper would refuse. Only this
    request fails, and the connection is kept.
    """


class UnreadableTextError(RemoteWireError):
    """A name, an identity or another text in an answer cannot be decoded.

    Servers of ZooKeeper write UTF-8, with characters beyond U+FFFF as Java has them (CESU-8); both
    are read. Other servers may keep the bytes of any client. Only this request fails, and the
    connection is kept.
    """


# --- defects -----------------------------------------------------------------------------------


class InternalError(AioleadError, blame=Blame.CALLER, outcome=Outcome.UNKNOWN):
    """aiolead, or a function that was passed to it, raised an unexpected exception.

    That exception is the `__cause__`, and is logged once, with its traceback. It ends the view,
    campaign, hold or request in which it was raised, and nothing else of the client. Please report
    it, unless the function is yours. `blame` is `CALLER`: no server, network or other client is at
    fault.
    """


# --- the connection ----------------------------------------------------------------------------


class TransportError(AioleadError, blame=Blame.NETWORK):
    """The network, or the server process at its other end, failed."""


class ConnectFailed(TransportError, OSError):
    """No server could be reached in time.

    Attributes:
        attempts: each address that was tried, with its last error: `("host:port", error)`.
    """

    def __init__(self, message: str, attempts: Sequence[tuple[str, Exception]] = ()) -> None:
        tried = "; ".join(f"{where}: {str(e) or type(e).__name__}" for where, e in attempts)
        super().__init__(f"{message} ({tried})" if tried else message)
        self.attempts: tuple[tuple[str, Exception], ...] = tuple(attempts)


class ConnectionLossError(TransportError):
    """The connection was lost before the answer came.

    `outcome` is `NOT_APPLIED` for a read, and for a request that was never sent. A write that was
    sent may have been applied (`UNKNOWN`); aiolead never sends it twice.
    """

    def __init__(self, message: str, *, outcome: Outcome = Outcome.UNKNOWN) -> None:
        super().__init__(message)
        self.outcome = outcome


class RequestRefusedError(TransportError, blame=Blame.SERVER):
    """Each connection over which this request was sent was lost: the request is the cause.

    It is longer than the servers or a proxy accept, or its reply is longer than this client
    accepts, or cannot be decoded. Compare `size` with `jute.maxbuffer` of the servers and with the
    limits of proxies, and the reply with `Limits.max_reply`. The same request is sent again at most
    once per pause, and the pauses grow; until then it fails at once. See
    docs/explanation/refused-requests.md.

    Attributes:
        outcome: `UNKNOWN` for a write that was sent, else `NOT_APPLIED`.
        request: the operation, such as `SET_DATA`.
        path: the znode, or the first one of a transaction, as the caller named it.
        size: the length of the request in bytes, as the limits count it.
        losses: how many connections were lost over it.
        retry_in: seconds until it is sent again if it is asked for again.
        is_held_back: whether it fails at once until then. A short request is sent nevertheless,
            as the server may have recovered: wait for so long before each repetition.
    """

    def __init__(
        self,
        request: str,
        path: str,
        size: int,
        *,
        losses: int,
        retry_in: float,
        why: str,
        outcome: Outcome = Outcome.UNKNOWN,
        is_held_back: bool = True,
    ) -> None:
        super().__init__(
            f"{request} {path} of {size} bytes is refused: {losses} connections were lost right "
            f"after it was sent ({why}). Check jute.maxbuffer of the servers, the limits of "
            "proxies, and max_reply of this client"
        )
        self.request = request
        self.path = path
        self.size = size
        self.losses = losses
        self.retry_in = retry_in
        self.outcome = outcome
        self.is_held_back = is_held_back


# --- the session -------------------------------------------------------------------------------


class SessionError(AioleadError, outcome=Outcome.UNKNOWN):
    """The session is over, and with it every ephemeral znode and watch that it owned."""

    session_over = True


class SessionExpiredError(SessionError, blame=Blame.NETWORK):
    """The ensemble ended the session: it received nothing for the session timeout."""


class SessionMovedError(SessionError, blame=Blame.CALLER):
    """Another connection took the session over: two processes use one session id and password."""


class AuthFailedError(SessionError, blame=Blame.CALLER, outcome=Outcome.NOT_APPLIED):
    """The server refused the credentials. Final: the client does not try again."""


class ClientClosedError(SessionError, RuntimeError, blame=Blame.CALLER):
    """The client was closed, before the call or while it waited."""


# --- coordination ------------------------------------------------------------------------------


class CoordinationError(AioleadError, blame=Blame.RIVAL):
    """The base of the recipes' errors."""


class AcquireTimeout(CoordinationError, TimeoutError):
    """Nothing was acquired within `timeout` seconds. The contender has left the queue."""


class TenureLost(CoordinationError, outcome=Outcome.UNKNOWN):
    """A hold ended before its holder released it.

    Attributes:
        path: the path of what was held.
        reason: why; `blame` and `session_over` follow from it.
        token: the fencing token of the hold.
    """

    noun: ClassVar[str] = "tenure"

    def __init__(self, path: str, reason: LossReason, token: int) -> None:
        super().__init__(f"{self.noun} of {path} lost (token {token}): {reason.value}")
        self.blame: Blame = reason.blame
        self.session_over: bool = reason in (LossReason.EXPIRED, LossReason.CLOSED)
        self.path = path
        self.reason = reason
        self.token = token


class LeadershipLost(TenureLost):
    """The term ended before its holder resigned."""

    noun = "leadership"


class LockLost(TenureLost):
    """The lock was lost before its holder released it."""

    noun = "lock"


class BarrierLost(TenureLost):
    """The membership of a double barrier ended before its body did."""

    noun = "place"


class ClaimLost(TenureLost):
    """The claim on an item of a queue or on a task was lost: another consumer gets it."""

    noun = "claim"


class ReleaseError(CoordinationError, blame=Blame.CALLER):
    """The servers refused to delete the znode of a hold, so it stays until the session ends.

    Other contenders wait until then. The hold is over: its lease is not renewed, and the client
    does not try again. Allow the deletion (`NoAuthError`: the ACL of the *parent* does not grant
    DELETE), delete the znode by hand, or close the client.

    Attributes:
        path: the znode that stays.
        cause: the servers' answer.
    """

    def __init__(self, path: str, cause: AioleadError) -> None:
        parent = path.rpartition("/")[0] or "/"
        remedy = f"allow DELETE on {parent}, " if isinstance(cause, NoAuthError) else ""
        super().__init__(
            f"{path} could not be deleted ({cause}): it stays, and others wait for it, until its "
            f"session ends or somebody deletes it: {remedy}delete it by hand, or close the client"
        )
        self.path = path
        self.cause = cause


class Fenced(CoordinationError):
    """The server refused a fenced write: the znode of the hold is gone. Nothing was applied.

    Stop: another process may hold the role by now, whatever the local clock says.
    """

    def __init__(self, path: str) -> None:
        super().__init__(f"write refused: {path} is no longer ours, so the role is not either")
        self.path = path


class MixedLayoutError(CoordinationError, blame=Blame.CALLER):
    """This contender and a neighbour on the path would not exclude each other. Nothing is held.

    The message names its owner, and the layout or path to use instead. If no session owns the znode
    and nobody uses it, delete it.

    Attributes:
        neighbour: the full path of the znode that does not fit.
        why: why it does not, and what to do.
        session_id: the session that owns it; 0 if none does; None if unknown.
    """

    def __init__(self, neighbour: str, why: str, *, session_id: int | None = None) -> None:
        owner = ""
        if session_id is not None:
            owner = (
                f" (of session {shown_session(session_id)})" if session_id else " (of no session)"
            )
        super().__init__(f"{neighbour}{owner} {why}")
        self.neighbour = neighbour
        self.why = why
        self.session_id = session_id


class QueueFullError(CoordinationError):
    """The queue has `max_items` items already. Nothing was put.

    Attributes:
        path: the path of the items.
        size: the number of items.
        max_items: the most that there may be.
    """

    def __init__(self, path: str, size: int, max_items: int) -> None:
        super().__init__(
            f"{path} has {size} items, and may have {max_items}: put again when some were consumed"
        )
        self.path = path
        self.size = size
        self.max_items = max_items


class SequenceExhaustedError(CoordinationError, blame=Blame.CALLER):
    """The numbers of a path are used up.

    Sequential znodes have 31-bit numbers; beyond them servers assign duplicates. Stop every
    contender and delete the path, whose counter then starts again, or move all to a new path. A
    `SequenceAllocator` ends at its `last`.
    """

    def __init__(self, path: str, *, last: int | None = None) -> None:
        if last is None:
            text = (
                f"{path} has used up its sequence numbers (2^31 creates), so order on it is no "
                "longer defined: let all contenders stop, delete the path and start again, or use "
                "a new path"
            )
        else:
            text = f"{path} has given out its numbers up to {last}: use a new path"
        super().__init__(text)
        self.path = path


class InvalidDataError(CoordinationError):
    """A znode's data is not what the recipe expects: another program has written it.

    The decoding error is its `__cause__`.

    Attributes:
        path: the znode.
        version: the version of its data; -1 if several znodes are concerned.
    """

    def __init__(self, path: str, why: object, *, version: int = -1) -> None:
        super().__init__(f"{path} has data that cannot be used: {why}")
        self.path = path
        self.version = version


class CounterOverflowError(CoordinationError, blame=Blame.CALLER):
    """A counter would leave the range of its format. Nothing was applied.

    Attributes:
        path: the counter.
        value: the value that it would have had.
    """

    def __init__(self, path: str, value: int, why: object) -> None:
        super().__init__(f"{path} cannot become {shown(value)}: {why}")
        self.path = path
        self.value = value


class TreeTooLargeError(CoordinationError, blame=Blame.CALLER):
    """A tree has more znodes than its local copy may have. The copy is no longer updated.

    Attributes:
        path: the top of the tree.
        most: the most znodes that there may be.
    """

    def __init__(self, path: str, most: int) -> None:
        super().__init__(f"{path} has more than {most} znodes with itself: choose a larger limit")
        self.path = path
        self.most = most


OVERLOADED = (ThrottledOpError, RequestTimeoutError, OperationTimeoutError)
"""The answers of a server that has too much to do: ask again later, on the same connection."""

# Shown under the module that they are imported from.
for _name in __all__:
    globals()[_name].__module__ = __name__
