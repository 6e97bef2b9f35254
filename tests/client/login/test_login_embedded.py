"""Logging in, on the embedded server: TLS, SASL, credentials at run time, and who may do what."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest
from client.login.certificates import Authority
from client.login.login_servers import why_not_connected

from aiolead import ACL, SASL, TLS, Auth, connect
from aiolead.errors import (
    AuthFailedError,
    ConfigurationError,
    ConnectFailed,
    InvalidACLError,
    NoAuthError,
)
from aiolead.model import CREATOR_ALL_ACL, Permission, SessionState
from aiolead.testing import EmbeddedServer
from aiolead.testing._tls import distinguished_name

USER, PASSWORD = "ann", 'correct horse, "battery" \\ staple'
USERS = {USER: PASSWORD, "josé": "contraseña", "пётр": "пароль"}


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


# --- TLS ---------------------------------------------------------------------------------------


@pytest.mark.keeps_time(1.0)
async def test_tls_with_a_client_certificate(authority: Authority) -> None:
    context = authority.server_context(authority.issue(), wants_client=True)
    mine = authority.issue("app@example.org", common_name="app")
    tls = TLS(ca=authority.pem, cert=mine.cert, key=mine.key)
    async with EmbeddedServer(ssl_context=context, require_auth=["x509"]) as server:
        async with connect(server.connect_string, tls=tls) as client:
            (identity,) = [who for who in await client.whoami() if who.scheme == "x509"]
            assert identity.id.startswith("CN=app,")
            await client.create("/mine", acl=CREATOR_ALL_ACL)
            assert (await client.get_acl("/mine"))[0] == [ACL.x509(identity.id)]
            await client.create("/other", acl=[ACL.x509("CN=somebody else")])
            with pytest.raises(NoAuthError):
                await client.get("/other")
        tls = TLS(ca=authority.pem)
        failed = await why_not_connected(server.connect_string, tls=tls, session_timeout=2)
        assert re.search("TLS: .*certificate required", str(failed))


@pytest.mark.keeps_time(1.0)
async def test_failures_of_tls_say_why_for_each_server(
    authority: Authority, tmp_path: Path
) -> None:
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


async def test_certificates_are_replaced_without_losing_the_session(
    authority: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The client's certificate, and the authority that the servers' are signed by."""
    ca, cert, key = tmp_path / "ca.pem", tmp_path / "cert.pem", tmp_path / "key.pem"
    context = authority.server_context(authority.issue(), wants_client=True)

    def install(name: str) -> None:
        pem = authority.issue(f"{name}@example.org", common_name=name)
        for source, target in ((authority.pem, ca), (pem.cert, cert), (pem.key, key)):
            target.write_bytes(source.read_bytes())

    async def who() -> str:
        return next(who.id for who in await client.whoami() if who.scheme == "x509")

    install("old")
    async with (
        EmbeddedServer(ssl_context=context) as server,
        connect(server.connect_string, tls=TLS(ca=ca, cert=cert, key=key)) as client,
    ):
        session = client.session_id
        assert (await who()).startswith("CN=old,")
        install("new")
        assert (await who()).startswith("CN=old,"), "what is connected stays connected"
        server.disconnect()
        assert (await who()).startswith("CN=new,")
        cert.write_text("nothing that anybody could use")
        with caplog.at_level(logging.WARNING, "aiolead.connection"):
            server.disconnect()
            assert (await who()).startswith("CN=new,")
        assert "not used" in caplog.text
        assert client.session_id == session


async def test_a_server_that_accepts_and_says_nothing_costs_an_attempt_only(
    authority: Authority,
) -> None:
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


async def test_large_answers_and_requests(authority: Authority) -> None:
    context = authority.server_context(authority.issue())
    data = bytes(range(256)) * 3000
    async with EmbeddedServer(ssl_context=context) as server:
        async with connect(server.connect_string, tls=TLS(ca=authority.pem)) as client:
            await client.create("/a", data)
            replies = [client.set("/a", data) for _ in range(5)]
            reads = [client.get("/a") for _ in range(5)]
            for reply in replies:
                await reply
            for read in reads:
                assert (await read)[0] == data


def test_distinguished_names_are_those_of_java() -> None:
    subject = (
        (("countryName", "DE"),),
        (("organizationName", 'A, "B" & Co'),),
        (("organizationalUnitName", "x"), ("userId", "y")),
        (("commonName", " app "),),
    )
    assert distinguished_name(subject) == 'CN=\\ app\\ ,OU=x+UID=y,O=A\\, \\"B\\" & Co,C=DE'


# --- SASL --------------------------------------------------------------------------------------


@pytest.mark.parametrize("user", USERS)
async def test_sasl_digest_md5(user: str) -> None:
    async with EmbeddedServer(sasl_users=USERS, require_auth=["sasl"]) as server:
        async with connect(
            server.connect_string, sasl=SASL.digest_md5(user, USERS[user]), auth=[Auth("ip", b"")]
        ) as client:
            assert ("sasl", user) in [(who.scheme, who.id) for who in await client.whoami()]
            await client.create("/a", acl=[ACL.sasl(user), ACL.world(Permission.READ)])
            session = client.session_id
            server.disconnect()
            await client.get("/a")
            assert client.session_id == session
        assert server.requests["SASL"] == 4


