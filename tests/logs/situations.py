"""Situations that an operator has to recognize, and the exact words for each: one table.

`test_situations.py` makes each of them for real, on sockets.
"""

from __future__ import annotations

import datetime
import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cli import hostile_servers as hostile
from cli.hostile_servers import Behaviour, HostileServer
from client.login.certificates import NAME, Authority
from kit.raw_client import RawClient

import aiolead
from aiolead.testing import EmbeddedServer

Q = "the server closed the connection at the handshake: it has no quorum, or too many connections"
"""The reason of a server that hangs up; a TLS client has excluded that it is a port for TLS."""

NOT_SERVED = "look at its log; `aiolead ensemble` shows whether the others have a leader"
NOT_SPOKEN_TO = "see the reasons above: without TLS, it is not asked"
WRONG_TLS = "is this the port for TLS? do --tls-ca and --tls-hostname fit its certificate?"
DOWN = "0 of 1 voters are up, quorum 1: there is no leader -> nothing can be written; start the "
DOWN += "servers that are down"
NO_TLS = "0 of 1 voters are up, quorum 1: there is no leader -> nothing is known: servers could not"
NO_TLS += " be asked over TLS"


@dataclass(frozen=True, slots=True)
class Scene:
    """Where to connect to find a situation.

    Attributes:
        hosts: the connect string.
        options: for `aiolead.connect`.
        arguments: the same for the command.
        env: the same in its environment.
        shown: texts that vary, and what stands for them in the table.
    """

    hosts: str
    options: dict[str, Any] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)
    shown: dict[str, str] = field(default_factory=dict)


