"""Every error that aiolead raises.

    AioleadError
    ├─ UsageError(RuntimeError)           an object was misused or raced: our caller's mistake
    │   └─ AlreadyHeldError               this task already holds, or waits for, this very object
    ├─ TooManyRequestsError               so many requests wait to be sent that this one was refused
    ├─ ConfigurationError(ValueError)     an argument was refused before any I/O
    │   ├─ InvalidPathError
    │   └─ InvalidConnectStringError
    ├─ WireError                          bytes that are not ZooKeeper's protocol
    │   ├─ LocalWireError(ValueError)     ... that we were asked to send
    │   └─ RemoteWireError                ... that the peer sent
    ├─ TransportError
    │   ├─ ConnectFailed(OSError)         no server could be reached in time: `attempts` says why
    │   └─ ConnectionLossError            the link died with the request unanswered
    ├─ SessionError                       the session is over: ephemerals are gone or going
    │   ├─ SessionExpiredError
    │   ├─ SessionMovedError
    │   ├─ AuthFailedError
    │   └─ ClientClosedError(RuntimeError)
    ├─ ServerError                        the server's answer is an error code
    │   ├─ NoNodeError, NodeExistsError, BadVersionError, NoAuthError, ...
    │   ├─ UnimplementedError             the server does not know the operation
    │   │   └─ UnsupportedError           ... which we knew before, so nothing was sent
    │   ├─ TransactionError               one operation of a transaction failed, so none was applied
    │   └─ UnknownServerError             a code that this version does not know
    └─ CoordinationError
        ├─ AcquireTimeout(TimeoutError)   our turn did not come within `wait`
        ├─ TenureLost                     what was held is held no longer: `reason` says why
        │   ├─ LeadershipLost
        │   └─ LockLost
        ├─ Fenced                         the server refused a fenced write: we are not the holder
        ├─ MixedLayoutError               a neighbour on the path would not exclude us, or we it
        └─ SequenceExhaustedError         the path has used up its sequence numbers

Each error answers three questions, as attributes: whose fault is it (`blame`), may the write have
happened (`outcome`), and is the session over (`session_over`).
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import ClassVar

__all__ = [
    "APIError",
    "AcquireTimeout",
    "AioleadError",
    "AlreadyHeldError",
    "AuthFailedError",
    "BadArgumentsError",
    "BadVersionError",
    "Blame",
    "ClientClosedError",
    "ConfigurationError",
    "ConnectFailed",
    "ConnectionLossError",
    "CoordinationError",
    "DataInconsistencyError",
    "EphemeralOnLocalSessionError",
    "Fenced",
    "InvalidACLError",
    "InvalidConnectStringError",
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
    "QuotaExceededError",
    "ReconfigDisabledError",
    "ReconfigInProgressError",
    "RemoteWireError",
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
    "TooManyRequestsError",
    "TransactionError",
    "TransportError",
    "UnimplementedError",
    "UnknownServerError",
    "UnsupportedError",
    "UsageError",
    "WireError",
]


class Blame(enum.Enum):
    """Whose fault an error is."""

    CALLER = "caller"
    """The program passed or did something wrong; the same call fails again."""
    NETWORK = "network"
    """A link, or the other end of it, failed; the same call may succeed later."""
    SERVER = "server"
    """The ensemble said no, or said something that makes no sense."""
    RIVAL = "rival"
    """Nobody's fault: somebody else was first, or took over."""


class Outcome(enum.Enum):
    """Whether the write that failed may have been applied."""

    NOT_APPLIED = "not applied"
    UNKNOWN = "unknown"
    APPLIED = "applied"


class LossReason(enum.Enum):
    """Why a hold ended before its holder let go."""

    EXPIRED = "the session expired"
    UNCONFIRMED = "the lease ran out before the quorum confirmed it"
    DELETED = "the znode was deleted by somebody else"
    CLOSED = "the client was closed"

    def __str__(self) -> str:
        return self.value


