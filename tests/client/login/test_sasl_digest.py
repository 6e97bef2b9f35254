"""SASL's DIGEST-MD5 against a real ZooKeeper, and the embedded server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from client.login.login_servers import digest_server

from aiolead import ACL, SASL, connect
from aiolead.errors import AuthFailedError, NoAuthError
from aiolead.model import CREATOR_ALL_ACL, Permission

KINDS = ["embedded", pytest.param("real", marks=pytest.mark.real)]
USERS = {
    "ann": 'correct horse, "battery" \\ staple',
    "josé": "contraseña",
    "пётр": "пароль",
}


@pytest.fixture(scope="module", params=KINDS)
def hosts(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    if request.param == "real":
        request.getfixturevalue("zookeeper_installed")
    with digest_server(request.param, USERS, tmp_path_factory.mktemp("server")) as hosts:
        yield hosts


@pytest.mark.exhaustive("the same as on the embedded server", only="real")
@pytest.mark.parametrize("user", USERS)
async def test_whoever_knows_the_password_is_let_in(hosts: str, user: str, chroot: str) -> None:
    async with connect(hosts, sasl=SASL.digest_md5(user, USERS[user])) as client:
        identities = [(who.scheme, who.id) for who in await client.whoami()]
        assert ("sasl", user) in identities
        await client.create(chroot, acl=CREATOR_ALL_ACL)
        assert (await client.get_acl(chroot))[0] == [ACL.sasl(user)]
        await client.create(
            f"{chroot}/open", b"data", acl=[ACL.sasl(user), ACL.world(Permission.READ)]
        )
    async with connect(hosts) as client:
        assert (await client.get(f"{chroot}/open"))[0] == b"data"
        with pytest.raises(NoAuthError):
            await client.get(chroot)


@pytest.mark.exhaustive("the same as on the embedded server", only="real")
@pytest.mark.parametrize(("user", "password"), [("ann", "wrong"), ("nobody", "wrong")])
async def test_nobody_else_is(hosts: str, user: str, password: str) -> None:
    with pytest.raises(AuthFailedError, match="refused the SASL login") as caught:
        async with connect(hosts, sasl=SASL.digest_md5(user, password)):
            pass
    assert password not in str(caught.value)
