"""A network between the peers and the servers: passes bytes on, late if told so, and cuts.

A process of its own with one thread and nothing in it but sockets, so that it costs little; its
cost is measured in each run. `select` is used because it keeps time to the microsecond, where
`epoll` counts milliseconds; so it serves some 500 connections at most.

    python -m benchmarks.forwarder 127.0.0.1:2181 127.0.0.1:2182

prints the ports that lead there, and obeys lines: `delay SECONDS` (each way), `reset`, `fin` (of
all connections); each is answered with the moment at which it was done.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
import os
import select
import socket
import struct
import subprocess
import sys
import time
from collections import deque
from types import TracebackType
from typing import Self

_CHUNK = 1 << 18
_RESET = struct.pack("ii", 1, 0)


class _End:
    """One end of a connection, and what is on its way to it."""

    __slots__ = ("backlog", "is_over", "other", "socket", "waiting")

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket = sock
        self.other: _End
        self.waiting: deque[bytes] = deque()
        self.backlog = b""
        self.is_over = False

    def fileno(self) -> int:
        return self.socket.fileno()


class Loop:
    """The main function of the process."""

    def __init__(self, targets: list[tuple[str, int]]) -> None:
        self._targets: dict[socket.socket, tuple[str, int]] = {}
        for target in targets:
            self._targets[socket.create_server(("127.0.0.1", 0), backlog=512)] = target
        self._delay = 0.0
        self._ends: set[_End] = set()
        self._due: list[tuple[float, int, _End, bytes]] = []
        self._numbers = itertools.count()

    @property
    def ports(self) -> list[int]:
        return [listener.getsockname()[1] for listener in self._targets]

    def run(self) -> None:
        """Until the input ends."""
        while True:
            timeout = max(self._due[0][0] - time.monotonic(), 0.0) if self._due else None
            blocked = [end for end in self._ends if end.backlog]
            readers = [0, *self._targets, *(end for end in self._ends if not end.is_over)]
            readable, writable, _ = select.select(readers, blocked, (), timeout)
            for each in readable:
                if isinstance(each, _End):
                    self._read(each)
                elif isinstance(each, socket.socket):
                    self._accept(each)
                elif not self._obey():
                    return
            for end in writable:
                self._write(end, b"")
            now = time.monotonic()
            while self._due and self._due[0][0] <= now:
                _, _, end, data = heapq.heappop(self._due)
                self._deliver(end, data)

    def _accept(self, listener: socket.socket) -> None:
        client = _End(listener.accept()[0])
        try:
            server = _End(socket.create_connection(self._targets[listener]))
        except OSError:
            client.socket.close()
            return
        client.other, server.other = server, client
        self._ends |= {client, server}

    def _read(self, end: _End) -> None:
        if end not in self._ends:
            return
        try:
            data = end.socket.recv(_CHUNK)
        except BlockingIOError:
            return
        except OSError:
            self._cut(end, reset=True)
            return
        if not data:
            end.is_over = True
        if self._delay:
            due = time.monotonic() + self._delay
            heapq.heappush(self._due, (due, next(self._numbers), end.other, data))
        else:
            self._deliver(end.other, data)

    def _deliver(self, end: _End, data: bytes) -> None:
        if end not in self._ends:
            return
        if data:
            self._write(end, data)
        else:
            self._cut(end, reset=False)

    def _write(self, end: _End, data: bytes) -> None:
        data = end.backlog + data
        try:
            sent = end.socket.send(data)
        except BlockingIOError:
            sent = 0
        except OSError:
            self._cut(end, reset=True)
            return
        end.backlog = data[sent:]

    def _cut(self, end: _End, *, reset: bool) -> None:
        for each in (end, end.other):
            self._ends.discard(each)
            if reset:
                with contextlib.suppress(OSError):
                    each.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            each.socket.close()

    def _obey(self) -> bool:
        words = os.read(0, 4096).decode().split()
        if not words:
            return False
        match words:
            case ["delay", seconds]:
                self._delay = float(seconds)
            case ["reset" | "fin" as how]:
                while self._ends:
                    self._cut(next(iter(self._ends)), reset=how == "reset")
        sys.stdout.write(f"{time.monotonic_ns()}\n")
        sys.stdout.flush()
        return True


class Forwarder:
    """The process, from outside. A context manager.

    Args:
        hosts: a connect string.
    """

    def __init__(self, hosts: str) -> None:
        self._hosts = hosts

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.forwarder", *self._hosts.split(",")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        ports = self._process.stdout.readline().split()
        self.hosts = ",".join(f"127.0.0.1:{port}" for port in ports)
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with self._process as process:
            process.kill()

    def tell(self, command: str) -> int:
        """Has it do something; when it was done, in nanoseconds of the monotonic clock."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(command + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())


def main() -> None:
    split = (each.rpartition(":") for each in sys.argv[1:])
    loop = Loop([(host, int(port)) for host, _, port in split])
    sys.stdout.write(" ".join(map(str, loop.ports)) + "\n")
    sys.stdout.flush()
    loop.run()


if __name__ == "__main__":
    main()
