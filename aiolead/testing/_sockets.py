"""TCP on plain sockets, for what anyio's streams do not offer: pausing accept, closing by RST."""

from __future__ import annotations

import ipaddress
import socket
import struct

import anyio
from anyio.lowlevel import cancel_shielded_checkpoint, checkpoint_if_cancelled

# l_onoff and l_linger of `struct linger`: a close then sends RST instead of FIN.
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)

BACKLOG = 128


class SocketStream:
    """One accepted connection. Has one reader and one writer at most."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = sock

    async def receive(self, max_bytes: int = 65536) -> bytes:
        """Waits for at least one byte.

        Raises:
            EndOfStream: the client will send no more.
            BrokenResourceError: the connection is gone.
        """
        await checkpoint_if_cancelled()
        while True:
            try:
                data = self._socket.recv(max_bytes)
            except (BlockingIOError, InterruptedError):
                await anyio.wait_readable(self._socket)
            except OSError as error:
                raise anyio.BrokenResourceError from error
            else:
                # A peer that sends without end must not keep other connections waiting.
                await cancel_shielded_checkpoint()
                if not data:
                    raise anyio.EndOfStream
                return data

    async def send(self, data: bytes) -> None:
        """Sends all of it.

        Raises:
            BrokenResourceError: the connection is gone.
        """
        view = memoryview(data)
        await checkpoint_if_cancelled()
        while view:
            try:
                view = view[self._socket.send(view) :]
            except (BlockingIOError, InterruptedError):
                await anyio.wait_writable(self._socket)
            except OSError as error:
                raise anyio.BrokenResourceError from error

    def close(self) -> None:
        """Closes with FIN, unless there is something unread: then the system sends RST."""
        if self._socket.fileno() >= 0:
            anyio.notify_closing(self._socket)
            self._socket.close()

    def reset(self) -> None:
        """Closes with RST."""
        if self._socket.fileno() >= 0:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            self.close()


class Listener:
    """A listening socket."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock

    @classmethod
    async def open(cls, host: str, port: int) -> Listener:
        """Listens on the first address of the host; port 0 takes a free one.

        Raises:
            OSError: the port is taken, or the host unknown.
        """
        found = await anyio.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        family, kind, protocol, _, address = found[0]
        sock = socket.socket(family, kind, protocol)
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.setblocking(False)
            sock.bind(address)
            sock.listen(BACKLOG)
        except BaseException:
            sock.close()
            raise
        return cls(sock)

    @property
    def port(self) -> int:
        port: int = self._socket.getsockname()[1]
        return port

    @property
    def is_local(self) -> bool:
        """Whether nobody but this machine reaches it."""
        address = str(self._socket.getsockname()[0]).partition("%")[0]
        return ipaddress.ip_address(address).is_loopback

    async def accept(self) -> tuple[SocketStream, str]:
        """The next connection, with the client's address.

        Raises:
            ClosedResourceError: the listener was closed.
            OSError: no connection could be taken, for want of descriptors perhaps.
        """
        while True:
            if self._socket.fileno() < 0:
                raise anyio.ClosedResourceError
            try:
                sock, address = self._socket.accept()
            except (BlockingIOError, InterruptedError):
                await anyio.wait_readable(self._socket)
            except ConnectionAbortedError:
                continue
            else:
                return SocketStream(sock), str(address[0])

    def close(self) -> None:
        if self._socket.fileno() >= 0:
            anyio.notify_closing(self._socket)
            self._socket.close()
