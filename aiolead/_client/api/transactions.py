"""Several operations in one request: transactions, writes behind a guarding znode, and reads."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from typing import Any, Self, TypeVar

from ..._session.ephemeral_paths import DIGITS
from ..._session.requests import WRITE, multi_parser
from ..._util.escaping import escaped
from ..._wire.codes import OpCode, server_error
from ..._wire.jute import Reader
from ..._wire.long_frames import LongReader, Steps
from ..._wire.replies import (
    CreateReply,
    DataReply,
    ErrorResult,
    MultiReadReply,
    MultiResult,
    NamesReply,
    PathReply,
    StatReply,
)
from ..._wire.replies import ReadResult as Answer
from ..._wire.requests import (
    Create,
    Delete,
    GetChildren,
    GetData,
    Multi,
    MultiOp,
    MultiRead,
    ReadOp,
)
from ..._wire.versions import Feature
from ...errors import (
    ConfigurationError,
    Fenced,
    NoNodeError,
    RemoteWireError,
    ServerError,
    TransactionError,
    UsageError,
)
from ...model import ACL, CreateMode, SessionState, Stat
from ..core import Core, PendingReply
from .operations import Scope
from .server_features import bound_read, read_with

TransactionResult = str | Stat | None
"""A create's path (servers give no `Stat` here), a set's `Stat`, None for the rest."""


class Transaction:
    """Several writes, sent as one and applied together or not at all.

    For instance `await client.transaction().check("/a", version=3).set("/b", b"new")`. Operations
    see the effect of those before them. Awaiting (or `commit`) sends the transaction, once. The
    result has one entry per operation: the path for a create, the `Stat` for a set, None for a
    check or a delete. If an operation failed, so that none was applied, it raises
    `TransactionError`.

    One that is dropped without having been sent gives a `RuntimeWarning`.

    Threads and forks: any thread may build it. Sending it raises `UsageError` outside of the
    client's event loop, and it may still be sent there.
    """

    _own = 0
    """How many operations come first that its user has not added."""

    def __init__(self, core: Core, scope: Scope) -> None:
        self._core = core
        self._scope = scope
        self._is_users = scope.is_users
        self._ops: list[MultiOp] = []
        self._paths: list[str] = []
        self._sent = False
        self._was_tried = False

    def __del__(self, _warn: Callable[..., None] = warnings.warn) -> None:
        if self._was_tried or self._core.is_forked:
            return
        if self._core.machine.state is SessionState.CLOSED:
            return  # nor could it be committed any more
        if len(self._ops) > self._own:
            path = self._paths[self._own]
            _warn(
                f"a transaction was never committed, so nothing was written (its first operation "
                f"is on {escaped(path)}): call its `commit()`, or await it",
                RuntimeWarning,
                stacklevel=2,
                source=self,
            )

    def _add(self, op: MultiOp, path: str) -> Self:
        if self._sent:
            raise UsageError("the transaction was sent already: make a new one")
        self._ops.append(op)
        self._paths.append(path)
        return self

    def create(
        self,
        path: str,
        data: bytes = b"",
        *,
        mode: CreateMode = CreateMode.PERSISTENT,
        acl: Sequence[ACL] | None = None,
        ttl: float | None = None,
    ) -> Self:
        """Add a create; see `Client.create`."""
        request = self._scope.create_request(path, data, mode, acl, ttl)
        if request.op is OpCode.CREATE2:
            # Old servers answer it without a `Stat`, too, and other engines do not know it.
            request = replace(request, op=OpCode.CREATE)
        return self._add(request, path)

    def delete(self, path: str, *, version: int = -1) -> Self:
        """Add a delete; see `Client.delete`."""
        return self._add(self._scope.delete_request(path, version), path)

    def set(self, path: str, data: bytes, *, version: int = -1) -> Self:
        """Add a set; see `Client.set`."""
        return self._add(self._scope.set_request(path, data, version), path)

    def check(self, path: str, *, version: int = -1) -> Self:
        """Add the condition that a znode exists and has the version (-1: any)."""
        return self._add(self._scope.check_request(path, version), path)

    def commit(self) -> PendingReply[list[TransactionResult]]:
        """Send the transaction, whose answer has a path, a `Stat` or None for each operation.

        After a lost connection, it may or may not have been applied.
        """
        self._was_tried = True
        if not self._ops:
            raise ConfigurationError("transaction: needs at least one operation")
        if self._sent:
            raise UsageError("the transaction was sent already: make a new one")
        self._core.check_home()
        self._sent = True
        body = Multi(tuple(self._ops)).encode()
        reply: PendingReply[list[TransactionResult]] = PendingReply(
            OpCode.MULTI,
            body,
            self._parse,
            path=self._paths[0],
            kind=WRITE,
        )
        reply.ephemerals = tuple(
            op.path + DIGITS if CreateMode(op.flags).is_sequential else op.path
            for op in self._ops
            if isinstance(op, Create) and CreateMode(op.flags).is_ephemeral
        )
        reply.is_users = self._is_users
        return self._core.submit(reply)

    def __await__(self) -> Generator[Any, Any, list[TransactionResult]]:
        return self.commit().__await__()

    def _parse(self, r: Reader) -> list[TransactionResult]:
        results = multi_parser(self._ops, self._paths)(r)
        ephemerals = self._core.machine.ephemerals
        for op, result in zip(self._ops, results, strict=True):
            match op, result:
                case Delete(path), _:
                    ephemerals.gone(path)
                case Create(flags=flags), CreateReply(path) | PathReply(path):
                    if CreateMode(flags).is_ephemeral:
                        ephemerals.created(path)
        return [self._result(result) for result in results]

    def _result(self, result: MultiResult) -> TransactionResult:
        match result:
            case CreateReply(path) | PathReply(path):
                return self._scope.strip(path)
            case StatReply(stat):
                return stat
            case _:
                return None


T = TypeVar("T")


class Fence:
    """Writes that the server applies only while the guarding znode exists.

    Each raises `Fenced`, with nothing applied, if it does not; otherwise what the same call of the
    client raises.

    Each write is a transaction that begins with a check of the guard, so the ensemble itself
    refuses it once the guard is gone: no clock is involved. A fence is good only for the session
    that it was made in: later, a znode of the guard's name may be another contender's, since
    sequence numbers start again with the path. No request crosses from one session to the next, so
    a look at the call is enough.

    Threads and forks: as the client.
    """

    def __init__(self, core: Core, scope: Scope, guard: str, gone: Callable[[], bool]) -> None:
        self._core = core
        self._scope = scope
        self._guard = guard
        self._gone = gone
        self._session_id = core.machine.session_id

    def transaction(self) -> FencedTransaction:
        """See `Client.transaction`."""
        return FencedTransaction(self._core, self._scope, self._guard, self._is_gone)

    def _is_gone(self) -> bool:
        return self._core.machine.session_id != self._session_id or self._gone()

    async def create(
        self,
        path: str,
        data: bytes = b"",
        *,
        mode: CreateMode = CreateMode.PERSISTENT,
        acl: Sequence[ACL] | None = None,
        ttl: float | None = None,
    ) -> str:
        """See `Client.create`; returns the znode's path."""
        result = await self._one(self.transaction().create(path, data, mode=mode, acl=acl, ttl=ttl))
        assert isinstance(result, str)
        return result

    async def set(self, path: str, data: bytes, *, version: int = -1) -> Stat:
        """See `Client.set`."""
        result = await self._one(self.transaction().set(path, data, version=version))
        assert isinstance(result, Stat)
        return result

    async def delete(self, path: str, *, version: int = -1) -> None:
        """See `Client.delete`."""
        await self._one(self.transaction().delete(path, version=version))

    async def _one(self, transaction: FencedTransaction) -> TransactionResult:
        try:
            (result,) = await transaction
        except TransactionError as error:
            # The caller asked for one write, so it gets the error of that write.
            raise error.cause from None
        return result


