"""Several reads in one request, answered as of one moment."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Self

from ..._wire.codes import OpCode
from ..._wire.jute import Reader
from ..._wire.refusal import server_error
from ..._wire.replies import DataReply, ErrorResult, MultiReadReply, NamesReply
from ..._wire.replies import ReadResult as Answer
from ..._wire.requests import GetChildren, GetData, MultiRead, ReadOp
from ..._wire.versions import Feature
from ...errors import ConfigurationError, RemoteWireError, ServerError, UsageError
from ...model import Stat
from ..core import Core
from .operations import Scope
from .server_features import bound_read, read_with

ReadResult = tuple[bytes, Stat] | list[str] | ServerError
"""Data and `Stat` for a get, names for a get_children; or the error of that read."""


class Reads:
    """Several reads, sent as one request (ZooKeeper 3.6).

    For instance `data, names = await client.reads().get("/a").get_children("/b")`. No write comes
    between them. Awaiting sends them, once; the result has one entry per read: its result, or the
    `ServerError` that it failed with (`NoNodeError`, `NoAuthError`), which is not raised.
    Cancellation abandons the answers. On connection loss they are sent again, if the next server
    supports it. Raises `UnsupportedError` if the server is older, or does not report its version.
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
        self._sent = True
        request = MultiRead(tuple(self._ops))
        make = bound_read(OpCode.MULTI_READ, request, self._parse, self._paths[0])
        return await read_with(self._core, Feature.MULTI_READ, make)

    def _parse(self, r: Reader) -> list[ReadResult]:
        answers = MultiReadReply.read(r).results
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
