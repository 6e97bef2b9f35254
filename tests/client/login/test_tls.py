"""TLS: its files, one connection, the embedded server, and a real ZooKeeper."""

from __future__ import annotations

import datetime
import logging
import re
import ssl
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.abc import ByteStream
from anyio.streams.tls import TLSStream
from client.login.certificates import NAME, Authority, Pem
from client.login.login_servers import Ports, tls_server
from cryptography.hazmat.primitives import serialization
from kit.checks import PATIENCE
from kit.clients import why_not_connected

from aiolead import ACL, TLS, admin, connect
from aiolead._client.net.opener import ConnectionEnded, OneAtATime, Opener
from aiolead._client.net.tls import ContextSource
from aiolead.errors import ConfigurationError, ConnectFailed, InvalidACLError, NoAuthError
from aiolead.model import CREATOR_ALL_ACL, SessionState
from aiolead.testing import EmbeddedServer, Hooks
from aiolead.testing._tls import distinguished_name
from aiolead.testing.streams import memory_stream_pair

# --- files -------------------------------------------------------------------------------------

PASSWORD = "open sesame"


@pytest.fixture(scope="module")
def mine(authority: Authority) -> Pem:
    return authority.issue("client@example.org")


def encrypted(pem: Pem, folder: Path) -> Path:
    key = serialization.load_pem_private_key(pem.key.read_bytes(), None)
    encryption = serialization.BestAvailableEncryption(PASSWORD.encode())
    path = folder / "encrypted.key"
    path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
    )
    return path


def test_context_checks_the_server_by_default(authority: Authority) -> None:
    context = TLS(ca=authority.pem).load()
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
    assert context.minimum_version >= ssl.TLSVersion.TLSv1_2
    relaxed = TLS(ca=authority.pem, check_hostname=False).load()
    assert relaxed.verify_mode is ssl.CERT_REQUIRED
    assert not relaxed.check_hostname


def test_encrypted_key_needs_its_password(authority: Authority, mine: Pem, tmp_path: Path) -> None:
    options: dict[str, Any] = {"ca": authority.pem, "cert": mine.cert}
    options["key"] = encrypted(mine, tmp_path)
    tls = TLS(**options, password=PASSWORD)
    tls.load()
    assert PASSWORD not in repr(tls)
    with pytest.raises(ConfigurationError, match="password: missing"):
        TLS(**options).load()
    with pytest.raises(ConfigurationError, match="password: wrong") as caught:
        TLS(**options, password=PASSWORD[::-1]).load()
    assert PASSWORD[::-1] not in f"{caught.value!r}{caught.value.__context__!r}"


@pytest.mark.parametrize(
    "arguments",
    [
        {"ca": ""},
        {"ca": b"ca.pem"},
        {"key": "a.key"},
        {"password": "x"},
        {"cert": "a.pem", "password": b"x"},
        {"server_hostname": ""},
        {"server_hostname": 1},
        {"check_hostname": "yes"},
    ],
)
def test_invalid_arguments_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError) as caught:
        TLS(**arguments)
    assert str(caught.value).startswith(("ca:", "cert:", "password:", "server_", "check_"))


def test_invalid_files_are_refused(authority: Authority, mine: Pem, tmp_path: Path) -> None:
    empty = tmp_path / "empty.pem"
    empty.touch()
    other = authority.issue()
    for tls, message in (
        (TLS(ca=tmp_path / "none.pem"), "ca: cannot read"),
        (TLS(ca=empty), "ca: no certificates in"),
        (TLS(ca=authority.pem, cert=empty), "cert: "),
        (TLS(ca=authority.pem, cert=mine.cert), "cert: "),
        (TLS(ca=authority.pem, cert=mine.cert, key=other.key), "cert, key: .*mismatch"),
    ):
        with pytest.raises(ConfigurationError, match=message):
            connect("127.0.0.1", tls=tls)


@pytest.mark.parametrize(
    "context",
    [ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), "ca.pem", True],
    ids=["of a server", "a path", "a flag"],
)
def test_context_that_is_not_for_clients_is_refused(context: Any) -> None:
    with pytest.raises(ConfigurationError, match="tls: "):
        connect("127.0.0.1", tls=context)


async def test_context_of_the_program_is_used_as_it_is() -> None:
    own = ssl.create_default_context()
    assert await ContextSource(own).current() is own


