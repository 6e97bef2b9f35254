"""Credentials that are added at run time, and the ACL entries that they are for."""

from __future__ import annotations

import pytest
from kit.clients import connect

from aiolead import ACL, Auth, Client
from aiolead.errors import AuthFailedError, ConfigurationError, InvalidACLError, NoAuthError
from aiolead.model import Permission, SessionState
from aiolead.testing import EmbeddedServer


async def test_credentials_added_later_are_repeated(client: Client, zk: EmbeddedServer) -> None:
    await client.create("/a", b"data", acl=[ACL.digest("ann", "secret")])
    with pytest.raises(NoAuthError):
        await client.get("/a")
    added, read = client.add_auth(Auth.digest("ann", "secret")), client.get("/a")
    assert (await read)[0] == b"data"
    assert await added is None
    zk.disconnect()
    assert (await client.get("/a"))[0] == b"data"
    with pytest.raises(ConfigurationError) as caught:
        client.add_auth(("digest", b"ann:secret"))  # type: ignore[arg-type]
    assert "secret" not in str(caught.value)


async def test_refused_credentials_at_run_time_end_the_client(client: Client) -> None:
    with pytest.raises(AuthFailedError, match="refused the credentials"):
        await client.add_auth(Auth("nonsense", b"x"))
    with pytest.raises(AuthFailedError):
        await client.exists("/")
    assert client.state is SessionState.AUTH_FAILED


async def test_credentials_added_while_lost_are_sent(client: Client, zk: EmbeddedServer) -> None:
    await client.create("/a", b"data", acl=[ACL.digest("ann", "secret")])
    await zk.stop()
    async with client.observe() as states:
        async for change in states:
            if change.state is SessionState.SUSPENDED:
                break
    added = client.add_auth(Auth.digest("ann", "secret"))
    await zk.start()
    await added
    assert (await client.get("/a"))[0] == b"data"


# --- ACL entries ---------------------------------------------------------------------------------


def test_acl_entries() -> None:
    read = Permission.READ
    assert ACL.world() == ACL(Permission.ALL, "world", "anyone")
    assert ACL.auth(read) == ACL(read, "auth", "")
    assert ACL.digest("a", "b", read) == Auth.digest("a", "b").acl(read)
    assert ACL.ip("10.0.0.0/8", read) == ACL(read, "ip", "10.0.0.0/8")
    assert ACL.ip("::1") == ACL(Permission.ALL, "ip", "::1")
    assert ACL.x509("CN=a,O=b") == ACL(Permission.ALL, "x509", "CN=a,O=b")
    assert ACL.sasl("a/host@REALM", read) == ACL(read, "sasl", "a/host@REALM")


@pytest.mark.parametrize(
    "make",
    [
        lambda: ACL.ip("10.0.0"),
        lambda: ACL.ip("10.0.0.0/33"),
        lambda: ACL.ip("10.0.0.0/255.0.0.0"),
        lambda: ACL.ip("10.0.0.0/"),
        lambda: ACL.ip(""),
        lambda: ACL.x509("app"),
        lambda: ACL.x509(""),
        lambda: ACL.sasl(""),
        lambda: ACL.digest("a:b", "c"),
    ],
)
def test_invalid_acl_entries_are_refused(make: object) -> None:
    with pytest.raises(ConfigurationError):
        make()  # type: ignore[operator]


async def test_server_accepts_entries_of_its_own_schemes(client: Client) -> None:
    for entry in (ACL.sasl("ann"), ACL.x509("CN=app"), ACL.auth()):
        with pytest.raises(InvalidACLError):
            await client.create("/a", acl=[entry])
    await client.create("/a", acl=[ACL.ip("127.0.0.1/8", Permission.READ)])
    await client.get("/a")
    with pytest.raises(NoAuthError):
        await client.set("/a", b"")


async def test_server_with_sasl_accepts_names_with_a_realm() -> None:
    async with EmbeddedServer(sasl_users={"ann": "secret"}) as server, connect(server) as client:
        await client.create("/a", acl=[ACL.sasl("ann@EXAMPLE.ORG")])
        with pytest.raises(InvalidACLError):
            await client.create("/b", acl=[ACL.sasl("ann@EXAMPLE@ORG")])
