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
        ├─ HandOverTimeout(TimeoutError)  no successor was ready within `timeout`
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

Each error has its `blame`, `outcome` (may the write be applied) and `session_over`.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import ClassVar

from ._util.escaping import as_line, in_words, shown_session
from ._util.parsing import shown

__all__ = [
    "APIError", "AcquireTimeout", "AioleadError", "AlreadyHeldError", "AnswerTooLargeError",
    "AuthFailedError", "BadArgumentsError", "BadVersionError", "BarrierLost", "Blame", "ClaimLost",
    "ClientClosedError", "ConfigurationError", "ConnectFailed", "ConnectionLossError",
    "CoordinationError", "CounterOverflowError", "DataInconsistencyError",
    "EphemeralOnLocalSessionError", "Fenced", "HandOverTimeout", "InternalError", "InvalidACLError",
    "InvalidConnectStringError", "InvalidDataError", "InvalidPathError", "LeadershipLost",
    "LocalWireError", "LockLost", "LossReason", "MarshallingError", "MixedLayoutError",
    "NewConfigNoQuorumError", "NoAuthError", "NoChildrenForEphemeralsError", "NoNodeError",
    "NoWatcherError", "NodeExistsError", "NotEmptyError", "NotReadOnlyError",
    "OperationTimeoutError", "Outcome", "QueueFullError", "QuotaExceededError",
    "ReconfigDisabledError", "ReconfigInProgressError", "ReleaseError", "RemoteWireError",
    "RequestRefusedError", "RequestTimeoutError", "RolledBackError", "RuntimeInconsistencyError",
    "SequenceExhaustedError", "ServerError", "SessionError", "SessionExpiredError",
    "SessionMovedError", "SystemFaultError", "TenureLost", "ThrottledOpError", "TooManyHoldsError",
    "TooManyRequestsError", "TransactionError", "TransportError", "TreeTooLargeError",
    "UnimplementedError", "UnknownServerError", "UnreadableTextError", "UnsupportedError",
    "UpgradeError", "UsageError", "WireError",
]  # fmt: skip


class Blame(enum.Enum):
    """The party that caused an error."""

    CALLER = "caller"
    """The program passed or did something wrong; the same call fails again."""
    NETWORK = "network"
    """A connection or its other end failed; the same call may succeed later."""
    SERVER = "server"
    """The ensemble refused, or its answer makes no sense."""
    RIVAL = "rival"
    """Nobody's fault: another process was first, or took over."""


class Outcome(enum.Enum):
    """Whether the write that failed may have been applied."""

    NOT_APPLIED = "not applied"
    UNKNOWN = "unknown"
    APPLIED = "applied"


class LossReason(enum.Enum):
    """Why a hold ended before its holder released it."""

    EXPIRED = "the session expired"
    UNCONFIRMED = "the lease ran out before the quorum confirmed it"
    DISCONNECTED = "the connection was lost, and the hold does not outlast it"
    REFUSED = "the servers refused to confirm the znode"
    DELETED = "the znode was deleted by somebody else"
    REVOKED = "another process asked for it, by `revoke`"
    CLOSED = "the client was closed"
    INTERNAL = "an unexpected error inside aiolead, which is in its log"

    def __str__(self) -> str:
        return self.value

    @property
    def blame(self) -> Blame:
        """The party that caused the loss."""
        return _BLAME.get(self, Blame.NETWORK)

    @property
    def znode_remains(self) -> bool:
        """Whether the znode still exists as far as is known, so nobody else holds the path yet."""
        return self not in (LossReason.EXPIRED, LossReason.DELETED, LossReason.CLOSED)


_BLAME = {
    LossReason.REFUSED: Blame.SERVER,
    LossReason.DELETED: Blame.RIVAL,
    LossReason.REVOKED: Blame.RIVAL,
    LossReason.CLOSED: Blame.CALLER,
    LossReason.INTERNAL: Blame.CALLER,
}