async def test_changed_files_are_read_again(
    authority: Authority, mine: Pem, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "aiolead.connection")
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"

    def install(pem: Pem) -> None:
        """As tools do that renew certificates: beside it, then in its place."""
        for source, target in ((pem.cert, cert), (pem.key, key)):
            new = target.with_suffix(".new")
            new.write_bytes(source.read_bytes())
            new.replace(target)

    install(mine)
    source = ContextSource(TLS(ca=authority.pem, cert=cert, key=key))
    first = await source.current()
    assert await source.current() is first
    assert caplog.messages == []

    install(authority.issue("client@example.org"))
    second = await source.current()
    assert second is not first
    assert await source.current() is second
    assert caplog.messages == ["TLS files have changed: the next connection uses them"]

    caplog.clear()
    key.write_text("half a key")
    assert await source.current() is second
    assert await source.current() is second
    assert len(caplog.messages) == 1, "said once, not with every connection"
    assert caplog.records[0].levelno == logging.WARNING
    assert "not used" in caplog.messages[0]

    key.unlink()
    assert await source.current() is second
    install(mine)
    assert await source.current() not in (first, second)


async def test_slow_disk_does_not_delay_cancellation(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = ContextSource(TLS(ca=authority.pem))
    turning = threading.Event()

    def slowly(tls: TLS, seen: object) -> None:
        turning.wait(30)

    monkeypatch.setattr("aiolead._client.net.tls._refresh", slowly)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(source.current)
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    assert not turning.is_set()
    turning.set()


# --- one connection ------------------------------------------------------------------------------

Serve = Callable[[ByteStream], Awaitable[None]]


@asynccontextmanager
async def opener(serve: Serve, tls: TLS | ssl.SSLContext | None) -> AsyncIterator[Opener]:
    """An opener whose connections `serve` is at the other end of."""
    async with anyio.create_task_group() as tasks:

        async def dial(address: str, port: int) -> ByteStream:
            client, server = memory_stream_pair()
            tasks.start_soon(serve, server)
            return client

        yield Opener(dial, None if tls is None else ContextSource(tls))
        tasks.cancel_scope.cancel()


def echo(context: ssl.SSLContext) -> Serve:
    async def serve(stream: ByteStream) -> None:
        try:
            secure = await TLSStream.wrap(
                stream, server_side=True, ssl_context=context, standard_compatible=False
            )
            while True:
                await secure.send(await secure.receive())
        except (ssl.SSLError, anyio.EndOfStream, anyio.BrokenResourceError):
            await stream.aclose()

    return serve


Served = Callable[..., AbstractAsyncContextManager[Opener]]


@pytest.fixture
def served(authority: Authority) -> Served:
    """An opener with options of `TLS`; a server with a certificate sends back what it receives."""
    serve = echo(authority.server_context(authority.issue()))
    return lambda **options: opener(serve, TLS(ca=authority.pem, **options))


async def test_dialled_stream_is_used_without_tls() -> None:
    async def serve(stream: ByteStream) -> None:
        await stream.send(b"hello")

    async with opener(serve, None) as it:
        assert not it.is_encrypted
        assert await (await it.open("zk", "127.0.0.1", 2181)).receive() == b"hello"


@pytest.mark.parametrize("host", [NAME, f"{NAME}.", "127.0.0.1", "localhost"])
async def test_name_of_the_connect_string_is_checked(served: Served, host: str) -> None:
    async with served() as it:
        assert it.is_encrypted
        stream = await it.open(host, "10.1.2.3", 2181)
        await stream.send(b"hello")
        assert await stream.receive() == b"hello"
        await stream.aclose()


@pytest.mark.parametrize("host", ["other.example", "10.1.2.3"])
async def test_other_name_is_refused_unless_told_otherwise(served: Served, host: str) -> None:
    async with served() as it:
        with pytest.raises(ConnectionEnded, match=f"TLS: .*not valid for '{host}'"):
            await it.open(host, "127.0.0.1", 2181)
    for options in ({"check_hostname": False}, {"server_hostname": NAME}):
        async with served(**options) as it:
            await (await it.open(host, "127.0.0.1", 2181)).aclose()


async def test_common_name_is_not_a_name_to_check(authority: Authority) -> None:
    pem = authority.issue(common_name=NAME, alternative_names=False)
    serve = echo(authority.server_context(pem))
    async with opener(serve, TLS(ca=authority.pem)) as it:
        with pytest.raises(ConnectionEnded, match=r"TLS: the server's certificate was refused: "):
            await it.open(NAME, "127.0.0.1", 2181)
    own = ssl.create_default_context(cafile=authority.pem)
    own.verify_flags &= ~ssl.VERIFY_X509_STRICT  # the default since Python 3.13
    async with opener(serve, own) as it:  # a program may decide otherwise
        await (await it.open(NAME, "127.0.0.1", 2181)).aclose()


@pytest.mark.parametrize("answer", [b"", b"imok, or so it seems to me"])
async def test_plain_text_port_is_named_as_the_reason(authority: Authority, answer: bytes) -> None:
    async def serve(stream: ByteStream) -> None:
        await stream.receive()
        if answer:
            await stream.send(answer)
        await stream.aclose()

    async with opener(serve, TLS(ca=authority.pem)) as it:
        with pytest.raises(ConnectionEnded, match=r"TLS: .*: a plain-text port\?$"):
            await it.open(NAME, "127.0.0.1", 2181)


async def test_cancelled_handshake_closes_the_connection(authority: Authority) -> None:
    ended = anyio.Event()
    asked = anyio.Event()

    async def serve(stream: ByteStream) -> None:
        await stream.receive()
        asked.set()
        with pytest.raises(anyio.EndOfStream):
            await stream.receive()
        ended.set()

    async with opener(serve, TLS(ca=authority.pem)) as it:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(it.open, NAME, "127.0.0.1", 2181)
            await asked.wait()
            tasks.cancel_scope.cancel()
        await ended.wait()


async def test_late_refusal_of_a_client_certificate_breaks_the_stream(authority: Authority) -> None:
    """In TLS 1.3, the client's part of the handshake is over when the server looks at it."""
    context = authority.server_context(authority.issue(), wants_client=True)
    context.minimum_version = ssl.TLSVersion.TLSv1_3

    async def serve(stream: ByteStream) -> None:
        # By hand, since anyio keeps to itself the answer of a failed handshake.
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        server = context.wrap_bio(incoming, outgoing, server_side=True)
        while True:
            try:
                server.do_handshake()
            except ssl.SSLWantReadError:
                await stream.send(outgoing.read())
                incoming.write(await stream.receive())
            except ssl.SSLError:
                await stream.send(outgoing.read())
                return

    async with opener(serve, TLS(ca=authority.pem)) as it:
        stream = await it.open(NAME, "127.0.0.1", 2181)
        with pytest.raises(anyio.BrokenResourceError) as caught:
            await stream.receive()
        assert "certificate required" in str(caught.value.__cause__)


async def test_receiving_task_may_send_while_another_task_sends() -> None:
    """As TLS makes it do when the keys are changed: in order, and neither is refused."""
    near, far = memory_stream_pair(capacity=4)
    stream = OneAtATime(near)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(stream.send, b"first, long")
        await anyio.wait_all_tasks_blocked()
        tasks.start_soon(stream.send, b"second")
        await anyio.wait_all_tasks_blocked()
        got = b""
        while len(got) < len(b"first, longsecond"):
            got += await far.receive()
    assert got == b"first, longsecond"


async def test_data_flows_in_both_directions_at_once(served: Served) -> None:
    """It is more than any buffer holds, so that sender and receiver have to alternate."""
    sent = bytes(range(256)) * 2048
    async with served() as it:
        stream = await it.open(NAME, "127.0.0.1", 2181)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stream.send, sent)
            got = b""
            while len(got) < len(sent):
                got += await stream.receive()
        assert got == sent
        await stream.aclose()


