"""SASL's GSSAPI: a real ZooKeeper that takes nobody else, and a KDC of the tests' own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from client.login.kdc import HOW_TO_INSTALL, REALM, SERVICE, Realm, missing, realm
from client.login.login_servers import jaas_server, why_not_connected

from aiolead import ACL, SASL, connect
from aiolead.errors import AuthFailedError, ConfigurationError
from aiolead.model import CREATOR_ALL_ACL

REQUIRED = "AIOLEAD_REQUIRE_KERBEROS"
MODULE = "com.sun.security.auth.module.Krb5LoginModule"

pytestmark = [
    pytest.mark.real,
    pytest.mark.exhaustive("needs a Kerberos server and its headers"),
]


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


async def test_a_login_by_ticket(hosts: str, ticket: Path, chroot: str) -> None:
    async with connect(hosts, sasl=SASL.gssapi()) as client:
        await client.create(chroot, acl=CREATOR_ALL_ACL)
        (entry,) = (await client.get_acl(chroot))[0]
        assert entry == ACL.sasl(f"app@{REALM}")
        assert (entry.scheme, entry.id) in [(who.scheme, who.id) for who in await client.whoami()]


async def test_a_login_in_a_name_and_to_a_host_that_are_given(hosts: str, ticket: Path) -> None:
    address = hosts.replace("localhost", "127.0.0.1")
    sasl = SASL.gssapi(service="zookeeper", host="localhost", principal=f"app@{REALM}")
    async with connect(address, sasl=sasl) as client:
        assert "zookeeper" in await client.get_children("/")


async def test_nobody_without_a_login_is_served(hosts: str) -> None:
    async with connect(hosts) as client:
        with pytest.raises(AuthFailedError, match="authenticated clients only"):
            await client.exists("/")


async def test_without_a_ticket_the_client_goes_on_trying(
    hosts: str, ticket: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be renewed, and the KDC may come back; so this is no refusal."""
    monkeypatch.setenv("KRB5_CLIENT_KTNAME", "/nowhere.keytab")
    failed = await why_not_connected(hosts, sasl=SASL.gssapi(), session_timeout=3)
    assert "SASL: no Kerberos ticket for zookeeper@localhost" in str(failed)


async def test_a_server_that_has_no_principal(hosts: str, ticket: Path) -> None:
    sasl = SASL.gssapi(host="elsewhere.example.org")
    failed = await why_not_connected(hosts, sasl=sasl, session_timeout=3)
    assert "no Kerberos ticket for zookeeper@elsewhere" in str(failed)


async def test_a_password_where_tickets_are_wanted(hosts: str) -> None:
    with pytest.raises(AuthFailedError, match="SASL"):
        async with connect(hosts, sasl=SASL.digest_md5("ann", "secret")):
            pass


@pytest.mark.parametrize("arguments", [{"service": ""}, {"host": ""}, {"principal": b"app"}])
def test_arguments_that_make_no_sense(arguments: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(arguments))):
        SASL.gssapi(**arguments)  # type: ignore[arg-type]


def test_without_the_package_the_call_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "gssapi", None)
    with pytest.raises(ConfigurationError, match=r"aiolead\[kerberos\]"):
        SASL.gssapi()
