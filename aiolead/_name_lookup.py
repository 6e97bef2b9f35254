"""Looks up names in daemon threads, which neither an event loop nor the process waits for.

A resolver without its servers takes half a minute. An event loop's own threads cannot be abandoned:
`asyncio.run` waits for the default executor, uvloop for libuv's threads.
"""

from __future__ import annotations

import ipaddress
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

import anyio

from ._tasks import trio_here

T = TypeVar("T")


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


async def in_daemon_thread(function: Callable[[], T], name: str) -> T:
    """Call a function in a new daemon thread; return its result, or raise its exception.

    Cancellation: abandons the thread.
    """
    tell = _loop_caller()
    ended = anyio.Event()
    results: list[T] = []
    failures: list[BaseException] = []

    def run() -> None:
        try:
            results.append(function())
        except BaseException as error:  # raised where it is awaited
            failures.append(error)
        with suppress(RuntimeError):  # the event loop has ended
            tell(ended.set)

    threading.Thread(target=run, name=name, daemon=True).start()
    await ended.wait()
    if failures:
        raise failures.pop()  # a list of frames that refer to it would be a cycle
    return results[0]


def _loop_caller() -> Callable[[Callable[[], object]], object]:
    """The function by which other threads have the running event loop call something."""
    trio = trio_here()
    caller: Callable[[Callable[[], object]], object]
    if trio is not None:
        caller = trio.lowlevel.current_trio_token().run_sync_soon
    else:
        caller = sys.modules["asyncio"].get_running_loop().call_soon_threadsafe
    return caller