MakeScene = Callable[[Path], AbstractContextManager[Scene]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """One row.

    Attributes:
        name: as the page lists it.
        scene: makes it; it may use a folder.
        why: the reason of a server that gives no session. The default for the three columns below,
            which have a text of their own where the server gives a session.
        log: each line of the log behind its level: `W` is shown by default, `I` at INFO.
        error: the error of `async with Lock(client, "/l")`; empty while that goes on trying.
        command: the exit code of run, lock, once, top and dashboard, and the line that they print.
        commands: which of them, where not all of them fail.
        doctor: the findings of the doctor that fail, with its advice behind an arrow.
    """

    name: str
    scene: MakeScene
    why: str = ""
    log: list[str] = field(default_factory=list)
    error: str = ""
    command: tuple[int, str] = (69, "")
    commands: tuple[str, ...] = ("run", "lock", "once", "top", "dashboard")
    doctor: list[str] = field(default_factory=list)

    @property
    def wanted_log(self) -> list[str]:
        return self.log or [f"W no server yet, trying: zk:N: {self.why}"]

    @property
    def wanted_command(self) -> tuple[int, list[str]]:
        code, text = self.command
        no_session = f"no session with zk:N within N s (zk:N: {self.why}); see: aiolead doctor"
        return code, [f"aiolead: {text or no_session}"]

    @property
    def wanted_doctor(self) -> list[str]:
        """Its findings; that there is no session has the reason of the row."""
        if not self.why:
            return self.doctor
        found = f"session: there is no session -> zk:N: {self.why}"
        return [each.replace("SESSION", found) for each in self.doctor]


# --- scenes --------------------------------------------------------------------------------------


def at(hosts: str) -> MakeScene:
    @contextmanager
    def scene(_folder: Path) -> Iterator[Scene]:
        yield Scene(hosts)

    return scene


def behaving(behave: Behaviour, *, session_timeout: float | None = None) -> MakeScene:
    """A port at which something answers."""

    @contextmanager
    def scene(_folder: Path) -> Iterator[Scene]:
        with HostileServer(behave) as server:
            if session_timeout is None:
                yield Scene(server.hosts)
            else:
                yield Scene(
                    server.hosts,
                    {"session_timeout": session_timeout},
                    ("--session-timeout", f"{session_timeout:g}"),
                )

    return scene


@contextmanager
def nobody(_folder: Path) -> Iterator[Scene]:
    # Bound, and not listening: no other program gets the port.
    with socket.socket() as port:
        port.bind(("127.0.0.1", 0))
        yield Scene(f"127.0.0.1:{port.getsockname()[1]}")


@contextmanager
def plain_port(folder: Path) -> Iterator[Scene]:
    ca = str(Authority(folder).pem)
    with EmbeddedServer.in_thread() as server:
        tls = aiolead.TLS(ca=ca)
        yield Scene(server.connect_string, {"tls": tls}, ("--tls-ca", ca))


def tls_port(
    *names: str,
    tls: bool = True,
    trusted: bool = True,
    wants_client: bool = False,
    client: str = "",
    expires: datetime.datetime | None = None,
) -> MakeScene:
    """A port for TLS.

    Args:
        *names: in its certificate; by default those that fit.
        tls: whether the client uses TLS.
        trusted: whether the client trusts the server's authority.
        wants_client: whether the server wants a certificate of the client.
        client: the name in the certificate that the client has from an authority of its own.
        expires: when the server's certificate has ended.
    """

    @contextmanager
    def scene(folder: Path) -> Iterator[Scene]:
        theirs, other = Authority(folder, "theirs"), Authority(folder, "other")
        pem = theirs.issue(*names, expires=expires)
        context = theirs.server_context(pem, wants_client=wants_client)
        options: dict[str, Any] = {"ca": str((theirs if trusted else other).pem)}
        arguments = ["--tls-ca", options["ca"]]
        if client:
            own = other.issue(client)
            options |= {"cert": str(own.cert), "key": str(own.key)}
            arguments += ["--tls-cert", str(own.cert), "--tls-key", str(own.key)]
        with EmbeddedServer.in_thread(ssl_context=context) as server:
            if tls:
                wanted = {"tls": aiolead.TLS(**options)}
                yield Scene(server.connect_string, wanted, tuple(arguments))
            else:
                yield Scene(server.connect_string)

    return scene


def without_quorum(*, grants_sessions: bool) -> MakeScene:
    @contextmanager
    def scene(_folder: Path) -> Iterator[Scene]:
        with EmbeddedServer.in_thread() as server:
            server.set_read_only(True, grants_sessions=grants_sessions)
            yield Scene(server.connect_string)

    return scene


@contextmanager
def wrong_password(_folder: Path) -> Iterator[Scene]:
    with EmbeddedServer.in_thread(sasl_users={"anna": "right"}) as server:
        sasl = aiolead.SASL.digest_md5("anna", "open-sesame")
        env = {"AIOLEAD_SASL": "digest-md5:anna:open-sesame"}
        yield Scene(server.connect_string, {"sasl": sasl}, env=env)


@contextmanager
def login_wanted(_folder: Path) -> Iterator[Scene]:
    users = {"anna": "right"}
    with EmbeddedServer.in_thread(sasl_users=users, require_auth=["sasl"]) as server:
        yield Scene(server.connect_string)


@contextmanager
def forbidden_path(_folder: Path) -> Iterator[Scene]:
    owner = aiolead.Auth.digest("anna", "open-sesame")
    with EmbeddedServer.in_thread() as server:
        with RawClient(server.connect_string) as client:
            client.create("/l", acl=(owner.acl(),))
        yield Scene(server.connect_string)


# --- the table -----------------------------------------------------------------------------------

CONNECTED = "I connected to zk:N: session 0xN"


def no_quorum(answer: str) -> list[str]:
    """The findings where the only server gives no session, and an answer to `srvr`."""
    return ["SESSION", f"server: zk:N: {answer}", f"quorum: {DOWN}"]


def no_tls(why: str, first: str = "") -> list[str]:
    """The findings where no server can be asked over TLS; `first` is that of the handshake."""
    found = ["SESSION", f"server: zk:N: {why} -> {NOT_SPOKEN_TO}", f"quorum: {NO_TLS}"]
    return [f"tls: zk:N: {first} -> {WRONG_TLS}", *found] if first else found


def refused_certificate(why: str) -> list[str]:
    return no_tls("certificate verify failed", why)


NO_ZOOKEEPER = (
    "is no ZooKeeper server, by its answer -> is this the client port of a ZooKeeper server?"
)

SITUATIONS: list[Situation] = [
    Situation(
        name="wrong port",
        scene=nobody,
        why="Connection refused",
        doctor=[
            (
                "tcp: zk:N: Connection refused -> does the server run? is that its client port, "
                "and does it listen there?"
            ),
            "session: there is none: no server could be connected to",
        ],
    ),
    Situation(
        name="unknown name",
        scene=at("zk.invalid:2181"),
        why="Name or service not known",
        doctor=[
            (
                "dns: zk: Name or service not known -> is the name right? does this machine's "
                "resolver know it?"
            ),
            "session: there is none: no server could be connected to",
        ],
    ),
    Situation(
        name="silent server",
        scene=behaving(hostile.silence, session_timeout=2.0),
        why="no answer to the handshake in time",
        doctor=no_quorum(f"no answer within 3 s -> {NOT_SERVED}"),
    ),
    Situation(
        name="hang-up",
        scene=behaving(hostile.close),
        why=f"{Q}, or a port for TLS?",
        doctor=no_quorum(f"says nothing to srvr -> {NOT_SERVED}"),
    ),
    Situation(
        name="web server",
        scene=behaving(hostile.http),
        why="this is not ZooKeeper's protocol: it is an answer of an HTTP server, beginning with "
        "'HTTP/1.1 400 Bad Request': is this the port of a ZooKeeper server?",
        doctor=no_quorum(NO_ZOOKEEPER),
    ),
    Situation(
        name="unknown protocol",
        scene=behaving(hostile.noise),
        why="a frame of -172923614 bytes, where 0 to 67108864 are allowed: is this the port of a "
        "ZooKeeper server?",
        doctor=no_quorum(NO_ZOOKEEPER),
    ),
    Situation(
        name="plain text to a TLS port",
        scene=tls_port(tls=False),
        why=f"{Q}, or a port for TLS?",
        doctor=[
            "SESSION",
            (
                "server: zk:N: speaks TLS on this port, and does not answer plain text -> use "
                "--tls or --tls-ca FILE, or name its port for plain text"
            ),
            (
                "quorum: 0 of 1 voters are up, quorum 1: there is no leader -> nothing is known: "
                "servers were asked in plain text where they speak TLS"
            ),
        ],
    ),
    Situation(
        name="TLS to a plain port",
        scene=plain_port,
        why="TLS: the server closed the connection during the handshake: a plain-text port?",
        doctor=no_tls(*["the connection was closed during the handshake"] * 2),
    ),
    Situation(
        name="certificate of another host",
        scene=tls_port(NAME),
        why="TLS: the server's certificate was refused: IP address mismatch, certificate is not "
        "valid for '127.0.0.1': set server_hostname (--tls-hostname) if the servers have another "
        "name",
        doctor=refused_certificate(
            "IP address mismatch, certificate is not valid for '127.0.0.1'."
        ),
    ),
    Situation(
        name="unknown authority",
        scene=tls_port(trusted=False),
        why="TLS: the server's certificate was refused: unable to get local issuer certificate: "
        "set ca (--tls-ca) to the authority of the servers",
        doctor=refused_certificate("unable to get local issuer certificate"),
    ),
    Situation(
        name="expired certificate",
        scene=tls_port(expires=datetime.datetime(2021, 1, 1, tzinfo=datetime.UTC)),
        why="TLS: the server's certificate was refused: certificate has expired",
        doctor=refused_certificate("certificate has expired"),
    ),
    Situation(
        name="missing client certificate",
        scene=tls_port(wants_client=True),
        why="TLS: the server wants a certificate of this client: set cert (--tls-cert) (tlsv13 "
        "alert certificate required)",
        doctor=no_tls("tlsv13 alert certificate required"),
    ),
    Situation(
        name="refused client certificate",
        scene=tls_port(wants_client=True, client="me@example.org"),
        why="TLS: the server does not trust the authority of this client's certificate (tlsv1 "
        "alert unknown ca)",
        doctor=no_tls("tlsv1 alert unknown ca"),
    ),
    *(
        Situation(
            name=name,
            scene=without_quorum(grants_sessions=grants_sessions),
            why=f"{Q}, or a port for TLS?",
            doctor=no_quorum(f"is read-only -> {NOT_SERVED}"),
        )
        for name, grants_sessions in {"no quorum": False, "read-only server": True}.items()
    ),
    Situation(
        name="wrong password",
        scene=wrong_password,
        log=["W session 0xN has ended: zk:N: the server refused the SASL login"],
        error="AuthFailedError: zk:N: the server refused the SASL login",
        command=(77, "zk:N: the server refused the SASL login (are --auth and --sasl right?)"),
        doctor=[
            (
                "login: zk:N: the server refused the SASL login -> are --auth and --sasl right? do "
                "the servers know this login?"
            ),
        ],
    ),
    Situation(
        name="missing login",
        scene=login_wanted,
        log=[
            CONNECTED,
            (
                "W session 0xN has ended: zk:N: the server takes authenticated clients only, so it "
                "closed the session"
            ),
        ],
        error="AuthFailedError: zk:N: the server takes authenticated clients only, so it closed "
        "the session",
        command=(
            77,
            (
                "zk:N: the server takes authenticated clients only, so it closed the session (are "
                "--auth and --sasl right?)"
            ),
        ),
        doctor=[
            (
                "login: zk:N: the server takes authenticated clients only, so it closed the "
                "session -> are --auth and --sasl right? do the servers know this login?"
            ),
        ],
    ),
    Situation(
        name="forbidden path",
        scene=forbidden_path,
        log=[CONNECTED],
        error="NoAuthError: not allowed by the znode's ACL: /l",
        command=(
            77,
            (
                "not allowed by the znode's ACL: /l (--auth or --sasl logs in; aiolead acl shows "
                "who may do what; the parent's ACL says who may create and delete)"
            ),
        ),
        commands=("run", "lock"),
    ),
]