class FencedTransaction(Transaction):
    """A transaction that begins with the guard's check; raises `Fenced` without the guard."""

    _own = 1

    def __init__(self, core: Core, scope: Scope, guard: str, gone: Callable[[], bool]) -> None:
        super().__init__(core, scope)
        self._is_users = True  # also of `held.fenced()`, which a recipe's client makes
        self._guard = guard
        self._gone = gone
        self.check(guard)

    def commit(self) -> PendingReply[list[TransactionResult]]:
        self._was_tried = True
        if len(self._ops) == self._own:
            raise ConfigurationError("transaction: needs at least one operation")
        self._core.check_home()
        if not self._gone():
            return super().commit()
        refused: PendingReply[list[TransactionResult]] = PendingReply(
            OpCode.MULTI, b"", self._parse
        )
        refused.fail(Fenced(self._guard))
        return refused

    def _parse(self, r: Reader) -> list[TransactionResult]:
        # The check of the guard is ours: neither results nor errors count it.
        try:
            return super()._parse(r)[1:]
        except TransactionError as error:
            if error.index > 0:
                raise TransactionError(error.index - 1, error.results[1:]) from None
            if isinstance(error.cause, NoNodeError):
                raise Fenced(self._guard) from None
            raise error.cause from None


ReadResult = tuple[bytes, Stat] | list[str] | ServerError
"""Data and `Stat` for a get, names for a get_children; or the error of that read."""


