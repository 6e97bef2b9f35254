"""SASL's GSSAPI: the client's side of RFC 4752 with a stand-in for the package `gssapi`, and a real
ZooKeeper that accepts no other login, with a KDC of the tests' own.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import anyio.to_thread
import pytest
from client.login.kdc import HOW_TO_INSTALL, REALM, SERVICE, Realm, missing, realm
from client.login.login_servers import jaas_server
from kit.checks import until
from kit.clients import why_not_connected
from logs.log_lines import Lines
from logs.situations import Scene
from logs.test_situations import attempt, finished, normal

from aiolead import ACL, SASL, admin, connect
from aiolead._client.net.opener import ConnectionEnded
from aiolead.errors import AuthFailedError, ConfigurationError
from aiolead.model import CREATOR_ALL_ACL

NO_LAYER, ENCRYPTED = 1, 4


class GSSError(Exception):
    """The only error that the package raises."""


class Context:
    """One exchange of two tokens, and whatever the server offers then."""

    def __init__(self, **arguments: Any) -> None:
        self.arguments = arguments
        self.received: list[bytes | None] = []
        self.complete = False

    def step(self, token: bytes | None = None) -> bytes | None:
        self.received.append(token)
        if token == b"forged":
            raise GSSError("the integrity check failed")
        self.complete = token is not None
        return None if self.complete else b"ticket"

    def unwrap(self, offer: bytes) -> Any:
        return SimpleNamespace(message=offer)

    def wrap(self, choice: bytes, encrypts: bool) -> Any:
        assert not encrypts
        return SimpleNamespace(message=b"wrapped " + choice)


@pytest.fixture
def contexts(monkeypatch: pytest.MonkeyPatch) -> list[Context]:
    made: list[Context] = []

    def make(**arguments: Any) -> Context:
        made.append(Context(**arguments))
        return made[-1]

    kinds = {"hostbased_service": "service", "kerberos_principal": "principal"}
    flags = ("mutual_authentication", "integrity", "out_of_sequence_detection")
    package = SimpleNamespace(
        Name=lambda name, kind: (kind, name),
        NameType=SimpleNamespace(**kinds),
        Credentials=lambda **arguments: arguments,
        RequirementFlag=SimpleNamespace(**{flag: flag for flag in flags}),
        MechType=SimpleNamespace(kerberos="kerberos"),
        SecurityContext=make,
        exceptions=SimpleNamespace(GSSError=GSSError),
    )
    monkeypatch.setitem(sys.modules, "gssapi", package)
    return made


def test_login_asks_for_no_security_layer(contexts: list[Context]) -> None:
    login = SASL.gssapi()._mechanism_for("zk1.example.com")
    assert login.blocks
    assert login.step(b"") == b"ticket"
    assert login.step(b"the server's") == b""
    assert not login.is_complete
    assert login.step(bytes([NO_LAYER | ENCRYPTED, 0, 255, 255])) == b"wrapped \1\0\0\0"
    assert login.is_complete
    (context,) = contexts
    assert context.received == [None, b"the server's"]
    assert context.arguments["name"] == ("service", "zookeeper@zk1.example.com")
    assert context.arguments["creds"] is None
    assert "mutual_authentication" in context.arguments["flags"]


def test_given_service_host_and_principal_are_used(contexts: list[Context]) -> None:
    sasl = SASL.gssapi(service="zk", host="all.example.com", principal="app@EXAMPLE.COM")
    sasl._mechanism_for("zk1.example.com").step(b"")
    (context,) = contexts
    assert context.arguments["name"] == ("service", "zk@all.example.com")
    owner = ("principal", "app@EXAMPLE.COM")
    assert context.arguments["creds"] == {"name": owner, "usage": "initiate"}


@pytest.mark.parametrize("offer", [bytes([ENCRYPTED, 0, 255, 255]), b"", b"\1\0\0"])
def test_server_that_insists_on_a_layer_is_refused(contexts: list[Context], offer: bytes) -> None:
    login = SASL.gssapi()._mechanism_for("zk1")
    login.step(b"")
    login.step(b"the server's")
    with pytest.raises(AuthFailedError, match="insists on signing or encrypting"):
        login.step(offer)
    assert not login.is_complete


def test_server_that_does_not_prove_its_name_is_refused(contexts: list[Context]) -> None:
    login = SASL.gssapi()._mechanism_for("zk1")
    login.step(b"")
    with pytest.raises(AuthFailedError, match="did not prove that it is zookeeper@zk1: the integ"):
        login.step(b"forged")


def test_missing_ticket_is_no_refusal(
    contexts: list[Context], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be renewed, so the client goes on trying."""

    def no_ticket(**_: Any) -> None:
        raise GSSError("no credentials")

    monkeypatch.setattr(sys.modules["gssapi"], "SecurityContext", no_ticket)
    with pytest.raises(ConnectionEnded, match="no Kerberos ticket for zookeeper@zk1: no cred"):
        SASL.gssapi()._mechanism_for("zk1").step(b"")