# --- clients of the embedded server --------------------------------------------------------------


@pytest.mark.keeps_time(1.0)
async def test_server_that_requires_a_client_certificate(authority: Authority) -> None:
    context = authority.server_context(authority.issue(), wants_client=True)
    mine = authority.issue("app@example.org", common_name="app")
    async with EmbeddedServer(ssl_context=context, require_auth=["x509"]) as server:
        tls = TLS(ca=authority.pem, cert=mine.cert, key=mine.key)
        async with connect(server.connect_string, tls=tls) as client:
            await client.exists("/")
        tls = TLS(ca=authority.pem)
        failed = await why_not_connected(server.connect_string, tls=tls, session_timeout=2)
        assert re.search("TLS: .*certificate required", str(failed))


@pytest.mark.keeps_time(1.0)
async def test_tls_failure_is_named_for_each_server(authority: Authority, tmp_path: Path) -> None:
    stranger = Authority(tmp_path)
    good = authority.server_context(authority.issue())
    bad = stranger.server_context(stranger.issue())
    async with (
        EmbeddedServer(ssl_context=bad) as wrong,
        EmbeddedServer() as plain,
        EmbeddedServer(ssl_context=good) as right,
    ):
        tls = TLS(ca=authority.pem)
        hosts = f"{wrong.connect_string},{plain.connect_string}"
        failed = await why_not_connected(hosts, tls=tls)
        reasons = {name: str(error) for name, error in failed.attempts}
        assert "certificate was refused" in reasons[wrong.connect_string]
        assert "plain-text port?" in reasons[plain.connect_string]
        async with connect(f"{hosts},{right.connect_string}", tls=tls) as client:
            assert client.state is SessionState.CONNECTED


