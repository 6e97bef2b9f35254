"""TLS against a real ZooKeeper, and the embedded server, which has to behave as that does."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest
from anyio.abc import ByteStream
from client.login.certificates import Authority
from client.login.login_servers import Ports, tls_server
from kit.checks import PATIENCE

from aiolead import ACL, TLS, connect
from aiolead._client.net.opener import ConnectionEnded, Opener
from aiolead._client.net.tls import ContextSource
from aiolead.errors import ConnectFailed, InvalidACLError, NoAuthError
from aiolead.model import CREATOR_ALL_ACL
from aiolead.testing import Hooks

KINDS = ["embedded", pytest.param("real", marks=pytest.mark.real)]
ODD = '#1, "A" <B> & \\C = D; +E '
SUBJECT = 'CN=app,OU=*,O=\\#1\\, \\"A\\" \\<B\\> & \\\\C \\= D\\; \\+E\\ '


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module", params=KINDS)
def ports(
    request: pytest.FixtureRequest, authority: Authority, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Ports]:
    if request.param == "real":
        request.getfixturevalue("zookeeper_installed")
    folder = tmp_path_factory.mktemp("server")
    with tls_server(request.param, authority, authority.issue(), folder) as ports:
        yield ports


async def why(host: str, port: int, tls: TLS) -> str:
    """Why a connection comes to nothing. What clients make of that is the same on every server."""
    address = "127.0.0.1" if host == "localhost" else host
    with anyio.fail_after(PATIENCE):
        try:
            stream = await Opener(tls=ContextSource(tls)).open(host, address, port)
        except ConnectionEnded as error:
            return str(error)
        try:
            await stream.receive()
        except anyio.BrokenResourceError as error:
            return str(error.__cause__)
        finally:
            await anyio.aclose_forcefully(stream)
    pytest.fail("there is a connection")


@pytest.mark.exhaustive("the same as on the embedded server", only="real")
@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
async def test_tls(ports: Ports, authority: Authority, host: str, chroot: str) -> None:
    data = bytes(range(256)) * 2000
    async with connect(f"{host}:{ports.secure}", tls=TLS(ca=authority.pem)) as client:
        await client.create(chroot, data)
        assert (await client.get(chroot))[0] == data
        with pytest.raises(InvalidACLError):
            await client.create(f"{chroot}/mine", acl=CREATOR_ALL_ACL)
        assert [who.scheme for who in await client.whoami()] == ["ip"]


@pytest.mark.exhaustive("the same as on the embedded server", only="real")
async def test_mutual_tls(ports: Ports, authority: Authority, chroot: str) -> None:
    """Whoever has a certificate is somebody, by the name that Java gives its subject."""
    mine = authority.issue("app@example.org", common_name="app", organization=ODD)
    tls = TLS(ca=authority.pem, cert=mine.cert, key=mine.key)
    async with connect(f"localhost:{ports.secure}", tls=tls) as client:
        identities = {who.scheme: who.id for who in await client.whoami()}
        assert set(identities) == {"x509", "ip"}
        begin, _, end = SUBJECT.partition("*")
        assert identities["x509"].startswith(begin)
        assert identities["x509"].endswith(end)
        await client.create(chroot, acl=CREATOR_ALL_ACL)
        assert (await client.get_acl(chroot))[0] == [ACL.x509(identities["x509"])]
    async with connect(f"localhost:{ports.secure}", tls=TLS(ca=authority.pem)) as client:
        with pytest.raises(NoAuthError):
            await client.get(chroot)


async def test_a_wrong_authority(ports: Ports, tmp_path: Path) -> None:
    stranger = Authority(tmp_path)
    reason = await why("localhost", ports.secure, TLS(ca=stranger.pem))
    assert reason.startswith("TLS: the server's certificate was refused: ")


@pytest.mark.exhaustive("the same as on the embedded server", only="real")
async def test_a_wrong_host_name(ports: Ports, authority: Authority) -> None:
    reason = await why("127.0.0.2", ports.secure, TLS(ca=authority.pem))
    assert "certificate was refused: IP address mismatch" in reason
    tls = TLS(ca=authority.pem, server_hostname="zk.example.org")
    reason = await why("localhost", ports.secure, tls)
    assert "certificate was refused: Hostname mismatch" in reason


@pytest.mark.exhaustive("the same as on the embedded server", only="real")
async def test_a_certificate_of_ours_that_the_server_refuses(
    ports: Ports, authority: Authority, tmp_path: Path
) -> None:
    stranger = Authority(tmp_path).issue("app@example.org")
    tls = TLS(ca=authority.pem, cert=stranger.cert, key=stranger.key)
    reason = await why("localhost", ports.secure, tls)
    assert reason.startswith("TLS: ")


async def test_a_plain_text_port(ports: Ports, authority: Authority) -> None:
    reason = await why("localhost", ports.plain, TLS(ca=authority.pem))
    assert reason.endswith("a plain-text port?")


async def test_plain_text_to_a_secure_port(ports: Ports) -> None:
    with pytest.raises(ConnectFailed):
        async with connect(f"localhost:{ports.secure}", session_timeout=3, connect_timeout=0.3):
            pass


async def test_certificates_are_replaced_without_losing_the_session(
    ports: Ports, authority: Authority, tmp_path: Path
) -> None:
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    streams: list[ByteStream] = []

    async def dial(address: str, port: int) -> ByteStream:
        streams.append(await anyio.connect_tcp(address, port))
        return streams[-1]

    def install(name: str) -> None:
        pem = authority.issue(f"{name}@example.org", common_name=name)
        cert.write_bytes(pem.cert.read_bytes())
        key.write_bytes(pem.key.read_bytes())

    async def who() -> str:
        (own,) = [who.id for who in await client.whoami() if who.scheme == "x509"]
        return own.partition(",")[0]

    install("old")
    tls = TLS(ca=authority.pem, cert=cert, key=key)
    async with connect(f"localhost:{ports.secure}", tls=tls, hooks=Hooks(dial=dial)) as client:
        session = client.session_id
        assert await who() == "CN=old"
        install("new")
        assert await who() == "CN=old", "what is connected stays connected"
        for stream in streams:
            await stream.aclose()
        assert await who() == "CN=new"
        assert client.session_id == session


@pytest.fixture(scope="module", params=KINDS)
def expired(
    request: pytest.FixtureRequest, authority: Authority, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Ports]:
    if request.param == "real":
        request.getfixturevalue("zookeeper_installed")
    pem = authority.issue(expires=datetime.datetime(2021, 1, 1, tzinfo=datetime.UTC))
    folder = tmp_path_factory.mktemp("expired")
    with tls_server(request.param, authority, pem, folder) as ports:
        yield ports


@pytest.mark.exhaustive("the same as on the embedded server", only="real")
async def test_an_expired_certificate(expired: Ports, authority: Authority) -> None:
    reason = await why("localhost", expired.secure, TLS(ca=authority.pem))
    assert reason == "TLS: the server's certificate was refused: certificate has expired"
