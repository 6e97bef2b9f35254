"""SASL's DIGEST-MD5, against a real ZooKeeper and the embedded server; and how logins are run."""

from __future__ import annotations

import logging
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import anyio
import pytest
from client.login.login_servers import digest_server
from kit.checks import PATIENCE

from aiolead import ACL, SASL, Auth, admin, connect
from aiolead._client.sasl import Login, Logins
from aiolead.errors import AuthFailedError, ConfigurationError, NoAuthError
from aiolead.model import CREATOR_ALL_ACL, Permission, SessionState
from aiolead.testing import EmbeddedServer

KINDS = ["embedded", pytest.param("real", marks=pytest.mark.real)]
USER, PASSWORD = "ann", 'correct horse, "battery" \\ staple'
USERS = {USER: PASSWORD, "josé": "contraseña", "пётр": "пароль"}

like_embedded = pytest.mark.exhaustive("the same as on the embedded server", only="real")


@pytest.fixture(scope="module", params=KINDS)
def hosts(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    if request.param == "real":
        request.getfixturevalue("zookeeper_installed")
    with digest_server(request.param, USERS, tmp_path_factory.mktemp("server")) as hosts:
        yield hosts


@like_embedded
@pytest.mark.parametrize("user", USERS)
async def test_login_with_the_password_is_an_identity(hosts: str, user: str, chroot: str) -> None:
    async with connect(hosts, sasl=SASL.digest_md5(user, USERS[user])) as client:
        identities = [(who.scheme, who.id) for who in await admin.whoami(client)]
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


@like_embedded
@pytest.mark.parametrize(("user", "password"), [("ann", "wrong"), ("nobody", "wrong")])
async def test_login_without_the_password_is_refused(hosts: str, user: str, password: str) -> None:
    with pytest.raises(AuthFailedError, match="refused the SASL login") as caught:
        async with connect(hosts, sasl=SASL.digest_md5(user, password)):
            pass
    assert password not in str(caught.value)


async def test_login_is_repeated_on_each_connection() -> None:
    """Beside credentials of another scheme."""
    async with (
        EmbeddedServer(sasl_users=USERS, require_auth=["sasl"]) as server,
        connect(
            server.connect_string, sasl=SASL.digest_md5(USER, PASSWORD), auth=[Auth("ip", b"")]
        ) as client,
    ):
        await client.create("/a", acl=[ACL.sasl(USER)])
        session = client.session_id
        server.disconnect()
        await client.get("/a")
        assert client.session_id == session
        assert server.requests["SASL"] == 4


@pytest.mark.parametrize(
    ("user", "password"), [(USER, "wrong"), ("nobody", PASSWORD), (USER, PASSWORD + " ")]
)
@pytest.mark.parametrize("required", [(), ("sasl",)])
async def test_refused_login_is_final(
    user: str, password: str, required: tuple[str, ...], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with EmbeddedServer(sasl_users=USERS, require_auth=required) as server:
        with pytest.raises(AuthFailedError, match="SASL") as caught:
            async with connect(server.connect_string, sasl=SASL.digest_md5(user, password)):
                pass
        assert server.connections == 0
    assert password not in f"{caught.value!r} {caplog.text}"


async def test_login_at_a_server_without_sasl_fails(zk: EmbeddedServer) -> None:
    with pytest.raises(AuthFailedError, match="no SASL login"):
        async with connect(zk.connect_string, sasl=SASL.digest_md5(USER, PASSWORD)):
            pass


@pytest.mark.parametrize("auth", [[], [Auth.digest("a", "b")]])
async def test_server_that_requires_a_login_refuses_other_clients(auth: list[Auth]) -> None:
    async with (
        EmbeddedServer(sasl_users=USERS, require_auth=["sasl"]) as server,
        connect(server.connect_string, auth=auth) as client,
    ):
        with pytest.raises(AuthFailedError, match="authenticated clients only"):
            await client.exists("/")
        assert client.state is SessionState.AUTH_FAILED


async def test_changed_password_ends_a_running_client() -> None:
    users = dict(USERS)
    async with EmbeddedServer(sasl_users=users) as server:
        async with connect(server.connect_string, sasl=SASL.digest_md5(USER, PASSWORD)) as client:
            users[USER] = "new"
            server.disconnect()
            with pytest.raises(AuthFailedError, match="SASL"):
                await client.exists("/")
            assert client.state is SessionState.AUTH_FAILED


def test_invalid_logins_are_refused() -> None:
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
def test_embedded_server_requires_only_what_it_offers(required: list[str]) -> None:
    with pytest.raises(ConfigurationError, match="require_auth"):
        EmbeddedServer(sasl_users=USERS, require_auth=required)


# --- steps that block ----------------------------------------------------------------------------


class Slow:
    """A mechanism that waits for somebody else, as for a KDC."""

    blocks = True
    is_complete = False

    def __init__(self) -> None:
        self.has_begun, self.may_go_on = threading.Event(), threading.Event()
        self.thread: int | None = None
        self.is_daemon = False

    def step(self, challenge: bytes) -> bytes:
        self.thread = threading.get_ident()
        self.is_daemon = threading.current_thread().daemon
        self.has_begun.set()
        self.may_go_on.wait(30)
        self.is_complete = True
        return challenge + b"!"


Answers = list[tuple[bytes | None, bool]]


@asynccontextmanager
async def logging_in(
    mechanism: Slow, threads: anyio.CapacityLimiter, answers: Answers, token: bytes = b""
) -> AsyncIterator[anyio.CancelScope]:
    """A login that has been challenged, and waits."""
    login = Login(mechanism, threads)
    login.challenged(token)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(login.run, lambda *answer: answers.append(answer))
        await anyio.wait_all_tasks_blocked()
        yield tasks.cancel_scope


async def test_blocking_step_runs_in_a_thread() -> None:
    mechanism, answers = Slow(), Answers()
    async with logging_in(mechanism, anyio.CapacityLimiter(1), answers, b"token"):
        assert answers == []
        mechanism.may_go_on.set()
    assert answers == [(b"token!", True)]
    assert mechanism.thread != threading.get_ident()


async def test_cancelled_login_does_not_wait_for_its_step() -> None:
    mechanism, answers = Slow(), Answers()
    with anyio.fail_after(PATIENCE):
        async with logging_in(mechanism, anyio.CapacityLimiter(1), answers) as scope:
            assert mechanism.has_begun.wait(PATIENCE)
            scope.cancel()
    assert not mechanism.may_go_on.is_set()
    assert mechanism.is_daemon  # the end of the process does not wait for it either
    mechanism.may_go_on.set()
    assert answers == []


async def test_abandoned_step_counts_until_it_ends() -> None:
    threads, answers = anyio.CapacityLimiter(1), Answers()
    hung, next_one = Slow(), Slow()
    next_one.may_go_on.set()
    async with logging_in(hung, threads, answers) as scope:
        scope.cancel()
    async with logging_in(next_one, threads, answers):
        assert not next_one.has_begun.is_set()
        hung.may_go_on.set()
    assert answers == [(b"!", True)]
    assert threads.borrowed_tokens == 0


async def test_challenge_goes_to_the_login_of_the_current_connection() -> None:
    logins = Logins(SASL.digest_md5("ann", "secret"))
    logins.challenged(b"before any connection")
    old, new = logins.begin("zk1"), logins.begin("zk2")
    logins.challenged(b"")
    answers = Answers()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(old.run, pytest.fail)
        tasks.start_soon(new.run, lambda *answer: answers.append(answer))
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    assert answers == [(b"", False)]
