"""`aiolead dashboard` as a process, on an embedded server."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPResponse
from urllib.parse import urlsplit

from kit.cli import WITHIN, Command
from kit.raw_client import SESSION

from aiolead.testing import EmbeddedServer, ThreadedServer

EPHEMERAL_SEQUENTIAL = 3
"""The flags of a contender's znode."""


@dataclass
class Served:
    """A dashboard that runs, with the URL that it has printed."""

    url: str
    zookeeper: ThreadedServer
    command: Command

    @property
    def port(self) -> int:
        port = urlsplit(self.url).port
        assert port is not None
        return port

    def told_token(self) -> str:
        """The token that it has made up, as it says on standard error."""
        told = self.command.err.expect("token=").string
        return re.split(r"token=|[\s\"]", told[told.index("token=") :])[1]

    def ask(
        self, target: str = "/", method: str = "GET", body: bytes | None = None, **headers: str
    ) -> tuple[HTTPResponse, bytes]:
        """Sends a request on a connection of its own. `Host` is an ordinary header."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=WITHIN)
        try:
            connection.putrequest(method, target, skip_host=True, skip_accept_encoding=True)
            for name, value in {"Host": f"127.0.0.1:{self.port}", **headers}.items():
                connection.putheader(name.replace("_", "-"), value)
            if body is not None:
                connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body)
            response = connection.getresponse()
            return response, response.read()
        finally:
            connection.close()

    def status(self, target: str = "/", method: str = "GET", **headers: str) -> int:
        return self.ask(target, method, **headers)[0].status

    def say(self, request: bytes) -> bytes:
        """Sends any bytes; returns the answer."""
        with socket.create_connection(("127.0.0.1", self.port), WITHIN) as link:
            link.sendall(request)
            link.shutdown(socket.SHUT_WR)
            answer = b""
            while data := link.recv(65536):
                answer += data
            return answer


@contextmanager
def served(*arguments: str, **env: str) -> Iterator[Served]:
    with EmbeddedServer.in_thread(max_session_timeout=SESSION) as zookeeper:
        hosts = zookeeper.connect_string
        with Command("dashboard", *arguments, "--json", hosts=hosts, env=env) as command:
            url = json.loads(command.out.expect("url").string)["url"]
            yield Served(url, zookeeper, command)
