"""The answers of servers that are error codes: a branch of the tree of `aiolead.errors`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from ._error_base import AioleadError, Blame, Outcome


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
    code: int = -1
    summary: ClassVar[str] = "the server had an internal error"
    outcome = Outcome.UNKNOWN


class RuntimeInconsistencyError(ServerError):
    """In a transaction: an operation that was not tried, since another one failed."""

    code: int = -2
    summary: ClassVar[str] = "not tried, since another operation of the transaction failed"


class DataInconsistencyError(ServerError):
    code: int = -3
    summary: ClassVar[str] = "the server found its data to be inconsistent"
    outcome = Outcome.UNKNOWN


class MarshallingError(ServerError):
    """The server could not read the request: most often it is older than the operation."""

    code: int = -5
    summary: ClassVar[str] = "the server could not read the request"


class UnimplementedError(ServerError):
    """The server does not know the operation, or has it switched off."""

    code: int = -6
    summary: ClassVar[str] = "the server does not support the operation"


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
    code: int = -7
    summary: ClassVar[str] = "the server gave up on the operation"
    outcome = Outcome.UNKNOWN


class BadArgumentsError(ServerError):
    blame = Blame.CALLER
    code: int = -8
    summary: ClassVar[str] = "the server found the arguments invalid"


class NewConfigNoQuorumError(ServerError):
    code: int = -13
    summary: ClassVar[str] = "no quorum of the new configuration is up to date with the leader"


class ReconfigInProgressError(ServerError):
    code: int = -14
    summary: ClassVar[str] = "another reconfiguration is in progress"


class APIError(ServerError):
    code: int = -100
    summary: ClassVar[str] = "the server reported an API error"


class NoNodeError(ServerError):
    code: int = -101
    summary: ClassVar[str] = "no such znode"


class NoAuthError(ServerError):
    blame = Blame.CALLER
    code: int = -102
    summary: ClassVar[str] = "not allowed by the znode's ACL"


class BadVersionError(ServerError):
    blame = Blame.RIVAL
    code: int = -103
    summary: ClassVar[str] = "the znode has another version"


class NoChildrenForEphemeralsError(ServerError):
    blame = Blame.CALLER
    code: int = -108
    summary: ClassVar[str] = "ephemeral znodes cannot have children"


class NodeExistsError(ServerError):
    blame = Blame.RIVAL
    code: int = -110
    summary: ClassVar[str] = "the znode exists already"


class NotEmptyError(ServerError):
    code: int = -111
    summary: ClassVar[str] = "the znode has children"


class InvalidACLError(ServerError):
    blame = Blame.CALLER
    code: int = -114
    summary: ClassVar[str] = "the server found the ACL invalid"


class NotReadOnlyError(ServerError):
    code: int = -119
    summary: ClassVar[str] = "the server is read-only"


class EphemeralOnLocalSessionError(ServerError):
    code: int = -120
    summary: ClassVar[str] = "a local session cannot have ephemeral znodes"


class NoWatcherError(ServerError):
    code: int = -121
    summary: ClassVar[str] = "no such watch"


class RequestTimeoutError(ServerError):
    code: int = -122
    summary: ClassVar[str] = "the server gave up on the request"
    outcome = Outcome.UNKNOWN


class ReconfigDisabledError(ServerError):
    code: int = -123
    summary: ClassVar[str] = "reconfiguration is switched off"


class QuotaExceededError(ServerError):
    blame = Blame.CALLER
    code: int = -125
    summary: ClassVar[str] = "a quota would be exceeded"


class ThrottledOpError(ServerError):
    """The server had too much to do, and did not apply the request: ask again, after a while."""

    code: int = -127
    summary: ClassVar[str] = "the server is overloaded and dropped the request"


class RolledBackError(ServerError):
    """In a transaction: an operation that was undone, since a later one failed."""

    code: int = 0
    summary: ClassVar[str] = "undone, since another operation of the transaction failed"


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
        self.blame: Blame = cause.blame
        self.code: int = cause.code
        self.path: str | None = cause.path
        self.index = index
        self.cause = cause
        self.results: tuple[ServerError, ...] = tuple(results)