class AioleadError(Exception):
    """The root of the error tree.

    `str(error)` is one printable line of at most 4,000 characters, for logs and terminals: names
    that other processes wrote are escaped there. Attributes such as `path` have them as they are.

    Attributes:
        blame: the party that caused it.
        outcome: whether the write that failed may have been applied.
        session_over: whether the session ended, and with it its ephemeral znodes.
    """

    blame: Blame = Blame.SERVER
    outcome: Outcome = Outcome.NOT_APPLIED
    session_over: bool = False

    def __init_subclass__(
        cls, *, blame: Blame | None = None, outcome: Outcome | None = None
    ) -> None:
        """Set `blame` and `outcome` where they differ from the base's."""
        super().__init_subclass__()
        if blame is not None:
            cls.blame = blame
        if outcome is not None:
            cls.outcome = outcome

    def __str__(self) -> str:
        return as_line(super().__str__())

    def __reduce__(self) -> tuple[object, ...]:
        # The default passes the finished message to `__init__`, which takes its parts.
        return _rebuild, (type(self), self.args), self.__dict__


def _rebuild(cls: type[AioleadError], args: tuple[object, ...]) -> AioleadError:
    error = cls.__new__(cls)
    error.args = args
    return error


# --- the caller's mistakes ---------------------------------------------------------------------


class UsageError(AioleadError, RuntimeError, blame=Blame.CALLER):
    """An object was used in a way that can never work; nothing was sent."""


class AlreadyHeldError(UsageError):
    """This task already holds, or waits for, this object: waiting again could never end."""


class UpgradeError(AlreadyHeldError):
    """This task holds the read lock and asks for the write lock: two such tasks would deadlock.

    Release the read lock first, or acquire the write lock from the start and `downgrade` it.
    """


class TooManyRequestsError(AioleadError, blame=Blame.CALLER):
    """Too many requests wait to be sent already (`Limits.max_queued`); nothing was sent."""


class TooManyHoldsError(AioleadError, blame=Blame.CALLER):
    """The session has as many holds or ephemeral znodes as it may have; nothing was sent.

    Use more clients. A session has 1,250 holds for each second of its timeout, so that it can lose
    them in time. The paths of its ephemeral znodes have 768 KiB (`Limits.max_ephemeral_paths`), so
    that servers survive its end (ZOOKEEPER-4306).
    """


class ConfigurationError(AioleadError, ValueError, blame=Blame.CALLER):
    """An argument was refused before any I/O. The message names it and says what is allowed."""


class InvalidPathError(ConfigurationError):
    """A path that no ZooKeeper server would accept."""


class InvalidConnectStringError(ConfigurationError):
    """A connect string that is not `host[:port][,host[:port]...][/chroot]`."""


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
    """A list in an answer has more elements than the client takes; the connection is kept.

    A listing may have one name for each 32 bytes of `Limits.max_reply` (two million by default),
    take three times `max_reply` in memory, and have 65,536 names that ZooKeeper would refuse. ACLs
    and identities may be 10,000.
    """


class UnreadableTextError(RemoteWireError):
    """A name, an identity or another text in an answer cannot be decoded.

    ZooKeeper writes UTF-8, with characters beyond U+FFFF as Java has them (CESU-8); both are read.
    Others may keep the bytes of any client. Only this request fails; the connection is kept.
    """


class InternalError(AioleadError, blame=Blame.CALLER, outcome=Outcome.UNKNOWN):
    """aiolead, or a function that was passed to it, raised an unexpected exception.

    That exception is the `__cause__`, and is logged once, with its traceback. It ends the view,
    campaign, hold or request in which it was raised. Report it, unless the function is yours.
    """


class TransportError(AioleadError, blame=Blame.NETWORK):
    """The network, or the server process at its other end, failed."""


class ConnectFailed(TransportError, OSError):
    """No server could be reached in time.

    Attributes:
        attempts: each address that was tried, with its last error: `("host:port", error)`.
    """

    def __init__(self, message: str, attempts: Sequence[tuple[str, Exception]] = ()) -> None:
        tried = "; ".join(f"{where}: {in_words(e)}" for where, e in attempts)
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


# --- server error codes ------------------------------------------------------------------------


class ServerError(AioleadError):
    """The server answered with an error code. Nothing was applied, unless `outcome` is `UNKNOWN`.

    Attributes:
        code: the number on the wire (`KeeperException.Code` in ZooKeeper's Java source).
        path: the path of the request as the caller gave it; None if it has none.
    """

    code: int = 0
    summary: ClassVar[str] = "the server refused the request"

    def __init_subclass__(
        cls,
        *,
        code: int | None = None,
        summary: str | None = None,
        blame: Blame | None = None,
        outcome: Outcome | None = None,
    ) -> None:
        """Set the code on the wire and the beginning of the message."""
        super().__init_subclass__(blame=blame, outcome=outcome)
        if code is not None:
            cls.code = code
        if summary is not None:
            cls.summary = summary

    def __init__(self, path: str | None = None, *, message: str | None = None) -> None:
        text = message or self.summary
        super().__init__(text if path is None else f"{text}: {path}")
        self.path = path


