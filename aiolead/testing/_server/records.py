"""Records that only a server writes: answers that our client never asks for."""

from __future__ import annotations

from dataclasses import dataclass

from ..._wire.jute import Writer


@dataclass(frozen=True, slots=True)
class NoTokenReply:
    """To `SASL`, where none is configured: a null instead of a token."""

    def write(self, w: Writer) -> None:
        w.i32(-1)
