"""A server on a real port that answers as the test tells it to, in a thread: for processes."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from aiolead._wire.framing import FrameReader, encode_record
from aiolead._wire.handshake import ConnectRequest, ConnectResponse
from aiolead._wire.jute import Reader
from aiolead._wire.requests import RequestHeader

Answer = Callable[[RequestHeader], bytes | None]
"""From the header of a request to what is sent for it, None for nothing."""


class HostileServer:
    """Serves sessions over TCP, each connection in a thread of its own.

    Args:
        answer: what it says to requests.
        grant: the session timeout that it grants, in milliseconds.

    Attributes:
        connect_string: where it listens.
        was_asked: set with each request; for tests that wait for one.
    """

    def __init__(self, answer: Answer, grant: int) -> None:
        self._answer = answer
        self._grant = grant
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self.was_asked = threading.Event()
        self.connect_string = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        for each in (self._listener, *self._open):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                stream, _ = self._listener.accept()
                self._open.append(stream)
                threading.Thread(target=self._serve, args=(stream,), daemon=True).start()

    def _serve(self, stream: socket.socket) -> None:
        frames, is_greeted = FrameReader(1 << 24), False
        with suppress(OSError), stream:
            while data := stream.recv(65536):
                for frame in frames.feed(data):
                    if not is_greeted:
                        is_greeted = True
                        asked = ConnectRequest.read(Reader(frame))
                        session = asked.session_id or 7
                        granted = ConnectResponse(self._grant, session, bytes(16))
                        stream.sendall(encode_record(granted))
                    else:
                        said = self._answer(RequestHeader.read(Reader(frame)))
                        self.was_asked.set()
                        if said is not None:
                            stream.sendall(said)


@contextmanager
def hostile_server(answer: Answer, *, grant: int = 10_000) -> Iterator[HostileServer]:
    """A `HostileServer` for a block."""
    server = HostileServer(answer, grant)
    try:
        yield server
    finally:
        server.close()
