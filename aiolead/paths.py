"""ZooKeeper paths and connect strings: checking, joining, parsing. Pure."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ._util.parsing import shown
from .errors import InvalidConnectStringError, InvalidPathError

__all__ = [
    "ConnectString",
    "basename",
    "join",
    "parent",
    "parse_connect_string",
    "sequence_of",
    "validate",
]

DEFAULT_PORT = 2181

# The patterns that are text are compiled at their first use: few programs need them, and compiling
# takes a millisecond.

# Refused by ZooKeeper's PathUtils.validatePath: C0 and C1 controls, surrogates with the private use
# area behind them, and the specials. To Java, characters beyond the plane are surrogates, too.
_FORBIDDEN = "[\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\U0010ffff]"

# Components that no path has: empty ones, `.` and `..`.
_RESERVED = r"/\.{0,2}(?=/|\Z)"

is_plain: Callable[[str], re.Match[str] | None] = re.compile(
    r"(?:/[A-Za-z0-9_-][A-Za-z0-9_.-]*)+"
).fullmatch
"""Matches nearly every valid path, which saves the other checks."""

# Servers format the counter, a signed 32-bit integer, with `%010d`: ten digits, or after the wrap a
# sign with nine digits, or ten that do not begin with 0. A dash between a letter or digit and ten
# digits is a separator, not a sign (`lock-1234567890`); one after another mark is a sign
# (`lock--1234567890`, `__lock__-1234567890`).
_SUFFIX = r"(?:(?<![^\W_])-[12][0-9]{9}|(?<![0-9])-[0-9]{9}|[0-9]{10})\Z"


class ListedPath(str):
    """A name or path that a server has listed although ZooKeeper would refuse to create it.

    Other servers allow control characters, for instance. Such a znode can be read and deleted, so
    `validate` accepts its path, but nothing is created with it. Parts and joins keep the type.
    """

    __slots__ = ()


def as_listed(names: Sequence[str]) -> list[str]:
    """Mark names of children from a server's listing; see `ListedPath`."""
    joined = "/" + "/".join(names)
    # All at once: one by one, a single accent would make a long listing five times as slow.
    if is_plain(joined) or not (re.search(_FORBIDDEN, joined) or re.search(_RESERVED, joined)):
        return list(names)
    return [name if _is_valid(f"/{name}") else ListedPath(name) for name in names]


def told_path(path: str) -> str:
    """Mark a path from a server's answer; see `ListedPath`."""
    return path if _is_valid(path) else ListedPath(path)


def _is_valid(path: str) -> bool:
    """Whether `validate` accepts a path, without the cost of its error."""
    if path == "/" or isinstance(path, ListedPath):
        return True
    has_reserved = not path.startswith("/") or re.search(_RESERVED, path)
    return not (has_reserved or re.search(_FORBIDDEN, path))


def validate(path: object, *, name: str = "path") -> str:
    """Return the path if a server would accept it, or has listed it (`ListedPath`).

    Args:
        path: an absolute path, such as `/app/leader`.
        name: the argument's name in the error.

    Raises:
        InvalidPathError: it is not a `str`, not absolute, ends in a slash, or has an empty, `.` or
            `..` component or a character that ZooKeeper refuses.
    """
    if not isinstance(path, str):
        raise InvalidPathError(f"{name}: must be a str, not {type(path).__name__}")
    if is_plain(path) or isinstance(path, ListedPath):
        return path
    if not path.startswith("/"):
        raise InvalidPathError(f"{name}: must start with '/', not {path!r}")
    if path == "/":
        return path
    if path.endswith("/"):
        raise InvalidPathError(f"{name}: must not end with '/': {path!r}")
    for component in path[1:].split("/"):
        if component in ("", ".", ".."):
            raise InvalidPathError(f"{name}: has the component {component!r}: {path!r}")
    if bad := re.search(_FORBIDDEN, path):
        raise InvalidPathError(
            f"{name}: the character {bad.group()!r} at {bad.start()} is not allowed: {path!r}"
        )
    return path


def join(base: str, child: str) -> str:
    """The path of a child: `/a` and `b` give `/a/b`, `/` and `b` give `/b`."""
    path = f"/{child}" if base == "/" else f"{base}/{child}"
    is_listed = isinstance(child, ListedPath) or isinstance(base, ListedPath)
    return ListedPath(path) if is_listed else path


def parent(path: str) -> str:
    """The parent's path; the root is its own parent."""
    above = path.rpartition("/")[0] or "/"
    return told_path(above) if isinstance(path, ListedPath) else above


def basename(path: str) -> str:
    """The part after the last slash."""
    name = path.rpartition("/")[2]
    return as_listed([name])[0] if isinstance(path, ListedPath) else name


def sequence_of(name: str) -> int | None:
    """The number at the end of a name, or None. Beyond 31 bits, servers write negative ones."""
    digits = name[-10:]
    if digits.startswith("0") and len(digits) == 10 and digits.isdigit() and digits.isascii():
        return int(digits)  # below 10^9 it has no sign: no search
    match = re.search(_SUFFIX, name)
    return int(match.group()) if match else None


