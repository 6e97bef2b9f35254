"""Records that only a server writes: answers that our client never asks for."""

from __future__ import annotations

from dataclasses import dataclass

from ..._wire.jute import Record, Writer


@dataclass(slots=True)
class NoTokenReply(Record):
    """To `SASL`, where none is configured: a null instead of a token."""

    def write(self, w: Writer) -> None:
        w.i32(-1)
