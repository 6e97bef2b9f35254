"""ClickHouse Keeper's rules in front of a real ZooKeeper: a second opinion on the embedded server.

It shares no code with the library or the embedded server. The rules are those of the published
source of ClickHouse Keeper (`KeeperTCPHandler.cpp`, `ZooKeeperConstants.h`):

* A first packet of 44 or 45 bytes is a handshake; anything else is a four-letter word.
* Each handshake begins a session. The answer has 36 bytes, without a password.
* An operation that is not known closes the connection and ends the session, and so does the end of
  the connection. Nothing is answered.
* The events of recursive watches have the path of the watch (ClickHouse issue 115475).
"""

from __future__ import annotations

import asyncio
import struct
import threading
from collections import Counter
from contextlib import suppress
from typing import Self

BASIC = frozenset({-11, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 14, 16, 22, 100})
WITH_WATCHES = BASIC | {15, 17, 18, 101, 105, 106}
GENERATIONS = {
    "24.8.4": BASIC,
    "26.3.9": WITH_WATCHES,
    "26.9.1": WITH_WATCHES | {19, 21},
}
"""The operations that each version knows."""

MULTI, ADD_WATCH, EVENT = 14, 106, -1
CLOSE_SESSION = struct.pack(">ii", 0x7FFFFFF0, -11)
CREATES = {1: 0, 15: 0, 19: 0, 21: 8}
"""The creates of a transaction, with the bytes behind their flags."""

HANDSHAKES = (44, 45)
NO_PASSWORD = bytes(16)


class KeeperRules:
    """A proxy in a thread of its own. `with KeeperRules(host, port, "24.8.4") as front:`

    Attributes:
        unknown: the operations that were not known, and cost their connections.
        requests: how often each operation was asked for.
        sessions: how many handshakes there were.
        says_version: whether it answers `srvr`.
    """

    def __init__(self, host: str, port: int, version: str) -> None:
        self._upstream = host, port
        self._version = version
        self._known = GENERATIONS[version]
        self.unknown: list[int] = []
        self.requests: Counter[int] = Counter()
        self.sessions = 0
        self.says_version = True
        self._port = 0
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._writers: set[asyncio.StreamWriter] = set()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)

    @property
    def connect_string(self) -> str:
        return f"127.0.0.1:{self._port}"

    def cut(self) -> None:
        """Close all connections of clients."""

        def abort() -> None:
            for writer in list(self._writers):
                writer.transport.abort()

        self._loop.call_soon_threadsafe(abort)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        self._stop = asyncio.Event()
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self._port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stop.wait()
        server.close()
        for writer in list(self._writers):
            writer.transport.abort()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            with suppress(asyncio.IncompleteReadError, ConnectionError):
                length = await reader.readexactly(4)
                if int.from_bytes(length) in HANDSHAKES:
                    await self._session(
                        await reader.readexactly(int.from_bytes(length)), reader, writer
                    )
                else:
                    writer.write(self._word(length))
                    await writer.drain()
        finally:
            self._writers.discard(writer)
            writer.close()

    def _word(self, word: bytes) -> bytes:
        state = "Zxid: 0x10\nMode: standalone\nNode count: 5\n"
        match word:
            case b"srvr" if self.says_version:
                return f"ClickHouse Keeper version: v{self._version}.1-lts-abc\n{state}".encode()
            case b"mntr" if self.says_version:
                return f"zk_version\tv{self._version}.1-lts-abc\n".encode()
            case b"ruok":
                return b"imok"
            case _:
                return b""

    async def _session(
        self, hello: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        timeout = struct.unpack_from(">i", hello, 12)[0]
        up_reader, up_writer = await asyncio.open_connection(*self._upstream)
        try:
            greeting = struct.pack(">iqiqi", 0, 0, timeout, 0, 16) + NO_PASSWORD + b"\0"
            up_writer.write(_framed(greeting))
            _, granted, session = struct.unpack_from(">iiq", await _frame(up_reader))
            writer.write(_framed(struct.pack(">iiqi", 0, granted, session, 16) + NO_PASSWORD))
            self.sessions += 1
            recursive: set[str] = set()
            back = asyncio.create_task(_answer(up_reader, writer, recursive))
            try:
                with suppress(asyncio.IncompleteReadError, ConnectionError):
                    while not back.done() and await self._forward(reader, up_writer, recursive):
                        pass
            finally:
                back.cancel()
                await asyncio.wait([back])
            # A Keeper ends the session, a ZooKeeper has to be asked.
            up_writer.write(_framed(CLOSE_SESSION))
            with suppress(asyncio.IncompleteReadError, ConnectionError, TimeoutError):
                async with asyncio.timeout(5):
                    while True:
                        await _frame(up_reader)
        finally:
            up_writer.close()

    async def _forward(
        self, reader: asyncio.StreamReader, up: asyncio.StreamWriter, recursive: set[str]
    ) -> bool:
        request = await _frame(reader)
        op = struct.unpack_from(">i", request, 4)[0]
        self.requests[op] += 1
        for each in (op, *(_ops_within(request) if op == MULTI else ())):
            if each not in self._known:
                self.unknown.append(each)
                return False
        if op == ADD_WATCH and struct.unpack(">i", request[-4:])[0] == 1:
            recursive.add(request[12:-4].decode())
        up.write(_framed(request))
        await up.drain()
        return True


async def _answer(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, recursive: set[str]
) -> None:
    try:
        while True:
            answer = await _frame(reader)
            if recursive and struct.unpack_from(">i", answer)[0] == EVENT:
                path = answer[28:].decode()
                for watched in recursive:
                    if path.startswith(watched.rstrip("/") + "/"):
                        answer = answer[:24] + _framed(watched.encode())
            writer.write(_framed(answer))
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.transport.abort()


def _ops_within(request: bytes) -> list[int]:
    """The operations of a transaction."""
    ops: list[int] = []
    at = 8

    def text() -> None:
        nonlocal at
        (length,) = struct.unpack_from(">i", request, at)
        at += 4 + max(0, length)

    while True:
        op, is_end, _ = struct.unpack_from(">i?i", request, at)
        at += 9
        if is_end:
            return ops
        ops.append(op)
        text()
        if op in CREATES:
            text()
            (entries,) = struct.unpack_from(">i", request, at)
            at += 4
            for _ in range(entries):
                at += 4
                text()
                text()
            at += 4 + CREATES[op]
        else:  # a delete, a check, or a set
            if op == 5:
                text()
            at += 4


async def _frame(reader: asyncio.StreamReader) -> bytes:
    length = int.from_bytes(await reader.readexactly(4))
    return await reader.readexactly(length)


def _framed(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data