@dataclass(frozen=True, slots=True)
class ConnectString:
    """A parsed connect string.

    Attributes:
        hosts: names or addresses with their ports, in the order given.
        chroot: the path that is the client's root; empty for the whole tree.
    """

    hosts: tuple[tuple[str, int], ...]
    chroot: str = ""

    def __str__(self) -> str:
        return ",".join(format_host(host, port) for host, port in self.hosts) + self.chroot


def format_host(host: str, port: int) -> str:
    """`host:port`, with brackets around an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def parse_connect_string(text: object, *, name: str = "hosts") -> ConnectString:
    """Parse `host[:port][,host[:port]...][/chroot]`, with IPv6 addresses in brackets.

    Args:
        text: that, or a list of its parts, of which the last may have the chroot.
        name: the argument, for messages.

    Raises:
        InvalidConnectStringError: with the part that is wrong and what is allowed.
        InvalidPathError: the chroot is not a valid path.
    """
    if isinstance(text, (list, tuple)) and text and all(isinstance(part, str) for part in text):
        text = ",".join(text)
    if not isinstance(text, str):
        raise InvalidConnectStringError(
            f"{name}: must be a str or a list of str, not {type(text).__name__}"
        )
    if scheme := _scheme(text):
        raise InvalidConnectStringError(
            f"{name}: a connect string is no URL and has no {scheme!r}: write "
            f"{EXAMPLE!r}, not {_shown(text)!r}"
        )
    servers, slash, rest = text.partition("/")
    if "@" in servers or ("@" in rest and _looks_cut(servers)):
        raise InvalidConnectStringError(
            f"{name}: a connect string has no user or password (`auth=` and `sasl=` take them): "
            f"write {EXAMPLE!r}, not {_shown(text)!r}"
        )
    if slash and "," in rest:
        raise InvalidConnectStringError(
            f"{name}: the chroot stands once, after the last server: {text!r}"
        )
    chroot = validate("/" + rest, name=f"{name} (chroot)") if slash else ""
    if servers.strip() and servers[-1:].isspace() and slash:
        raise InvalidConnectStringError(
            f"{name}: there is a space before the chroot: write {EXAMPLE!r}, not {text!r}"
        )
    hosts = tuple(_parse_host(part.strip(), text, name) for part in servers.split(","))
    return ConnectString(hosts, "" if chroot == "/" else chroot)


EXAMPLE = "host:2181,host2:2181/chroot"
"""The example in error messages."""

_SCHEME_END = r"[A-Za-z][A-Za-z0-9+.-]{0,30}\Z"


def _scheme(text: str) -> str:
    """The URL scheme of the text with its `://`; empty if it has none.

    Not one regular expression: its search takes minutes for a megabyte of letters.
    """
    begin, mark, _ = text.partition("://")
    match = re.search(_SCHEME_END, begin[-31:]) if mark else None
    return match.group() + mark if match else ""


def _shown(text: str) -> str:
    """The connect string for an error message, without a possible password."""
    begin = text[: text.index("://") + 3] if _scheme(text) else ""
    rest = text[len(begin) :]
    return f"{begin}***@{rest.rpartition('@')[2]}" if "@" in rest else text


def _looks_cut(servers: str) -> bool:
    """Whether the text before the first slash may be a user with half of a password."""
    last = servers.rpartition(",")[2]
    _, colon, port = last.rpartition(":")
    return bool(colon) and not port.endswith("]") and not re.fullmatch(_PORT, port)


_HOST = re.compile(
    r"(?:\[(?P<v6>[0-9A-Fa-f:.]+(?:%[\w.-]+)?)\]|(?P<host>(?:[A-Za-z0-9_.-]|[^\x00-\x7f\s])+))"
    r"(?::(?P<port>[^:]*))?"
)
_PORT = r"[0-9]{1,5}"


def _parse_host(part: str, text: str, name: str) -> tuple[str, int]:
    match = _HOST.fullmatch(part)
    if match is None or (match["v6"] and not _is_ipv6(match["v6"])):
        hint = "expected host:port"
        if ";" in part or " " in part:
            hint = f"commas separate servers: {EXAMPLE}"
        elif part.count(":") > 1:
            hint = "write IPv6 addresses as [::1]:2181"
        raise InvalidConnectStringError(f"{name}: {part!r} is no server ({hint}): {text!r}")
    port_text = match["port"]
    if port_text is None:
        port = DEFAULT_PORT
    else:
        port = int(port_text) if re.fullmatch(_PORT, port_text) else 0
        if not 0 < port < 65536:
            raise InvalidConnectStringError(
                f"{name}: {shown(port_text)} is no port (1 to 65535): {text!r}"
            )
    return match["v6"] or match["host"], port


def _is_ipv6(text: str) -> bool:
    try:
        ipaddress.IPv6Address(text)
    except ipaddress.AddressValueError:
        return False
    return True
