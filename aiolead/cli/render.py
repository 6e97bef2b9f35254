"""How values become text and JSON: safe for a terminal, whatever a znode contains. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from .._util import parsing
from .._util.escaping import escaped as escaped  # the whole command imports it from here
from .._util.escaping import lasting
from .._util.parsing import MalformedError

if TYPE_CHECKING:
    from ..model import Stat

_UNSIGNED = (1 << 64) - 1
_INT64 = 1 << 63
LONGEST_SPAN = _INT64 / 1000
"""Longest time between two clocks, in seconds."""


def text_of(data: bytes) -> str | None:
    """Data as text; None if they are no text, or have controls other than white space."""
    try:
        text = parsing.text(data)
    except MalformedError:
        return None
    return None if any(ch < " " and ch not in "\t\n\r" for ch in text) else text


def preview(data: bytes, most: int = 60) -> str:
    """Data on one line of at most `most` characters: text, or the first bytes in hexadecimal."""
    text = text_of(data)
    if text is None:
        shown = data[: most // 2].hex()
        return f"0x{shown}{'…' if len(data) > most // 2 else ''} ({plural(len(data), 'byte')})"
    return shortened(text, most)


def shortened(text: str, most: int) -> str:
    """The first characters of a text, escaped."""
    return escaped(text[:most]) + ("…" if len(text) > most else "")


def hex_dump(data: bytes) -> Iterator[str]:
    """Bytes as `hexdump -C` shows them, sixteen on a line."""
    for offset in range(0, len(data), 16):
        row = data[offset : offset + 16]
        digits = f"{row[:8].hex(' ')}  {row[8:].hex(' ')}"
        letters = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        yield f"{offset:08x}  {digits:<48}  |{letters}|"


def plural(count: int, noun: str) -> str:
    """`1 byte`, `2 bytes`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def hexadecimal(number: int) -> str:
    """A session id, or a transaction id, as ZooKeeper writes it."""
    return f"{number & _UNSIGNED:#x}"


def session(owner: int) -> str | None:
    """A session id or a znode's owner, for JSON; None if there is no session."""
    return hexadecimal(owner) if owner else None


# --- times ---------------------------------------------------------------------------------------


def now() -> str:
    """The current time, in UTC, in ISO 8601."""
    return _iso(datetime.now(UTC))


def moment(milliseconds: int) -> str:
    """A time of a server's clock, in UTC, in ISO 8601; the number, if it is no time."""
    try:
        return _iso(datetime.fromtimestamp(milliseconds / 1000, UTC))
    except (OverflowError, ValueError, OSError):
        return parsing.shown(milliseconds)


def _iso(when: datetime) -> str:
    return when.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def seconds_since(milliseconds: int) -> float:
    """How long ago a server's time was by our clock; never less than 0."""
    at = max(-_INT64, min(milliseconds, _INT64 - 1)) / 1000
    return max(0.0, datetime.now(UTC).timestamp() - at)


def age(milliseconds: int) -> str:
    """How long ago a time of a server's clock was, by ours, in words."""
    return span(seconds_since(milliseconds))


def span(seconds: float) -> str:
    """A time in words, in two units at most."""
    return lasting(min(max(0.0, seconds), LONGEST_SPAN))


def rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)


# --- JSON ----------------------------------------------------------------------------------------


def as_json(value: Any) -> str:
    """A value as one line of ASCII: it can be read in any locale, and moves no cursor."""
    import json

    return json.dumps(value)


def stat_as_json(stat: Stat | None) -> dict[str, Any]:
    """A `Stat` for JSON: times as text, the owner in hexadecimal, or null; all null if unknown."""
    if stat is None:
        from ..model import Stat

        return dict.fromkeys(Stat._fields)
    return stat._asdict() | {
        "ctime": moment(stat.ctime),
        "mtime": moment(stat.mtime),
        "ephemeral_owner": session(stat.ephemeral_owner),
    }


def data_as_json(data: bytes) -> dict[str, Any]:
    """Data for JSON: as text, if they are text; else in base64."""
    try:
        return {"encoding": "utf-8", "data": parsing.text(data)}
    except MalformedError:
        import base64

        return {"encoding": "base64", "data": base64.b64encode(data).decode()}
