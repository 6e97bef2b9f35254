"""Every error that aiolead raises.

    AioleadError
    ├─ UsageError(RuntimeError)           an object was misused or raced: our caller's mistake
    │   └─ AlreadyHeldError               this task already holds, or waits for, this very object
    │       └─ UpgradeError               ... it reads, and asks to write: refused
    ├─ TooManyRequestsError               so many requests wait to be sent that this one was refused
    ├─ ConfigurationError(ValueError)     an argument was refused before any I/O
    │   ├─ InvalidPathError
    │   └─ InvalidConnectStringError
    ├─ WireError                          bytes that are not ZooKeeper's protocol
    │   ├─ LocalWireError(ValueError)     ... that we were asked to send
    │   └─ RemoteWireError                ... that the peer sent
    ├─ InternalError                      a defect: a job or a callback raised something unexpected
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
        ├─ AcquireTimeout(TimeoutError)   our turn did not come within `timeout`
        ├─ TenureLost                     what was held is held no longer: `reason` says why
        │   ├─ LeadershipLost
        │   ├─ LockLost
        │   ├─ BarrierLost
        │   └─ ClaimLost
        ├─ ReleaseError                   the servers refused to delete our znode: it stays
        ├─ Fenced                         the server refused a fenced write: we are not the holder
        ├─ MixedLayoutError               a neighbour on the path would not exclude us, or we it
        ├─ QueueFullError                 a queue has as many items as it may have
        ├─ SequenceExhaustedError         the path has used up its sequence numbers
        ├─ InvalidDataError               a znode's data is not what the recipe expects there
        ├─ CounterOverflowError           a counter would leave the range of its format
        └─ TreeTooLargeError              a tree has more znodes than its copy may have

Each error answers three questions, as attributes: whose fault is it (`blame`), may the write have
happened (`outcome`), and is the session over (`session_over`).
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import ClassVar

from ._error_base import AioleadError, Blame, Outcome
from ._parsing import shown
from ._server_errors import (
    APIError,
    BadArgumentsError,
    BadVersionError,
    DataInconsistencyError,
    EphemeralOnLocalSessionError,
    InvalidACLError,
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

__all__ = [
    "APIError",
    "AcquireTimeout",
    "AioleadError",
    "AlreadyHeldError",
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
    "TreeTooLargeError",
    "UnimplementedError",
    "UnknownServerError",
    "UnsupportedError",
    "UpgradeError",
    "UsageError",
    "WireError",
]


class LossReason(enum.Enum):
    """Why a hold ended before its holder let go."""

    EXPIRED = "the session expired"
    UNCONFIRMED = "the lease ran out before the quorum confirmed it"
    DISCONNECTED = "the connection was lost, and the hold does not outlast it"
    REFUSED = "the servers refused to confirm the znode"
    DELETED = "the znode was deleted by somebody else"
    CLOSED = "the client was closed"
    INTERNAL = "an unexpected error inside aiolead, which is in its log"

    def __str__(self) -> str:
        return self.value

    @property
    def znode_remains(self) -> bool:
        """Whether the znode is still there, as far as is known: nobody else holds it yet."""
        return self in _ZNODE_REMAINS


_ZNODE_REMAINS = (
    LossReason.UNCONFIRMED,
    LossReason.DISCONNECTED,
    LossReason.REFUSED,
    LossReason.INTERNAL,
)


# --- the caller's mistakes ---------------------------------------------------------------------


class UsageError(AioleadError, RuntimeError):
    """An object was used in a way that can never work; nothing was sent."""

    blame = Blame.CALLER


class AlreadyHeldError(UsageError):
    """This task already holds, or waits for, this object: waiting again could never end."""


class UpgradeError(AlreadyHeldError):
    """This task holds a lock for reading, and asks for it for writing.

    Two readers that did so would wait for each other for ever, so nobody may. Leave the read lock
    first, or take the write lock from the start, and `downgrade` it.
    """


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


# --- defects -----------------------------------------------------------------------------------


class InternalError(AioleadError):
    """Something inside aiolead, or a function that was given to it, raised what it must not.

    Its `__cause__` is that exception, which is also in the log, once, with its traceback. What it
    happened in has ended with this error: a view, a campaign, a hold, a request. The client and
    everything else that it does go on. Please report it, unless the function is yours.

    `blame` is `CALLER`, since neither servers nor the network nor other clients are at fault.
    """

    blame = Blame.CALLER
    outcome = Outcome.UNKNOWN


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
        self.attempts: tuple[tuple[str, Exception], ...] = tuple(attempts)


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


# --- coordination ------------------------------------------------------------------------------


class CoordinationError(AioleadError):
    """What the recipes raise."""

    blame = Blame.RIVAL


class AcquireTimeout(CoordinationError, TimeoutError):
    """Our turn did not come within `timeout` seconds. The place in line was given up."""


_BLAME_FOR_LOSS = {
    LossReason.EXPIRED: Blame.NETWORK,
    LossReason.UNCONFIRMED: Blame.NETWORK,
    LossReason.DISCONNECTED: Blame.NETWORK,
    LossReason.REFUSED: Blame.SERVER,
    LossReason.DELETED: Blame.RIVAL,
    LossReason.CLOSED: Blame.CALLER,
    LossReason.INTERNAL: Blame.CALLER,
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
        self.blame: Blame = _BLAME_FOR_LOSS[reason]
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
    """A place inside a double barrier ended before its body did."""

    noun = "place"


class ClaimLost(TenureLost):
    """The claim on an item of a queue, or on a task, was lost: somebody else gets it."""

    noun = "claim"


class ReleaseError(CoordinationError):
    """The servers refused to delete our znode, so it stays until the session ends.

    Whoever waits for it waits until then. Nothing is held any more: the lease is not renewed for
    it, and the client does not try again by itself.

    What to do: allow the deletion (`NoAuthError` means that the ACL of the *parent* does not give
    us DELETE), delete the znode by hand, or close the client.

    Attributes:
        path: the znode that stays.
        cause: the servers' answer.
    """

    blame = Blame.CALLER

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
    """The server refused a fenced write, since our znode was gone: somebody else may hold the role.

    Nothing was applied. Stop: the tenure is over, whatever the local clock says.
    """

    def __init__(self, path: str) -> None:
        super().__init__(f"write refused: {path} is no longer ours, so the role is not either")
        self.path = path


class MixedLayoutError(CoordinationError):
    """A neighbour on the path and we would not exclude each other. Nothing was acquired.

    The message says whose it is and which layout, or path, to use instead. If nobody uses that
    znode any more (no session owns it), delete it.

    Attributes:
        neighbour: the full path of the znode that does not fit.
        why: why it does not, and what to do.
        session_id: the session that owns it; 0 for a znode that none does; None if it is not known.
    """

    blame = Blame.CALLER

    def __init__(self, neighbour: str, why: str, *, session_id: int | None = None) -> None:
        match session_id:
            case None:
                owner = ""
            case 0:
                owner = " (of no session)"
            case _:
                owner = f" (of session 0x{session_id & (1 << 64) - 1:x})"
        super().__init__(f"{neighbour}{owner} {why}")
        self.neighbour = neighbour
        self.why = why
        self.session_id = session_id


class QueueFullError(CoordinationError):
    """A queue has as many items as it may have. Nothing was put.

    Attributes:
        path: of the items.
        size: how many there are.
        max_items: how many there may be.
    """

    def __init__(self, path: str, size: int, max_items: int) -> None:
        super().__init__(
            f"{path} has {size} items, and may have {max_items}: put again when some were consumed"
        )
        self.path = path
        self.size = size
        self.max_items = max_items


class SequenceExhaustedError(CoordinationError):
    """The numbers of a path are used up.

    Those of sequential znodes are, at the end of 31 bits; servers hand out duplicates there. What
    to do: stop every contender, then delete the path (its counter starts anew with the next
    create), or have all of them move to a fresh path. A `SequenceAllocator` ends at its `last`.
    """

    blame = Blame.CALLER

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
    """A znode's data is not what the recipe expects there: somebody else has written it.

    The error that reading it has raised is its `__cause__`.

    Attributes:
        path: the znode.
        version: of its data; -1 where it is not one znode.
    """

    def __init__(self, path: str, why: object, *, version: int = -1) -> None:
        super().__init__(f"{path} has data that cannot be used: {why}")
        self.path = path
        self.version = version


class CounterOverflowError(CoordinationError):
    """A counter would leave the range of its format. Nothing was applied.

    Attributes:
        path: the counter.
        value: what it would have become.
    """

    blame = Blame.CALLER

    def __init__(self, path: str, value: int, why: object) -> None:
        super().__init__(f"{path} cannot become {shown(value)}: {why}")
        self.path = path
        self.value = value


class TreeTooLargeError(CoordinationError):
    """A tree has more znodes than its local copy may have, which is not kept up any more.

    Attributes:
        path: the top of the tree.
        most: how many there may be.
    """

    blame = Blame.CALLER

    def __init__(self, path: str, most: int) -> None:
        super().__init__(f"{path} has more than {most} znodes with itself: choose a larger limit")
        self.path = path
        self.most = most


def _describe(error: Exception) -> str:
    return str(error) or type(error).__name__


# They are known by the name under which they can be caught.
for _name in __all__:
    globals()[_name].__module__ = __name__