class Reads:
    """Several reads, sent as one request (ZooKeeper 3.6).

    For instance `data, names = await client.reads().get("/a").get_children("/b")`. No write comes
    between them. Awaiting sends them, once; the result has one entry per read: its result, or the
    `ServerError` that it failed with (`NoNodeError`, `NoAuthError`), which is not raised.
    Cancellation abandons the answers. On connection loss they are sent again, if the next server
    supports it. Raises `UnsupportedError` if the server is older, or does not report its version.

    Threads and forks: as `Transaction`.
    """

    def __init__(self, core: Core, scope: Scope) -> None:
        self._core = core
        self._scope = scope
        self._ops: list[ReadOp] = []
        self._paths: list[str] = []
        self._sent = False

    def get(self, path: str) -> Self:
        """Add a read of a znode's data and `Stat`."""
        return self._add(GetData(self._scope.full(path)), path)

    def get_children(self, path: str) -> Self:
        """Add a read of the names of a znode's children."""
        return self._add(GetChildren(self._scope.full(path), op=OpCode.GET_CHILDREN), path)

    def __await__(self) -> Generator[Any, Any, list[ReadResult]]:
        return self._read().__await__()

    def _add(self, op: ReadOp, path: str) -> Self:
        self._check_unsent()
        self._ops.append(op)
        self._paths.append(path)
        return self

    def _check_unsent(self) -> None:
        if self._sent:
            raise UsageError("the reads were sent already: make new ones")

    async def _read(self) -> list[ReadResult]:
        if not self._ops:
            raise ConfigurationError("reads: needs at least one read")
        self._check_unsent()
        self._core.check_home()
        self._sent = True
        request = MultiRead(tuple(self._ops))
        make = bound_read(
            OpCode.MULTI_READ, request, self._parse, self._paths[0], self._parse_in_steps
        )
        return await read_with(self._core, Feature.MULTI_READ, make)

    def _parse(self, r: Reader) -> list[ReadResult]:
        return self._results(MultiReadReply.read(r, len(self._ops)).results)

    def _parse_in_steps(self, r: LongReader) -> Steps[list[ReadResult]]:
        return self._results((yield from r.reads_in_steps(len(self._ops))))

    def _results(self, answers: Sequence[Answer]) -> list[ReadResult]:
        if len(answers) != len(self._ops):
            raise RemoteWireError(f"{len(answers)} results for {len(self._ops)} reads")
        return [
            _result(op, path, answer)
            for op, path, answer in zip(self._ops, self._paths, answers, strict=True)
        ]


def _result(op: ReadOp, path: str, answer: Answer) -> ReadResult:
    match op, answer:
        case _, ErrorResult(code):
            error = server_error(code, path)
            if not isinstance(error, ServerError):
                raise error  # of the session, so of all reads
            return error
        case GetData(), DataReply(data, stat):
            return data or b"", stat
        case GetChildren(), NamesReply(names):
            return list(names)
        case _:
            raise RemoteWireError("the result of another read than the one that was asked for")