class AioleadError(Exception):
    """The root of the tree.

    Attributes:
        blame: whose fault it is.
        outcome: whether the write that failed may have been applied.
        session_over: whether the session ended, and with it its ephemeral znodes.
    """

    blame: Blame = Blame.SERVER
    outcome: Outcome = Outcome.NOT_APPLIED
    session_over: bool = False

    def __reduce__(self) -> tuple[object, ...]:
        # The default passes the finished message to `__init__`, which wants what it is made from.
        return _rebuild, (type(self), self.args), self.__dict__


def _rebuild(cls: type[AioleadError], args: tuple[object, ...]) -> AioleadError:
    error = cls.__new__(cls)
    error.args = args
    return error


# --- the caller's mistakes ---------------------------------------------------------------------


class UsageError(AioleadError, RuntimeError):
    """An object was used in a way that can never work; nothing was sent."""

    blame = Blame.CALLER


class AlreadyHeldError(UsageError):
    """This task already holds, or waits for, this object: waiting again could never end."""


class TooManyRequestsError(AioleadError):
    """So many requests wait to be sent already (`connect(max_queued=)`); nothing was sent.

    The servers do not keep up, or cannot be reached, and the program asks on without awaiting
    replies. Who awaits them never meets this error.
    """

    blame = Blame.CALLER


class ConfigurationError(AioleadError, ValueError):
    """An argument was refused before any I/O. The message names it and says what is allowed."""

    blame = Blame.CALLER


class InvalidPathError(ConfigurationError):
    """A path that no ZooKeeper server would accept."""


class InvalidConnectStringError(ConfigurationError):
    """A connect string that is not `host[:port][,host[:port]...][/chroot]`."""


# --- bytes -------------------------------------------------------------------------------------


class WireError(AioleadError):
    """Bytes that are not ZooKeeper's protocol."""


class LocalWireError(WireError, ValueError):
    """A value that cannot be put on the wire; nothing was sent."""

    blame = Blame.CALLER


class RemoteWireError(WireError):
    """The peer sent something that is not a record of the protocol. The connection is given up.

    Attributes:
        offset: where in the frame it went wrong, in bytes.
    """

    outcome = Outcome.UNKNOWN

    def __init__(self, message: str, *, offset: int | None = None) -> None:
        super().__init__(message if offset is None else f"{message} (at byte {offset})")
        self.offset = offset


# --- the link ----------------------------------------------------------------------------------


class TransportError(AioleadError):
    """The network, or the server process at its other end, failed."""

    blame = Blame.NETWORK


class ConnectFailed(TransportError, OSError):
    """No server could be reached in time.

    Attributes:
        attempts: the last error of each address that was tried: `("host:port", error)`.
    """

    def __init__(self, message: str, attempts: Sequence[tuple[str, Exception]] = ()) -> None:
        tried = "; ".join(f"{address}: {_describe(error)}" for address, error in attempts)
        super().__init__(f"{message} ({tried})" if tried else message)
        self.attempts = tuple(attempts)


class ConnectionLossError(TransportError):
    """The link died before the answer came.

    `outcome` is `NOT_APPLIED` where the request was never sent, or only reads; a write that was
    sent may have been applied (`UNKNOWN`), and aiolead never sends it a second time by itself.
    """

    def __init__(self, message: str, *, outcome: Outcome = Outcome.UNKNOWN) -> None:
        super().__init__(message)
        self.outcome = outcome


# --- the session -------------------------------------------------------------------------------


class SessionError(AioleadError):
    """The session is over, and with it every ephemeral znode and watch that it owned."""

    session_over = True
    outcome = Outcome.UNKNOWN


class SessionExpiredError(SessionError):
    """The ensemble ended the session, since it did not hear from us for the session timeout."""

    blame = Blame.NETWORK


class SessionMovedError(SessionError):
    """Another connection took the session over: two processes use one session id and password."""

    blame = Blame.CALLER


class AuthFailedError(SessionError):
    """The server refused the credentials. Final: the client does not try again."""

    blame = Blame.CALLER
    outcome = Outcome.NOT_APPLIED