@pytest.mark.parametrize("arguments", [{"service": ""}, {"host": ""}, {"principal": b"app"}])
def test_invalid_arguments_are_refused(
    contexts: list[Context], arguments: dict[str, object]
) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(arguments))):
        SASL.gssapi(**arguments)  # type: ignore[arg-type]


def test_missing_package_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", None)
    with pytest.raises(ConfigurationError, match=r"needs aiolead\[kerberos\]"):
        SASL.gssapi()


# --- a real server and a KDC ---------------------------------------------------------------------

REQUIRED = "AIOLEAD_REQUIRE_KERBEROS"
MODULE = "com.sun.security.auth.module.Krb5LoginModule"


def with_kdc(test: Callable[..., Any]) -> Callable[..., Any]:
    exhaustive = pytest.mark.exhaustive("needs a Kerberos server and its headers")
    return pytest.mark.real(exhaustive(test))


@pytest.fixture(scope="module")
def kerberos(
    zookeeper_installed: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Realm]:
    if lacking := missing():
        message = f"needs {', '.join(lacking)}: {HOW_TO_INSTALL}; pip install gssapi"
        if os.environ.get(REQUIRED) == "1":
            pytest.fail(f"{REQUIRED}=1, but it {message}", pytrace=False)
        pytest.skip(message)
    with realm(tmp_path_factory.mktemp("kdc")) as kerberos:
        yield kerberos


@pytest.fixture(scope="module")
def hosts(kerberos: Realm) -> Iterator[str]:
    """A server that closes every session of a client that has not logged in."""
    keytab = kerberos.keytab(SERVICE)
    jaas = kerberos.folder / "jaas.conf"
    jaas.write_text(
        f'Server {{ {MODULE} required useKeyTab=true keyTab="{keytab}" storeKey=true '
        f'useTicketCache=false principal="{SERVICE}@{REALM}"; }};\n'
    )
    with jaas_server(
        jaas,
        f"-Djava.security.krb5.conf={kerberos.config}",
        "-Dzookeeper.sessionRequireClientSASLAuth=true",
        # ZooKeeper asks Java for the default realm by ways that newer Javas keep shut.
        "--add-exports=java.security.jgss/sun.security.krb5=ALL-UNNAMED",
    ) as connect_string:
        yield connect_string.replace("127.0.0.1", "localhost")


@pytest.fixture(scope="module")
def keytab(kerberos: Realm) -> Path:
    return kerberos.keytab("app")


