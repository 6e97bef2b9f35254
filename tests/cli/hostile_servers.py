"""Servers on real ports that answer whatever a test wants, for commands in other processes."""

from __future__ import annotations

import random
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Self

ESCAPES = "\x1b[2J\x1b]0;owned\x07\x9b31m\u202e\u2028\r\x00\x7f"
"""Characters that move a cursor, name a window, forge lines or reverse the direction of writing."""

Behaviour = Callable[["Link"], None]
"""Serves a connection. It may raise `OSError`; then the connection is closed."""


class Link:
    """One connection of a hostile server."""

    def __init__(self, connection: socket.socket, closed: threading.Event) -> None:
        self._socket = connection
        self._closed = closed

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def receive(self) -> bytes:
        """Some bytes; raises `OSError` at the end of the stream."""
        data = self._socket.recv(65536)
        if not data:
            raise ConnectionResetError
        return data

    def exactly(self, size: int) -> bytes:
        data = self._socket.recv(size, socket.MSG_WAITALL)
        if len(data) < size:
            raise ConnectionResetError
        return data

    def frame(self) -> bytes:
        """The next frame of ZooKeeper's protocol."""
        return self.exactly(struct.unpack(">i", self.exactly(4))[0])

    def send_frame(self, body: bytes) -> None:
        self.send(struct.pack(">i", len(body)) + body)

    @contextmanager
    def secured(self, context: ssl.SSLContext) -> Iterator[Link]:
        """The same connection over TLS, as the server."""
        with context.wrap_socket(self._socket, server_side=True) as secured:
            yield Link(secured, self._closed)

    def pause(self, seconds: float) -> None:
        """Waits; raises `OSError` if the server is closed in the meantime."""
        if self._closed.wait(seconds):
            raise ConnectionAbortedError