class ClientClosedError(SessionError, RuntimeError):
    """The client was closed, before the call or while it waited."""

    blame = Blame.CALLER


# --- the server's answers ----------------------------------------------------------------------


class ServerError(AioleadError):
    """The server answered with an error code. Nothing was applied.

    Attributes:
        code: the number on the wire (`KeeperException.Code` in ZooKeeper's Java source).
        path: what the request was about, as the caller gave it, if it was about a path.
    """

    code: int = 0
    summary: ClassVar[str] = "the server refused the request"

    def __init__(self, path: str | None = None, *, message: str | None = None) -> None:
        text = message or self.summary
        super().__init__(text if path is None else f"{text}: {path}")
        self.path = path


class SystemFaultError(ServerError):
    code, summary = -1, "the server had an internal error"
    outcome = Outcome.UNKNOWN


class RuntimeInconsistencyError(ServerError):
    """In a transaction: an operation that was not tried, since another one failed."""

    code, summary = -2, "not tried, since another operation of the transaction failed"


class DataInconsistencyError(ServerError):
    code, summary = -3, "the server found its data to be inconsistent"
    outcome = Outcome.UNKNOWN


class MarshallingError(ServerError):
    """The server could not read the request: most often it is older than the operation."""

    code, summary = -5, "the server could not read the request"


class UnimplementedError(ServerError):
    """The server does not know the operation, or has it switched off."""

    code, summary = -6, "the server does not support the operation"


class UnsupportedError(UnimplementedError):
    """The server is too old for the operation, or does not tell how old it is; nothing was sent.

    Asked nevertheless, a server answers with an error and closes the connection, with all that was
    in flight on it.

    Attributes:
        feature: what the server would have to know.
        needs: the first version of ZooKeeper that knows it.
        server: the version that the server says it is; None if it does not tell.
    """

    def __init__(self, feature: str, needs: str, server: str | None, why: str) -> None:
        super().__init__(message=f"{feature} needs ZooKeeper {needs}: {why}")
        self.feature = feature
        self.needs = needs
        self.server = server


class OperationTimeoutError(ServerError):
    code, summary = -7, "the server gave up on the operation"
    outcome = Outcome.UNKNOWN


class BadArgumentsError(ServerError):
    blame = Blame.CALLER
    code, summary = -8, "the server found the arguments invalid"


class NewConfigNoQuorumError(ServerError):
    code, summary = -13, "no quorum of the new configuration is up to date with the leader"


class ReconfigInProgressError(ServerError):
    code, summary = -14, "another reconfiguration is in progress"


class APIError(ServerError):
    code, summary = -100, "the server reported an API error"


class NoNodeError(ServerError):
    code, summary = -101, "no such znode"


class NoAuthError(ServerError):
    blame = Blame.CALLER
    code, summary = -102, "not allowed by the znode's ACL"


class BadVersionError(ServerError):
    blame = Blame.RIVAL
    code, summary = -103, "the znode has another version"


class NoChildrenForEphemeralsError(ServerError):
    blame = Blame.CALLER
    code, summary = -108, "ephemeral znodes cannot have children"


class NodeExistsError(ServerError):
    blame = Blame.RIVAL
    code, summary = -110, "the znode exists already"


class NotEmptyError(ServerError):
    code, summary = -111, "the znode has children"


class InvalidACLError(ServerError):
    blame = Blame.CALLER
    code, summary = -114, "the server found the ACL invalid"


class NotReadOnlyError(ServerError):
    code, summary = -119, "the server is read-only"


class EphemeralOnLocalSessionError(ServerError):
    code, summary = -120, "a local session cannot have ephemeral znodes"


class NoWatcherError(ServerError):
    code, summary = -121, "no such watch"


class RequestTimeoutError(ServerError):
    code, summary = -122, "the server gave up on the request"
    outcome = Outcome.UNKNOWN


class ReconfigDisabledError(ServerError):
    code, summary = -123, "reconfiguration is switched off"


class QuotaExceededError(ServerError):
    blame = Blame.CALLER
    code, summary = -125, "a quota would be exceeded"