class SystemFaultError(
    ServerError, code=-1, summary="the server had an internal error", outcome=Outcome.UNKNOWN
):
    """The server failed while it handled the request."""


class RuntimeInconsistencyError(
    ServerError, code=-2, summary="not tried, since another operation of the transaction failed"
):
    """In a transaction: the operation was not tried, since another one failed."""


class DataInconsistencyError(
    ServerError,
    code=-3,
    summary="the server found its data to be inconsistent",
    outcome=Outcome.UNKNOWN,
):
    """The server found its own data to be inconsistent."""


class MarshallingError(ServerError, code=-5, summary="the server could not read the request"):
    """The server could not read the request; usually it is older than the operation."""


class UnimplementedError(ServerError, code=-6, summary="the server does not support the operation"):
    """The server does not know the operation, or has it switched off."""


class UnsupportedError(UnimplementedError):
    """The server is too old for the operation, or does not state its version; nothing was sent.

    If the request were sent, the server would answer with an error and close the connection, with
    all other requests in flight on it.

    Attributes:
        feature: the feature that the server lacks.
        needs: the first version of ZooKeeper that does.
        server: the version that the server reports; None if it reports none.
    """

    def __init__(self, feature: str, needs: str, server: str | None, why: str) -> None:
        super().__init__(message=f"{feature} needs ZooKeeper {needs}: {why}")
        self.feature = feature
        self.needs = needs
        self.server = server


class OperationTimeoutError(
    ServerError, code=-7, summary="the server gave up on the operation", outcome=Outcome.UNKNOWN
):
    """The operation timed out on the server."""


class BadArgumentsError(
    ServerError, code=-8, summary="the server found the arguments invalid", blame=Blame.CALLER
):
    """The server found the arguments invalid."""


class NewConfigNoQuorumError(
    ServerError,
    code=-13,
    summary="no quorum of the new configuration is up to date with the leader",
):
    """A reconfiguration names too few servers that are up to date with the leader."""


class ReconfigInProgressError(
    ServerError, code=-14, summary="another reconfiguration is in progress"
):
    """Another reconfiguration is in progress."""


class APIError(ServerError, code=-100, summary="the server reported an API error"):
    """The server reported an API error without a code of its own."""


class NoNodeError(ServerError, code=-101, summary="no such znode"):
    """The znode, or the parent of a znode to create, does not exist."""


class NoAuthError(
    ServerError, code=-102, summary="not allowed by the znode's ACL", blame=Blame.CALLER
):
    """The ACL does not allow it: the znode's own, or its parent's for a create or a delete."""


class BadVersionError(
    ServerError, code=-103, summary="the znode has another version", blame=Blame.RIVAL
):
    """The znode has another version than the one that was required: somebody else changed it."""


class NoChildrenForEphemeralsError(
    ServerError, code=-108, summary="ephemeral znodes cannot have children", blame=Blame.CALLER
):
    """The parent of the znode to create is ephemeral."""


class NodeExistsError(
    ServerError, code=-110, summary="the znode exists already", blame=Blame.RIVAL
):
    """The znode exists already."""


class NotEmptyError(ServerError, code=-111, summary="the znode has children"):
    """The znode has children, so it cannot be deleted."""


class InvalidACLError(
    ServerError, code=-114, summary="the server found the ACL invalid", blame=Blame.CALLER
):
    """The ACL is empty or malformed, or needs credentials that the session has not presented."""


class NotReadOnlyError(ServerError, code=-119, summary="the server is read-only"):
    """A write was sent to a server that is isolated from the quorum and serves reads only."""


class EphemeralOnLocalSessionError(
    ServerError, code=-120, summary="a local session cannot have ephemeral znodes"
):
    """The session is local to its server, and such sessions cannot own ephemeral znodes."""


class NoWatcherError(ServerError, code=-121, summary="no such watch"):
    """The watch to remove does not exist on the server."""