@pytest.fixture
def ticket(kerberos: Realm, keytab: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Has Kerberos find the realm, and the key of `app`, from which it gets tickets."""
    monkeypatch.setenv("KRB5_CONFIG", str(kerberos.config))
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{tmp_path}/ccache")
    monkeypatch.setenv("KRB5_CLIENT_KTNAME", str(keytab))
    return keytab


@with_kdc
async def test_login_by_ticket_is_an_identity(hosts: str, ticket: Path, chroot: str) -> None:
    async with connect(hosts, sasl=SASL.gssapi()) as client:
        await client.create(chroot, acl=CREATOR_ALL_ACL)
        (entry,) = (await client.get_acl(chroot))[0]
        assert entry == ACL.sasl(f"app@{REALM}")
        assert (entry.scheme, entry.id) in [
            (who.scheme, who.id) for who in await admin.whoami(client)
        ]


@with_kdc
async def test_login_with_a_given_principal_and_host(hosts: str, ticket: Path) -> None:
    address = hosts.replace("localhost", "127.0.0.1")
    sasl = SASL.gssapi(service="zookeeper", host="localhost", principal=f"app@{REALM}")
    async with connect(address, sasl=sasl) as client:
        assert "zookeeper" in await client.get_children("/")


@with_kdc
async def test_client_without_a_login_is_refused(hosts: str) -> None:
    async with connect(hosts) as client:
        with pytest.raises(AuthFailedError, match="authenticated clients only"):
            await client.exists("/")


@with_kdc
async def test_missing_ticket_is_no_refusal_of_the_server(
    hosts: str, ticket: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be renewed, and the KDC may come back; so this is no refusal."""
    monkeypatch.setenv("KRB5_CLIENT_KTNAME", "/nowhere.keytab")
    failed = await why_not_connected(hosts, sasl=SASL.gssapi(), session_timeout=3)
    assert "SASL: no Kerberos ticket for zookeeper@localhost" in str(failed)


@pytest.fixture
def no_ticket(ticket: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Has Kerberos find the realm, and neither a ticket nor a key."""
    monkeypatch.setenv("KRB5_CLIENT_KTNAME", "/nowhere.keytab")


@pytest.fixture
def expired_ticket(kerberos: Realm, ticket: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Has Kerberos find a ticket that is over, and no key to get another one."""
    import gssapi

    def is_over() -> bool:
        try:
            return not gssapi.Credentials(usage="initiate").lifetime
        except gssapi.exceptions.GSSError:
            return True

    monkeypatch.setenv("KRB5_CLIENT_KTNAME", str(kerberos.keytab("brief", life="2 seconds")))
    assert not is_over()
    # Kerberos counts whole seconds, and takes the last one of a ticket.
    end = time.time() + 2 + 1
    monkeypatch.setenv("KRB5_CLIENT_KTNAME", "/nowhere.keytab")
    until(lambda: is_over() and time.time() > end, "the ticket has expired")


SITUATIONS = {
    "no_ticket": "No Kerberos credentials available (default cache: FILE:FOLDER/ccache)",
    "expired_ticket": "Ticket expired",
}
"""The reasons of Kerberos, by the fixture that brings them about."""


@with_kdc
@pytest.mark.parametrize("fixture", SITUATIONS)
async def test_ticket_is_named_in_the_log_and_by_the_command(
    fixture: str,
    hosts: str,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    caplog: pytest.LogCaptureFixture,
) -> None:
    request.getfixturevalue(fixture)
    why = (
        f"SASL: no Kerberos ticket for zookeeper@localhost: {SITUATIONS[fixture]} (kinit gets one, "
        "a keytab in KRB5_CLIENT_KTNAME renews it)"
    )
    scene = Scene(hosts, {"sasl": SASL.gssapi()}, ("--sasl", "gssapi"))
    with caplog.at_level(logging.INFO, "aiolead"):
        assert await attempt(scene) == ""
    shown = [normal(line).replace(str(tmp_path), "FOLDER") for line in Lines(caplog).all]
    assert shown == [f"W no server yet, trying: zk:N (127.0.0.1): {why}"]

    # In a thread: its waits would block the event loop.
    run = partial(finished, scene, {"lock": ("/l", "--", "true")})
    code, command = (await anyio.to_thread.run_sync(run))["lock"]
    printed = [normal(line).replace(str(tmp_path), "FOLDER") for line in command.err.rest()]
    no_session = f"no session with zk:N within N s (zk:N (127.0.0.1): {why})"
    assert printed == [f"aiolead: {no_session}; see: aiolead doctor"]
    assert code == 69


@with_kdc
async def test_server_without_a_principal_is_named(hosts: str, ticket: Path) -> None:
    sasl = SASL.gssapi(host="elsewhere.example.org")
    failed = await why_not_connected(hosts, sasl=sasl, session_timeout=3)
    assert "no Kerberos ticket for zookeeper@elsewhere" in str(failed)


@with_kdc
async def test_password_is_refused_where_tickets_are_required(hosts: str) -> None:
    with pytest.raises(AuthFailedError, match="SASL"):
        async with connect(hosts, sasl=SASL.digest_md5("ann", "secret")):
            pass