class ThrottledOpError(ServerError):
    """The server had too much to do, and did not apply the request: ask again, after a while."""

    code, summary = -127, "the server is overloaded and dropped the request"


class RolledBackError(ServerError):
    """In a transaction: an operation that was undone, since a later one failed."""

    code, summary = 0, "undone, since another operation of the transaction failed"


class UnknownServerError(ServerError):
    """An error code that this version of aiolead does not know."""

    outcome = Outcome.UNKNOWN

    def __init__(self, code: int, path: str | None = None) -> None:
        super().__init__(path, message=f"the server answered with the unknown error code {code}")
        self.code = code


class TransactionError(ServerError):
    """One operation of a transaction failed, so none was applied.

    Attributes:
        index: which operation, counted from 0.
        cause: its error.
        results: one error per operation, in order: `RolledBackError` for those that had worked,
            `RuntimeInconsistencyError` for those that were not tried any more.
    """

    def __init__(self, index: int, results: Sequence[ServerError]) -> None:
        cause = results[index]
        super().__init__(message=f"operation {index} of the transaction failed: {cause}")
        self.blame = cause.blame
        self.code = cause.code
        self.path = cause.path
        self.index = index
        self.cause = cause
        self.results = tuple(results)


# --- coordination ------------------------------------------------------------------------------


class CoordinationError(AioleadError):
    """What the recipes raise."""

    blame = Blame.RIVAL


class AcquireTimeout(CoordinationError, TimeoutError):
    """Our turn did not come within `wait` seconds. The place in line was given up."""


_BLAME_FOR_LOSS = {
    LossReason.EXPIRED: Blame.NETWORK,
    LossReason.UNCONFIRMED: Blame.NETWORK,
    LossReason.DELETED: Blame.RIVAL,
    LossReason.CLOSED: Blame.CALLER,
}


class TenureLost(CoordinationError):
    """What was held is held no longer, although its holder did not let go.

    Attributes:
        reason: why, a `LossReason`; `blame` and `session_over` follow from it.
        token: the fencing token of the tenure that ended.
    """

    outcome = Outcome.UNKNOWN
    noun: ClassVar[str] = "tenure"

    def __init__(self, path: str, reason: LossReason, token: int) -> None:
        super().__init__(f"{self.noun} of {path} lost (token {token}): {reason.value}")
        self.blame = _BLAME_FOR_LOSS[reason]
        self.session_over = reason in (LossReason.EXPIRED, LossReason.CLOSED)
        self.path = path
        self.reason = reason
        self.token = token


class LeadershipLost(TenureLost):
    """The term ended before its holder resigned."""

    noun = "leadership"


class LockLost(TenureLost):
    """The lock was lost before its holder released it."""

    noun = "lock"


class Fenced(CoordinationError):
    """The server refused a fenced write, since our znode was gone: somebody else may hold the role.

    Nothing was applied. Stop: the tenure is over, whatever the local clock says.
    """

    def __init__(self, path: str) -> None:
        super().__init__(f"write refused: {path} is no longer ours, so the role is not either")
        self.path = path


class MixedLayoutError(CoordinationError):
    """A neighbour on the path and we would not exclude each other. Nothing was acquired.

    Attributes:
        neighbour: the full path of the znode that does not fit.
    """

    blame = Blame.CALLER

    def __init__(self, neighbour: str, why: str) -> None:
        super().__init__(f"{neighbour} {why}")
        self.neighbour = neighbour


class SequenceExhaustedError(CoordinationError):
    """The path's sequence counter is at the end of its 31 bits; servers hand out duplicates there.

    What to do: stop every contender, then delete the path (its counter starts anew with the next
    create), or have all of them move to a fresh path.
    """

    blame = Blame.CALLER

    def __init__(self, path: str) -> None:
        super().__init__(
            f"{path} has used up its sequence numbers (2^31 creates), so order on it is no longer "
            "defined: let all contenders stop, delete the path and start again, or use a new path"
        )
        self.path = path


def _describe(error: Exception) -> str:
    return str(error) or type(error).__name__