class RequestTimeoutError(
    ServerError, code=-122, summary="the server gave up on the request", outcome=Outcome.UNKNOWN
):
    """The request timed out on the server."""


class ReconfigDisabledError(ServerError, code=-123, summary="reconfiguration is switched off"):
    """Dynamic reconfiguration is switched off on the ensemble."""


class QuotaExceededError(
    ServerError, code=-125, summary="a quota would be exceeded", blame=Blame.CALLER
):
    """A hard quota of the tree would be exceeded."""


class ThrottledOpError(
    ServerError, code=-127, summary="the server is overloaded and dropped the request"
):
    """The server is overloaded and did not apply the request: retry after a while."""


class RolledBackError(
    ServerError, summary="undone, since another operation of the transaction failed"
):
    """In a transaction: the operation was undone, since a later one failed."""


class UnknownServerError(ServerError, outcome=Outcome.UNKNOWN):
    """An error code that this version of aiolead does not know."""

    def __init__(self, code: int, path: str | None = None) -> None:
        super().__init__(path, message=f"the server answered with the unknown error code {code}")
        self.code = code


class TransactionError(ServerError):
    """One operation of a transaction failed, so none was applied.

    Attributes:
        index: the failed operation, counted from 0.
        cause: its error.
        results: one error per operation, in order: `RolledBackError` before the failed one,
            `RuntimeInconsistencyError` after it.
    """

    def __init__(self, index: int, results: Sequence[ServerError]) -> None:
        cause = results[index]
        super().__init__(message=f"operation {index} of the transaction failed: {cause}")
        self.blame: Blame = cause.blame
        self.code: int = cause.code
        self.path: str | None = cause.path
        self.index = index
        self.cause = cause
        self.results: tuple[ServerError, ...] = tuple(results)


OVERLOADED = (ThrottledOpError, RequestTimeoutError, OperationTimeoutError)
"""The answers of a server that has too much to do: ask again later, on the same connection."""


# --- coordination ------------------------------------------------------------------------------


class CoordinationError(AioleadError, blame=Blame.RIVAL):
    """The base of the recipes' errors."""


class AcquireTimeout(CoordinationError, TimeoutError):
    """Nothing was acquired within `timeout` seconds. The contender has left the queue.

    Attributes:
        holder: the identity of the holder; None, as the others, if it is unknown.
        since: when its znode was created, in seconds since 1970, by the servers' clocks.
        position: how many contenders were before this one, with the holder.
        permits: how many permits of a semaphore were held; `holder` has the oldest of them.
    """

    holder: str | None = None
    since: float | None = None
    position: int | None = None
    permits: int | None = None


class HandOverTimeout(CoordinationError, TimeoutError):
    """No successor was ready within `timeout` seconds. The leader was not asked, and leads on."""


class TenureLost(CoordinationError, outcome=Outcome.UNKNOWN):
    """A hold ended before its holder released it.

    Attributes:
        path: the path of what was held.
        reason: why; `blame` and `session_over` follow from it.
        token: the fencing token of the hold.
        cause: why it is `UNCONFIRMED`: a standstill of the process, or the servers' errors.
    """

    noun: ClassVar[str] = "tenure"

    def __init__(self, path: str, reason: LossReason, token: int, cause: str = "") -> None:
        known = f" ({cause})" if cause else ""
        super().__init__(f"{self.noun} of {path} lost (token {token}): {reason.value}{known}")
        self.blame: Blame = reason.blame
        self.session_over: bool = reason in (LossReason.EXPIRED, LossReason.CLOSED)
        self.path = path
        self.reason = reason
        self.token = token
        self.cause = cause


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
        owner = f" (of session {shown_session(session_id)})" if session_id else ""
        owner = " (of no session)" if session_id == 0 else owner
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
        full = f"{path} has {size} items, and may have {max_items}"
        super().__init__(f"{full}: put again when some were consumed")
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
        text = f"{path} has given out its numbers up to {last}: use a new path"
        if last is None:
            text = (
                f"{path} has used up its sequence numbers (2^31 creates), so order on it is no "
                "longer defined: let all contenders stop, delete it and start again, or use another"
            )
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


for _name in __all__:  # shown under the module that they are imported from
    globals()[_name].__module__ = __name__