class HostileServer:
    """Serves each connection in a thread of its own. A context manager.

    Args:
        behave: serves each connection, which is closed afterwards.

    Attributes:
        was_asked: set once a client has sent something.
    """

    def __init__(self, behave: Behaviour) -> None:
        self._behave = behave
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.hosts = f"127.0.0.1:{self.port}"
        self.was_asked = threading.Event()
        self._closed = threading.Event()
        self._links: set[socket.socket] = set()
        self._threads = [threading.Thread(target=self._serve)]

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        # Only a shutdown wakes up the threads that accept or receive.
        for each in [self._listener, *self._links]:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        for thread in list(self._threads):
            thread.join(30)
            assert not thread.is_alive()
        self._listener.close()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                thread = threading.Thread(target=self._converse, args=(connection,))
                self._links.add(connection)
                self._threads.append(thread)
                thread.start()

    def _converse(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            if connection.recv(1, socket.MSG_PEEK):
                self.was_asked.set()
                self._behave(Link(connection, self._closed))
                connection.shutdown(socket.SHUT_WR)
        self._links.discard(connection)


# --- behaviours ----------------------------------------------------------------------------------


def answering(by_question: Mapping[str, str]) -> Behaviour:
    """Answers the beginnings of questions, and closes the connection."""

    def behave(link: Link) -> None:
        question = link.receive()
        for beginning, answer in by_question.items():
            if question.startswith(beginning.encode()):
                link.send(answer.encode())
                return

    return behave


def close(_link: Link) -> None:
    """Closes the connection."""


def silence(link: Link) -> None:
    """Reads everything, and answers nothing."""
    while True:
        link.receive()


def noise(link: Link) -> None:
    """Sends random bytes, and closes the connection."""
    link.send(random.Random(1).randbytes(1 << 16))


def flood(link: Link) -> None:
    """Sends random bytes without an end."""
    data = random.Random(2).randbytes(1 << 16)
    while True:
        link.send(data)


def lines_without_end(link: Link) -> None:
    """Sends text that looks like the beginning of an answer, without an end."""
    link.send(f"Zookeeper version: 3.9.9{ESCAPES}\nMode: leader\n".encode())
    while True:
        link.send(b" /127.0.0.1:1[0](sid=" * 1000 + b"\n")


def drip(link: Link) -> None:
    """Sends one byte after the other."""
    while True:
        link.send(b"Z")
        link.pause(0.02)


def http(link: Link) -> None:
    """Answers as a web server does that does not understand the request."""
    link.receive()
    body = f"<html>{ESCAPES}</html>".encode()
    link.send(b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/html\r\n\r\n" + body)


HOSTILE_SRVR = (
    f"Zookeeper version: 3.9.2{ESCAPES}, built on {ESCAPES}\n"
    f"Latency min/avg/max: 0/{ESCAPES}9/7\n"
    f"Connections: {'9' * 5000}\nZxid: 0x{'f' * 5000}\nMode: leader\nNode count: {ESCAPES}\n"
)
HOSTILE_MNTR = (
    f"zk_version\t{'9' * 5000}.1\nzk_server_state\tleader\nzk_synced_followers\t{'9' * 5000}\n"
    f"zk_quorum_size\t-3\nzk_open_file_descriptor_count\t{'9' * 5000}\n"
    f"zk_max_file_descriptor_count\t\u00b2\nzk_num_alive_connections\t{ESCAPES}\n"
)
HOSTILE_CONF = (
    f"tickTime={'9' * 400}\nsyncLimit=\u00b2\nminSessionTimeout=-1\nmaxSessionTimeout={ESCAPES}\n"
)
HOSTILE_WORDS: Mapping[bytes, bytes] = {
    b"srvr": HOSTILE_SRVR.encode("utf-8", "surrogateescape"),
    b"mntr": HOSTILE_MNTR.encode(),
    b"conf": HOSTILE_CONF.encode(),
    b"cons": b" /" + b"a[1](" * 16_000 + b"\n \xff\n",
    b"dump": b"Session Sets:\n" + b" \n" * 40_000 + b"0x" + b"f" * 5000 + b"\n",
}

DEEP = b"[" * 100_000 + b"]" * 100_000
LATE = b"Fri, 31 Dec 99999 23:59:59 GMT"
HOSTILE_JSON: tuple[bytes, ...] = (
    b'{"command": "monitor", "error": null, "version": ' + DEEP + b"}",
    b'{"command": "monitor", "error": null, "synced_followers": ' + b"9" * 5000 + b"}",
    b'{"command": "monitor", "error": ' + f'"{ESCAPES[:4]}'.encode() + b'"}',
    b'{"command": "x", "error": "\\u001b[2J\\u202e' + b"x" * 5000 + b'"}',
    b'{"command": "monitor", "tick_time": {"a": ["\\ud800"]}, "quorum_size": 1e999}',
    b'{"command": "monitor", "tick_time": "\\u001b[2J", "quorum_size": [1], "version": true}',
    b"\xff\xfe",
    b"[]",
)
"""Answers of hostile admin servers."""


def admin(body: bytes, date: bytes = LATE) -> Behaviour:
    """An admin server that answers every request with a body, and an absurd date."""

    def behave(link: Link) -> None:
        link.receive()
        head = b"HTTP/1.0 200 OK\r\nDate: " + date + b"\r\n\x1b[2J: \x1b[2J\r\n\r\n"
        link.send(head + body)

    return behave


# --- ZooKeeper's protocol ------------------------------------------------------------------------

_STAT = struct.pack(">qqqqiiiqiiq", -1, 1 << 62, -(1 << 63), (1 << 63) - 1, *[-1] * 3, 7, 9, -9, -1)
_NAMES = [f"lock-{ESCAPES}0000000001", "lock-0000000002", ESCAPES, "", "/", "..", "x" * 5000]


def _text(value: str) -> bytes:
    data = value.encode()
    return struct.pack(">i", len(data)) + data


def _texts(values: list[str]) -> bytes:
    return struct.pack(">i", len(values)) + b"".join(map(_text, values))


_DATA = _text(ESCAPES + "\udbff".encode("utf-8", "replace").decode() + "n" * 3000)
_ANSWERS: Mapping[int, bytes] = {
    1: _text(f"/l/{ESCAPES}"),  # create
    3: _STAT,  # exists
    4: _DATA + _STAT,  # get
    5: _STAT,  # set
    6: struct.pack(">i", 1) + struct.pack(">i", 31) + _text(ESCAPES) * 2 + _STAT,  # get ACL
    8: _texts(_NAMES),  # children
    9: _text("/"),  # sync
    12: _texts(_NAMES) + _STAT,  # children, and the stat
    15: _text(f"/l/{ESCAPES}") + _STAT,  # create2
    106: struct.pack(">i", 0),  # add a watch
    107: struct.pack(">i", 1) + _text(ESCAPES) * 2,  # whoami
}


def _greet(link: Link, request: bytes, grant: int | None = None) -> None:
    """Answers a handshake as a server does."""
    timeout = struct.unpack(">iqiq", request[:24])[2] if grant is None else grant
    link.send_frame(struct.pack(">iiq", 0, timeout, 0x7F) + _text("p" * 16) + b"\0")


def granting(timeout: int, was_asked: threading.Event) -> Behaviour:
    """Grants sessions of a timeout in milliseconds, and answers no request."""

    def behave(link: Link) -> None:
        _greet(link, link.frame(), timeout)
        link.frame()
        was_asked.set()
        silence(link)

    return behave


def hanging_up(link: Link) -> None:
    """Grants sessions, and closes the connection at each request."""
    _greet(link, link.frame())
    link.frame()


def _speak(label: str, answer: Callable[[int], tuple[int, bytes]]) -> Behaviour:
    """Answers words with hostile values, and speaks ZooKeeper's protocol.

    Args:
        label: its name in test ids.
        answer: the error and the body for a request, by its operation.
    """

    def behave(link: Link) -> None:
        word = link.exactly(4)
        if word in HOSTILE_WORDS:
            link.send(HOSTILE_WORDS[word])
            return
        _greet(link, link.exactly(struct.unpack(">i", word)[0]))
        # An event that the client has not asked for.
        link.send_frame(struct.pack(">iqiii", -1, -1, 0, 3, 3) + _text(f"/{ESCAPES}"))
        while True:
            xid, op = struct.unpack(">ii", link.frame()[:8])
            error, body = answer(op)
            link.send_frame(struct.pack(">iqi", xid, 1 << 62, error) + body)
            if op == -11:
                return

    behave.__name__ = label
    return behave


names = _speak("names", lambda op: (0, _ANSWERS.get(op, b"")))
"""Answers that are well formed, with hostile values."""

errors = _speak("errors", lambda op: (0, b"") if op in (11, -11) else (-31337, b""))
"""Unknown error codes."""

_random = random.Random(3)
garbage = _speak("garbage", lambda op: (0, b"") if op in (11, -11) else (0, _random.randbytes(200)))
"""Answers of random bytes."""

lengths = _speak("lengths", lambda op: (0, b"\x7f\xff\xff\xff" * 8))
"""Answers that claim to be longer than they are."""


def before(port: int, words: Mapping[bytes, bytes]) -> Behaviour:
    """Answers words itself, and passes everything else on to the real server at a port."""

    def pass_on(behind: socket.socket, link: Link) -> None:
        with suppress(OSError):
            while data := behind.recv(65536):
                link.send(data)

    def behave(link: Link) -> None:
        first = link.receive()
        if first in words:
            link.send(words[first])
            return
        with socket.create_connection(("127.0.0.1", port)) as behind:
            replies = threading.Thread(target=pass_on, args=(behind, link))
            replies.start()
            try:
                while True:
                    behind.sendall(first)
                    first = link.receive()
            finally:
                with suppress(OSError):
                    behind.shutdown(socket.SHUT_RDWR)
                replies.join()

    return behave
