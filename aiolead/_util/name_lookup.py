"""Looks up names in daemon threads: a resolver without its servers takes half a minute."""

from __future__ import annotations

import ipaddress
import socket
from typing import Any

from .daemon_threads import in_daemon_thread


def is_literal(host: str) -> bool:
    """Whether a host is an address, with or without a zone, and no name."""
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True


async def look_up(host: str, port: int) -> list[str]:
    """Return the addresses of a host, in the order of the system's resolver, each once.

    An address is returned as it is, without a thread.

    Raises:
        OSError: there is no such name, or the resolver fails.
        ValueError: it cannot be a name.

    Cancellation: abandons the thread, which ends by itself.
    """
    if is_literal(host):
        return [host]
    found = await in_daemon_thread(lambda: _look_up(host, port), "aiolead-lookup")
    return list(dict.fromkeys(_address(info[4]) for info in found))


def _address(found: tuple[Any, ...]) -> str:
    address = str(found[0])
    if len(found) == 4 and found[3] and "%" not in address:  # IPv6, with a zone
        return f"{address}%{found[3]}"
    return address


def _look_up(host: str, port: int) -> list[Any]:
    name = host.encode("ascii") if host.isascii() else _as_ascii(host)
    return socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)


def _as_ascii(host: str) -> bytes:
    import idna  # takes a while; anyio depends on it

    encoded: bytes = idna.encode(host, uts46=True)
    return encoded
