"""Versions of ZooKeeper, and the answer to the word `srvr`, in which a server tells its own."""

from __future__ import annotations

import re

from .._parsing import shown, whole
from ..errors import ConfigurationError

Version = tuple[int, int, int]

SRVR = b"srvr"

NOT_SERVING = b"This ZooKeeper instance is not currently serving requests"
"""What a server says instead while it has no leader."""

_NUMBERS = r"([0-9]{1,5})\.([0-9]{1,5})(?:\.([0-9]{1,5}))?"
_ANSWER = re.compile(rb"Zookeeper version: " + _NUMBERS.encode())
_GIVEN = re.compile(_NUMBERS)


def told_version(answer: bytes) -> Version | None:
    """The version in an answer to `srvr`; None if there is none in it."""
    match = _ANSWER.match(answer)
    return _version(*match.groups()) if match else None


def parse_version(text: object, *, name: str) -> Version:
    """The version that a text such as "3.9" or "3.9.2" says.

    Raises:
        ConfigurationError: it says none.
    """
    match = _GIVEN.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        given = shown(text) if isinstance(text, int) else repr(text)
        raise ConfigurationError(f'{name}: must be a version such as "3.9", not {given}')
    return _version(*match.groups())


def _version(major: str | bytes, minor: str | bytes, patch: str | bytes | None) -> Version:
    return whole(major), whole(minor), whole(patch or "0")
