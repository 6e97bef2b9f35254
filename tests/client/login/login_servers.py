"""Servers that clients have to log in to: the embedded one, and real ones."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from client.login.certificates import Authority, Pem

from aiolead.testing import EmbeddedServer
from aiolead.testing.launch import LOOPBACK, free_ports, wait_until
from aiolead.testing.servers import BlockingServer

ANY = "0.0.0.0"

DIGEST_MODULE = "org.apache.zookeeper.server.auth.DigestLoginModule"
SASL_PROVIDER = "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"
NETTY = "org.apache.zookeeper.server.NettyServerCnxnFactory"


@dataclass(frozen=True, slots=True)
class Ports:
    """Of a server with TLS, on this machine."""

    secure: int
    plain: int


def listens(port: int) -> bool:
    """Whether anybody takes connections on a port of this machine."""
    try:
        socket.create_connection((LOOPBACK, port), 1).close()
    except OSError:
        return False
    return True


@contextmanager
def tls_server(kind: str, authority: Authority, pem: Pem, folder: Path) -> Iterator[Ports]:
    """A server whose secure port asks for a client's certificate, but does not insist."""
    if kind == "embedded":
        context = authority.server_context(pem, wants_client=True, insists=False)
        with (
            EmbeddedServer.in_thread(host=ANY, ssl_context=context) as secure,
            EmbeddedServer.in_thread() as plain,
        ):
            yield Ports(secure.port, plain.port)
        return
    store = folder / f"server-{pem.cert.name}"
    store.write_bytes(pem.key.read_bytes() + pem.cert.read_bytes())
    (secure_port,) = free_ports(1)
    settings = {
        "serverCnxnFactory": NETTY,
        "secureClientPort": secure_port,
        "secureClientPortAddress": ANY,
        "ssl.keyStore.location": store,
        "ssl.keyStore.type": "PEM",
        "ssl.trustStore.location": authority.pem,
        "ssl.trustStore.type": "PEM",
        "ssl.clientAuth": "want",
    }
    with BlockingServer(extra=settings) as server:
        # It serves on its plain port before it listens on the other.
        assert wait_until(lambda: listens(secure_port), 20)
        yield Ports(secure_port, server.port)


@contextmanager
def digest_server(kind: str, users: Mapping[str, str], folder: Path) -> Iterator[str]:
    """A server with SASL's DIGEST-MD5; its connect string."""
    if kind == "embedded":
        with EmbeddedServer.in_thread(sasl_users=users) as server:
            yield server.connect_string
        return
    entries = "".join(f' user_{user}="{_escaped(word)}"' for user, word in users.items())
    jaas = folder / "jaas.conf"
    jaas.write_text(f"Server {{ {DIGEST_MODULE} required{entries}; }};\n", "utf-8")
    with jaas_server(jaas) as connect_string:
        yield connect_string


@contextmanager
def jaas_server(jaas: Path, *java_options: str) -> Iterator[str]:
    """A real server with SASL as the file says; its connect string."""
    with BlockingServer(
        extra={"authProvider.sasl": SASL_PROVIDER},
        java_options=[f"-Djava.security.auth.login.config={jaas}", *java_options],
    ) as server:
        yield server.connect_string


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
