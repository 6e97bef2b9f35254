"""Parts of `aiolead.errors`: the root of the error tree, the enumerations that errors use, and
servers' error codes as classes (`ServerError`).
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import ClassVar

from ._escaping import escaped


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
    CLOSED = "the client was closed"
    INTERNAL = "an unexpected error inside aiolead, which is in its log"

    def __str__(self) -> str:
        return self.value

    @property
    def blame(self) -> Blame:
        """The party that caused the loss."""
        return _BLAME[self]

    @property
    def znode_remains(self) -> bool:
        """Whether the znode still exists as far as is known, so nobody else holds the path yet."""
        return self not in (LossReason.EXPIRED, LossReason.DELETED, LossReason.CLOSED)


_BLAME = {
    LossReason.EXPIRED: Blame.NETWORK,
    LossReason.UNCONFIRMED: Blame.NETWORK,
    LossReason.DISCONNECTED: Blame.NETWORK,
    LossReason.REFUSED: Blame.SERVER,
    LossReason.DELETED: Blame.RIVAL,
    LossReason.CLOSED: Blame.CALLER,
    LossReason.INTERNAL: Blame.CALLER,
}


class AioleadError(Exception):
    """The root of the error tree.

    `str(error)` is one printable line: names that other processes wrote are escaped there, since it
    ends up in logs and on terminals, and unescaped in attributes such as `path`.

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
        return escaped(super().__str__())

    def __reduce__(self) -> tuple[object, ...]:
        # The default passes the finished message to `__init__`, which takes its parts.
        return _rebuild, (type(self), self.args), self.__dict__


def _rebuild(cls: type[AioleadError], args: tuple[object, ...]) -> AioleadError:
    error = cls.__new__(cls)
    error.args = args
    return error


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