async def test_silent_server_costs_one_attempt(authority: Authority) -> None:
    async with EmbeddedServer(ssl_context=authority.server_context(authority.issue())) as server:
        server.pause()
        with pytest.raises(ConnectFailed) as caught:
            async with connect(
                server.connect_string,
                tls=TLS(ca=authority.pem),
                session_timeout=2,
                connect_timeout=0.9,
            ):
                pass
        assert "in time" in str(caught.value) or "no connection yet" in str(caught.value)


def test_distinguished_names_are_those_of_java() -> None:
    subject = (
        (("countryName", "DE"),),
        (("organizationName", 'A, "B" & Co'),),
        (("organizationalUnitName", "x"), ("userId", "y")),
        (("commonName", " app "),),
    )
    assert distinguished_name(subject) == 'CN=\\ app\\ ,OU=x+UID=y,O=A\\, \\"B\\" & Co,C=DE'


# --- clients of a real server, and of the embedded one -------------------------------------------

KINDS = ["embedded", pytest.param("real", marks=pytest.mark.real)]
ODD = '#1, "A" <B> & \\C = D; +E '
SUBJECT = 'CN=app,OU=*,O=\\#1\\, \\"A\\" \\<B\\> & \\\\C \\= D\\; \\+E\\ '


def serving(
    request: pytest.FixtureRequest, authority: Authority, expires: datetime.datetime | None = None
) -> AbstractContextManager[Ports]:
    """A server of the kind that a fixture is for."""
    if request.param == "real":
        request.getfixturevalue("zookeeper_installed")
    folder = request.getfixturevalue("tmp_path_factory").mktemp("server")
    return tls_server(request.param, authority, authority.issue(expires=expires), folder)


@pytest.fixture(scope="module", params=KINDS)
def ports(request: pytest.FixtureRequest, authority: Authority) -> Iterator[Ports]:
    with serving(request, authority) as ports:
        yield ports


@pytest.fixture(scope="module", params=KINDS)
def expired(request: pytest.FixtureRequest, authority: Authority) -> Iterator[Ports]:
    with serving(request, authority, datetime.datetime(2021, 1, 1, tzinfo=datetime.UTC)) as ports:
        yield ports


like_embedded = pytest.mark.exhaustive("the same as on the embedded server", only="real")


async def why(host: str, port: int, tls: TLS) -> str:
    """Why a connection fails. Clients report it in the same way for every server."""
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


@like_embedded
@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
async def test_large_requests_and_answers_are_encrypted(
    ports: Ports, authority: Authority, host: str, chroot: str
) -> None:
    data = bytes(range(256)) * 2000
    async with connect(f"{host}:{ports.secure}", tls=TLS(ca=authority.pem)) as client:
        await client.create(chroot, data)
        replies = [client.set(chroot, data) for _ in range(5)]
        reads = [client.get(chroot) for _ in range(5)]
        for reply in replies:
            await reply
        for read in reads:
            assert (await read)[0] == data
        with pytest.raises(InvalidACLError):
            await client.create(f"{chroot}/mine", acl=CREATOR_ALL_ACL)
        assert [who.scheme for who in await admin.whoami(client)] == ["ip"]


