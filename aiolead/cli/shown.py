"""How values are shown: safe for a terminal, whatever was written into a znode. Pure."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any

from .. import _parsing
from .._escaping import escaped
from .._parsing import MalformedError
from ..model import Stat

__all__ = [
    "age",
    "as_json",
    "data_as_json",
    "escaped",
    "hex_dump",
    "hexadecimal",
    "moment",
    "now",
    "plural",
    "preview",
    "seconds_since",
    "shortened",
    "span",
    "stat_as_json",
    "text_of",
]

_UNSIGNED = (1 << 64) - 1
_INT64 = 1 << 63
LONGEST_SPAN = _INT64 / 1000
"""In seconds: more than that no two clocks can be apart."""


def text_of(data: bytes) -> str | None:
    """The text that some data are; None if they are none.

    What has controls in it, but for white space, is none: no text format does.
    """
    try:
        text = _parsing.text(data)
    except MalformedError:
        return None
    return None if any(ch < " " and ch not in "\t\n\r" for ch in text) else text


def preview(data: bytes, most: int = 60) -> str:
    """What some data are, on one line: text, or the first bytes in hexadecimal.

    Args:
        data: the data.
        most: how many characters to show.
    """
    text = text_of(data)
    if text is None:
        shown = data[: most // 2].hex()
        return f"0x{shown}{'…' if len(data) > most // 2 else ''} ({plural(len(data), 'byte')})"
    return shortened(text, most)


def shortened(text: str, most: int) -> str:
    """The beginning of a text, escaped: so many characters of it at most."""
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
    """A session id, or a transaction id, as ZooKeeper itself writes it."""
    return f"{number & _UNSIGNED:#x}"


def now() -> str:
    """This moment, in UTC, as ISO 8601 has it."""
    return _iso(datetime.now(UTC))


def moment(milliseconds: int) -> str:
    """A moment of a server's clock, in UTC, as ISO 8601 has it; the number, if it is none."""
    try:
        return _iso(datetime.fromtimestamp(milliseconds / 1000, UTC))
    except (OverflowError, ValueError, OSError):
        return _parsing.shown(milliseconds)


def _iso(when: datetime) -> str:
    return when.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def seconds_since(milliseconds: int) -> float:
    """How long ago a moment of a server's clock was, by ours; never less than 0."""
    at = max(-_INT64, min(milliseconds, _INT64 - 1)) / 1000
    return max(0.0, datetime.now(UTC).timestamp() - at)


def age(milliseconds: int) -> str:
    """How long ago a moment of a server's clock was, by ours, in words."""
    return span(seconds_since(milliseconds))


def span(seconds: float) -> str:
    """A time in words, in two units at most."""
    whole = int(min(max(0.0, seconds), LONGEST_SPAN))
    for unit, name, below in ((86400, "d", 3600), (3600, "h", 60), (60, "min", 1)):
        if whole >= unit:
            rest = whole % unit // below
            names = {3600: "h", 60: "min", 1: "s"}
            return f"{whole // unit} {name} {rest} {names[below]}"
    return f"{whole} s"


# --- JSON --------------------------------------------------------------------------------------


def as_json(value: Any) -> str:
    """A value as one line of ASCII: it can be read whatever the locale, and moves no cursor."""
    return json.dumps(value)


def stat_as_json(stat: Stat | None) -> dict[str, Any]:
    """A `Stat` for JSON: times as text, the owner in hexadecimal, or null; all null if unknown."""
    if stat is None:
        return dict.fromkeys(each.name for each in fields(Stat))
    owner = stat.ephemeral_owner
    return {
        "czxid": stat.czxid,
        "mzxid": stat.mzxid,
        "pzxid": stat.pzxid,
        "ctime": moment(stat.ctime),
        "mtime": moment(stat.mtime),
        "version": stat.version,
        "cversion": stat.cversion,
        "aversion": stat.aversion,
        "ephemeral_owner": hexadecimal(owner) if owner else None,
        "data_length": stat.data_length,
        "num_children": stat.num_children,
    }


def data_as_json(data: bytes) -> dict[str, Any]:
    """Data for JSON: as text, if they are text; else in base64."""
    try:
        return {"encoding": "utf-8", "data": _parsing.text(data)}
    except MalformedError:
        return {"encoding": "base64", "data": base64.b64encode(data).decode()}
