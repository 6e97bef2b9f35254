"""What the bare clients of the tests can send."""

from __future__ import annotations

from typing import Protocol

from aiolead._wire.codes import OpCode
from aiolead._wire.jute import Writer


class Request(Protocol):
    """A request's body that knows its operation."""

    @property
    def op(self) -> OpCode: ...

    def write(self, w: Writer) -> None: ...