@like_embedded
async def test_certificate_is_an_identity(ports: Ports, authority: Authority, chroot: str) -> None:
    """The identity is the subject of the certificate, as Java writes it."""
    mine = authority.issue("app@example.org", common_name="app", organization=ODD)
    tls = TLS(ca=authority.pem, cert=mine.cert, key=mine.key)
    async with connect(f"localhost:{ports.secure}", tls=tls) as client:
        identities = {who.scheme: who.id for who in await admin.whoami(client)}
        assert set(identities) == {"x509", "ip"}
        begin, _, end = SUBJECT.partition("*")
        assert identities["x509"].startswith(begin)
        assert identities["x509"].endswith(end)
        await client.create(chroot, acl=CREATOR_ALL_ACL)
        assert (await client.get_acl(chroot))[0] == [ACL.x509(identities["x509"])]
        await client.create(f"{chroot}/other", acl=[ACL.x509("CN=somebody else")])
        with pytest.raises(NoAuthError):
            await client.get(f"{chroot}/other")
    async with connect(f"localhost:{ports.secure}", tls=TLS(ca=authority.pem)) as client:
        with pytest.raises(NoAuthError):
            await client.get(chroot)


async def test_other_authority_is_refused(ports: Ports, tmp_path: Path) -> None:
    stranger = Authority(tmp_path)
    reason = await why("localhost", ports.secure, TLS(ca=stranger.pem))
    assert reason.startswith("TLS: the server's certificate was refused: ")


@like_embedded
async def test_other_host_name_is_refused(ports: Ports, authority: Authority) -> None:
    reason = await why("127.0.0.2", ports.secure, TLS(ca=authority.pem))
    assert "certificate was refused: IP address mismatch" in reason
    tls = TLS(ca=authority.pem, server_hostname="zk.example.org")
    reason = await why("localhost", ports.secure, tls)
    assert "certificate was refused: Hostname mismatch" in reason


@like_embedded
async def test_foreign_client_certificate_is_refused(
    ports: Ports, authority: Authority, tmp_path: Path
) -> None:
    stranger = Authority(tmp_path).issue("app@example.org")
    tls = TLS(ca=authority.pem, cert=stranger.cert, key=stranger.key)
    reason = await why("localhost", ports.secure, tls)
    assert reason.startswith("TLS: ")


async def test_plain_text_port_of_a_server_is_refused(ports: Ports, authority: Authority) -> None:
    reason = await why("localhost", ports.plain, TLS(ca=authority.pem))
    assert reason.endswith("a plain-text port?")


async def test_plain_text_to_a_secure_port_is_refused(ports: Ports) -> None:
    with pytest.raises(ConnectFailed):
        async with connect(f"localhost:{ports.secure}", session_timeout=3, connect_timeout=0.3):
            pass


async def test_files_are_replaced_without_losing_the_session(
    ports: Ports, authority: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The client's certificate, and the authority that has signed those of the servers."""
    ca, cert, key = tmp_path / "ca.pem", tmp_path / "cert.pem", tmp_path / "key.pem"
    streams: list[ByteStream] = []

    async def dial(address: str, port: int) -> ByteStream:
        streams.append(await anyio.connect_tcp(address, port))
        return streams[-1]

    def install(name: str) -> None:
        pem = authority.issue(f"{name}@example.org", common_name=name)
        for source, target in ((authority.pem, ca), (pem.cert, cert), (pem.key, key)):
            target.write_bytes(source.read_bytes())

    async def lose_connections() -> None:
        for stream in streams:
            await stream.aclose()

    async def who() -> str:
        (own,) = [who.id for who in await admin.whoami(client) if who.scheme == "x509"]
        return own.partition(",")[0]

    install("old")
    tls = TLS(ca=ca, cert=cert, key=key)
    async with connect(f"localhost:{ports.secure}", tls=tls, hooks=Hooks(dial=dial)) as client:
        session = client.session_id
        assert await who() == "CN=old"
        install("new")
        assert await who() == "CN=old", "the connection stays"
        await lose_connections()
        assert await who() == "CN=new"
        cert.write_text("nothing that anybody could use")
        with caplog.at_level(logging.WARNING, "aiolead.connection"):
            await lose_connections()
            assert await who() == "CN=new"
        assert "not used" in caplog.text
        assert client.session_id == session


@like_embedded
async def test_expired_certificate_is_refused(expired: Ports, authority: Authority) -> None:
    reason = await why("localhost", expired.secure, TLS(ca=authority.pem))
    assert reason == "TLS: the server's certificate was refused: certificate has expired"
