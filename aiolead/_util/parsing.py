"""Parsing untrusted data: znodes, servers' answers, files. All raise one error.

Every function takes linear time, and returns a value within documented bounds or raises
`MalformedError`: never `OverflowError`, `RecursionError`, `UnicodeError` or a plain `ValueError`.
Callers turn it into `InvalidDataError` (znodes) or `RemoteWireError` (protocol). `int`, `float`,
`bytes.decode` and `json.loads` see such data nowhere else (tests/parsing/test_parsers.py).
"""

from __future__ import annotations

import functools
import math
import re
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    import json

MAX_DEPTH = 64
"""The deepest nesting of JSON: low enough for Python to show, compare and copy the value, too."""

MAX_DIGITS = 300
"""The most digits of an integer in JSON: each such number is finite as a `float`."""

_SHOWN = 80  # characters of the data in an error
_LONGEST_DATE = 100  # characters: HTTP's dates have 29, old ones a few more
_INT64 = 1 << 63
_TOO_LONG = 10**MAX_DIGITS  # the first number with one digit too many

# Compiled at their first use, which few programs come to.
_DECIMAL = r"[+-]?[0-9]{1,300}"
_HEXADECIMAL = r"(?:0[xX])?([0-9a-fA-F]{1,16})"
_FRACTION = r"[+-]?[0-9]{1,300}(?:\.[0-9]{0,300})?(?:[eE][+-]?[0-9]{1,3})?"


class MalformedError(ValueError):
    """The data is not what was expected. The message is one short line."""


def text(data: bytes) -> str:
    """Decode UTF-8."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise MalformedError(f"is not UTF-8: {error.reason} at byte {error.start}") from None


def lossy_text(data: bytes) -> str:
    """Decode UTF-8 for display, with U+FFFD for invalid bytes."""
    return data.decode(errors="replace")


def whole(said: str | bytes, *, least: int = -_INT64, most: int = _INT64 - 1) -> int:
    """Parse decimal digits, with or without a sign, and with white space around them.

    `least` and `most` bound the number; neither has more than `MAX_DIGITS` digits.
    """
    digits = _ascii(said)
    if re.fullmatch(_DECIMAL, digits) is None:
        raise MalformedError(f"must be a whole number, not {shown(said)}")
    number = int(digits)
    if not least <= number <= most:
        raise MalformedError(f"must be from {least} to {most}, not {shown(number)}")
    return number


def hexadecimal(said: str | bytes) -> int:
    """Parse an unsigned 64-bit integer in hexadecimal digits, with or without `0x`."""
    match = re.fullmatch(_HEXADECIMAL, _ascii(said))
    if match is None:
        raise MalformedError(f"must be a hexadecimal number, not {shown(said)}")
    return int(match[1], 16)


def fraction(said: str) -> float:
    """Parse a finite number in decimal digits, optionally with a point and an exponent."""
    digits = _ascii(said)
    number = float(digits) if re.fullmatch(_FRACTION, digits) else math.nan
    if not math.isfinite(number):
        raise MalformedError(f"must be a number, not {shown(said)}")
    return number


def real(value: object) -> float:
    """A finite number from JSON as a `float`. A bool is not a number."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if math.isfinite(number):
            return number
    raise MalformedError(f"must be a finite number, not {shown(value)}")


def json_value(data: bytes) -> Any:
    """Decode JSON: UTF-8, finite numbers, no lone surrogates, at most `MAX_DEPTH` deep."""
    try:
        value = _decoder().decode(text(data))
    except MalformedError:
        raise
    except RecursionError:
        raise MalformedError("is nested too deeply") from None
    except ValueError as error:
        raise MalformedError(f"is no JSON: {error}") from None
    check_json(value)
    return value


def json_object(data: bytes) -> dict[str, Any]:
    """Decode a JSON object: see `json_value`."""
    value = json_value(data)
    if not isinstance(value, dict):
        raise MalformedError(f"must be a JSON object, not {type(value).__name__}")
    return value


def check_json(value: object) -> None:
    """Raise `MalformedError` for a value of JSON's types that `json_value` would refuse.

    Refused are deep nesting, text that UTF-8 cannot encode, and numbers that are not finite or have
    more than `MAX_DIGITS` digits.
    """
    level, depth = [value], 0
    while level:
        if depth > MAX_DEPTH:
            raise MalformedError(f"is nested too deeply: at most {MAX_DEPTH} levels are allowed")
        below: list[object] = []
        for each in level:
            if isinstance(each, str):
                _check_unicode(each)
            elif isinstance(each, dict):
                below += each.keys()
                below += each.values()
            elif isinstance(each, (list, tuple)):
                below += each
            elif isinstance(each, int):
                if not -_TOO_LONG < each < _TOO_LONG:
                    raise MalformedError(f"has a number of more than {MAX_DIGITS} digits")
            elif isinstance(each, float) and not math.isfinite(each):
                raise MalformedError(f"has {each}, which is no JSON")
        level, depth = below, depth + 1


def base64_data(said: object) -> bytes:
    """Decode base64: the usual alphabet, without white space."""
    import binascii

    if not isinstance(said, str):
        raise MalformedError(f"must be text in base64, not {shown(said)}")
    try:
        return binascii.a2b_base64(said, strict_mode=True)
    except ValueError as error:
        raise MalformedError(f"is no base64: {error}") from None


def http_date(said: str) -> float:
    """Parse a date of HTTP; return seconds since 1970."""
    from email.utils import parsedate_to_datetime

    try:
        if len(said) > _LONGEST_DATE:
            raise ValueError
        return parsedate_to_datetime(said).timestamp()
    except (ValueError, TypeError, IndexError, OverflowError, OSError):
        raise MalformedError(f"must be a date, not {shown(said)}") from None


def shown(value: object) -> str:
    """The beginning of the data for an error message: printable, on one line."""
    if isinstance(value, (str, bytes, bytearray)):
        rest = "..." if len(value) > _SHOWN else ""
        return repr(value[:_SHOWN]) + rest
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 1 << 256:
        return "a number of more than 77 digits"
    if value is None or isinstance(value, (bool, int, float)):
        return repr(value)
    return f"a {type(value).__name__}"


def _ascii(said: str | bytes) -> str:
    """Stripped text; non-ASCII bytes become characters that no pattern matches."""
    return (said.decode("latin-1") if isinstance(said, bytes) else said).strip(" \t\r\n")


def _check_unicode(said: str) -> None:
    if not said.isascii():
        try:
            said.encode()
        except UnicodeEncodeError:
            raise MalformedError(f"has text that is no Unicode: {shown(said)}") from None


# --- what the JSON decoder calls -------------------------------------------------------------


@functools.cache
def _decoder() -> json.JSONDecoder:
    from json import JSONDecoder

    return JSONDecoder(parse_int=_json_int, parse_float=_json_float, parse_constant=_json_constant)


def _json_int(digits: str) -> int:
    count = len(digits.removeprefix("-"))
    if count > MAX_DIGITS:
        raise MalformedError(f"has a number of {count} digits: at most {MAX_DIGITS}")
    return int(digits)


def _json_float(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise MalformedError(f"has a number that is too great: {shown(digits)}")
    return number


def _json_constant(name: str) -> NoReturn:
    raise MalformedError(f"has {name}, which is no JSON")