@pytest.mark.parametrize(
    ("user", "password"), [(USER, "wrong"), ("nobody", PASSWORD), (USER, PASSWORD + " ")]
)
@pytest.mark.parametrize("required", [(), ("sasl",)])
async def test_a_refused_login_is_final(
    user: str, password: str, required: tuple[str, ...], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with EmbeddedServer(sasl_users=USERS, require_auth=required) as server:
        with pytest.raises(AuthFailedError, match="SASL") as caught:
            async with connect(server.connect_string, sasl=SASL.digest_md5(user, password)):
                pass
        assert server.connections == 0
    assert password not in f"{caught.value!r} {caplog.text}"


async def test_a_server_without_sasl() -> None:
    async with EmbeddedServer() as server:
        with pytest.raises(AuthFailedError, match="no SASL login"):
            async with connect(server.connect_string, sasl=SASL.digest_md5(USER, PASSWORD)):
                pass


async def test_a_server_that_takes_nobody_without_a_login() -> None:
    async with EmbeddedServer(sasl_users=USERS, require_auth=["sasl"]) as server:
        async with connect(server.connect_string) as client:
            with pytest.raises(AuthFailedError, match="authenticated clients only"):
                await client.exists("/")
            assert client.state is SessionState.AUTH_FAILED
        async with connect(server.connect_string, auth=[Auth.digest("a", "b")]) as client:
            with pytest.raises(AuthFailedError):
                await client.exists("/")


async def test_a_password_that_changes_ends_a_running_client() -> None:
    users = dict(USERS)
    async with EmbeddedServer(sasl_users=users) as server:
        async with connect(server.connect_string, sasl=SASL.digest_md5(USER, PASSWORD)) as client:
            users[USER] = "new"
            server.disconnect()
            with pytest.raises(AuthFailedError, match="SASL"):
                await client.exists("/")
            assert client.state is SessionState.AUTH_FAILED


def test_what_is_no_login() -> None:
    for make in (
        lambda: SASL.digest_md5("", "x"),
        lambda: SASL.digest_md5("x", ""),
        lambda: SASL.digest_md5("x", "\ud800"),
        lambda: SASL.digest_md5("x", b"secret"),  # type: ignore[arg-type]
        lambda: connect("127.0.0.1", sasl="secret"),  # type: ignore[arg-type]
        lambda: connect("127.0.0.1", sasl=Auth.digest("x", "secret")),  # type: ignore[arg-type]
    ):
        with pytest.raises(ConfigurationError) as caught:
            make()
        assert "secret" not in str(caught.value)
    assert PASSWORD not in repr(SASL.digest_md5(USER, PASSWORD))


@pytest.mark.parametrize("required", ["sasl", ["kerberos"], ["x509"]])
def test_the_embedded_server_requires_only_what_it_offers(required: list[str]) -> None:
    with pytest.raises(ConfigurationError, match="require_auth"):
        EmbeddedServer(sasl_users=USERS, require_auth=required)


# --- at run time -------------------------------------------------------------------------------


async def test_credentials_added_at_run_time() -> None:
    ann = Auth.digest("ann", "secret")
    async with EmbeddedServer() as server:
        async with connect(server.connect_string) as client:
            await client.create("/a", b"data", acl=[ACL.digest("ann", "secret")])
            with pytest.raises(NoAuthError):
                await client.get("/a")
            added, read = client.add_auth(ann), client.get("/a")
            assert (await read)[0] == b"data"
            assert await added is None
            server.disconnect()
            assert (await client.get("/a"))[0] == b"data", "they are replayed"
            with pytest.raises(ConfigurationError) as caught:
                client.add_auth(("digest", b"ann:secret"))  # type: ignore[arg-type]
            assert "secret" not in str(caught.value)


async def test_credentials_that_are_refused_at_run_time() -> None:
    async with EmbeddedServer() as server, connect(server.connect_string) as client:
        with pytest.raises(AuthFailedError, match="refused the credentials"):
            await client.add_auth(Auth("nonsense", b"x"))
        with pytest.raises(AuthFailedError):
            await client.exists("/")
        assert client.state is SessionState.AUTH_FAILED


async def test_credentials_added_while_there_is_no_connection() -> None:
    async with EmbeddedServer() as server, connect(server.connect_string) as client:
        await client.create("/a", b"data", acl=[ACL.digest("ann", "secret")])
        await server.stop()
        async with client.observe() as states:
            async for change in states:
                if change.state is SessionState.SUSPENDED:
                    break
        added = client.add_auth(Auth.digest("ann", "secret"))
        await server.start()
        await added
        assert (await client.get("/a"))[0] == b"data"


# --- ACL entries -------------------------------------------------------------------------------


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
def test_what_is_no_acl_entry(make: object) -> None:
    with pytest.raises(ConfigurationError):
        make()  # type: ignore[operator]


async def test_a_server_takes_only_entries_of_schemes_that_it_has() -> None:
    async with EmbeddedServer() as server, connect(server.connect_string) as client:
        for entry in (ACL.sasl("ann"), ACL.x509("CN=app"), ACL.auth()):
            with pytest.raises(InvalidACLError):
                await client.create("/a", acl=[entry])
        await client.create("/a", acl=[ACL.ip("127.0.0.1/8", Permission.READ)])
        await client.get("/a")
        with pytest.raises(NoAuthError):
            await client.set("/a", b"")
    async with EmbeddedServer(sasl_users=USERS) as server:
        async with connect(server.connect_string) as client:
            await client.create("/a", acl=[ACL.sasl("ann@EXAMPLE.ORG")])
            with pytest.raises(InvalidACLError):
                await client.create("/b", acl=[ACL.sasl("ann@EXAMPLE@ORG")])
