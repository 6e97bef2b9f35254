"""Sets to which all holders add, by reading, changing and writing them back.

A holder that writes back an old set takes the elements of others away: an *update is lost*. Three
stores show what a lock is worth:

* a plain file accepts every write: nothing is lost as long as no two hold;
* a `TokenStore` refuses a smaller fencing token than it has seen: a confirmed element is never
  lost, even if a holder was stopped for a while and does not know it;
* a znode that is written by `fenced()`: the ensemble itself refuses.
"""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Self

import anyio
from anyio.streams.buffered import BufferedByteReceiveStream

from aiolead.testing.history import History

_MOST = 1 << 20
"""The longest message, in bytes."""


class Refused(Exception):
    """The store has seen a larger token."""


class PlainSet:
    """A set in a file. It is replaced as a whole, so that no reader sees half of it."""

    def __init__(self, path: str, writer: str) -> None:
        self._path = Path(path)
        self._draft = Path(f"{path}.{writer}")

    def read(self) -> list[str]:
        """The elements; none if there is no file yet."""
        try:
            return self._path.read_text("utf-8").split()
        except FileNotFoundError:
            return []

    def write(self, elements: list[str]) -> None:
        self._draft.write_text("".join(f"{element}\n" for element in elements), "utf-8")
        self._draft.replace(self._path)


class TokenStore:
    """A set behind a Unix socket that refuses smaller tokens than it has seen.

    Reading shows the token, too: what was read by an older holder before a newer one has read, it
    may not write any more. A context manager; serves in threads of its own.

    Args:
        path: of the socket.
        chronicle: where it reports accepted and refused requests.
        line: the queue of its holders.

    Attributes:
        elements: its content.
        refusals: how often it has refused.
    """

    def __init__(self, path: str, chronicle: History, line: str) -> None:
        self.elements: list[str] = []
        self.refusals = 0
        self._token = 0
        self._chronicle = chronicle
        self._line = line
        self._lock = threading.Lock()
        store = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                order = json.loads(self.rfile.readline(_MOST))
                self.wfile.write(json.dumps(store._serve(order)).encode() + b"\n")

        class Server(socketserver.ThreadingUnixStreamServer):
            daemon_threads = True

            def handle_error(self, request: object, client_address: object) -> None:
                """A holder that is killed breaks its link in the middle: that is no news."""

        self._server = Server(path, Handler)
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.05,), name="token-store", daemon=True
        )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _serve(self, order: Mapping[str, object]) -> dict[str, object]:
        who, token, elements = str(order["who"]), order["token"], order.get("elements")
        assert isinstance(token, int)
        what = "reads" if elements is None else "writes"
        with self._lock:
            accepted = token >= self._token
            # Here, since only the store knows the order in which it took what it was sent.
            self._chronicle.acted(self._line, who, token, what, accepted=accepted)
            if not accepted:
                self.refusals += 1
                return {"refused": self._token}
            self._token = token
            if isinstance(elements, list):
                self.elements = elements
            return {"elements": self.elements}


class StoreLink:
    """A holder's way to a `TokenStore`."""

    def __init__(self, path: str, who: str, token: int) -> None:
        self._path = path
        self._order = {"who": who, "token": token}

    async def read(self) -> list[str]:
        """The elements.

        Raises:
            Refused: a larger token was seen.
        """
        return await self._ask(self._order)

    async def write(self, elements: list[str]) -> None:
        """Replaces the elements.

        Raises:
            Refused: a larger token was seen.
        """
        await self._ask({**self._order, "elements": elements})

    async def _ask(self, order: Mapping[str, object]) -> list[str]:
        async with await anyio.connect_unix(self._path) as stream:
            await stream.send(json.dumps(order).encode() + b"\n")
            reply = json.loads(await BufferedByteReceiveStream(stream).receive_until(b"\n", _MOST))
        if "refused" in reply:
            raise Refused(f"{self._order['token']} is below {reply['refused']}")
        elements: list[str] = reply["elements"]
        return elements
