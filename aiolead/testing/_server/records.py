"""Records that only a server writes: answers that our client never asks for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..._wire.codes import OpCode
from ..._wire.jute import Writer
from ..._wire.packets import Record
from ...errors import ServerError


@dataclass(frozen=True, slots=True)
class NumberReply:
    """To `GET_ALL_CHILDREN_NUMBER`, and to `ADD_WATCH`, where it is always 0."""

    number: int

    def write(self, w: Writer) -> None:
        w.i32(self.number)


@dataclass(frozen=True, slots=True)
class WhoAmIReply:
    """To `WHO_AM_I`: schemes with the names of the users."""

    users: Sequence[tuple[str, str]]

    def write(self, w: Writer) -> None:
        w.i32(len(self.users))
        for scheme, user in self.users:
            w.text(scheme)
            w.text(user)


@dataclass(frozen=True, slots=True)
class NoTokenReply:
    """To `SASL`, where none is configured: a null instead of a token."""

    def write(self, w: Writer) -> None:
        w.i32(-1)


@dataclass(frozen=True, slots=True)
class MultiReadReply:
    """To `MULTI_READ`: each result with the operation that it answers."""

    results: Sequence[tuple[int, Record | ServerError]]

    def write(self, w: Writer) -> None:
        for op, result in self.results:
            failed = isinstance(result, ServerError)
            code = result.code if isinstance(result, ServerError) else 0
            w.i32(OpCode.ERROR if failed else op)
            w.flag(False)
            w.i32(code)
            if isinstance(result, ServerError):
                w.i32(code)
            else:
                result.write(w)
        w.i32(-1)
        w.flag(True)
        w.i32(-1)
