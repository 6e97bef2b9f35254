"""The pytest plugin, as its users have it: in sessions of their own, beside their other plugins."""

from __future__ import annotations

import tomllib
from pathlib import Path

import anyio
import pytest
from kit.raw_client import RawClient

import aiolead
from aiolead.errors import ConfigurationError, ServerError, UsageError
from aiolead.model import CreateMode
from aiolead.testing import (
    BlockingEnsemble,
    EmbeddedServer,
    EnsembleSandbox,
    GivenServer,
    OpCode,
    Sandbox,
)

# Each of the sessions below is a process of its own, which takes its time on a busy machine.
pytestmark = pytest.mark.timeout(180)

ROOT = Path(aiolead.__file__).parents[1]
PLUGIN = "aiolead.pytest_plugin"


@pytest.fixture(autouse=True)
def _only_what_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions have the plugins of their command line, whatever is installed here."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)


def _run(pytester: pytest.Pytester, *options: str) -> pytest.RunResult:
    return pytester.runpytest_subprocess("-p", PLUGIN, *options, timeout=150)


def test_entry_point_names_the_plugin() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"aiolead": PLUGIN}
    assert (ROOT / PLUGIN.replace(".", "/")).with_suffix(".py").is_file()


_EVERYBODY = """
import asyncio

import aiolead
import kazoo.client
import pytest

CHROOTS = []


@pytest.fixture(autouse=True)
def each_test_has_a_chroot_of_its_own(zookeeper):
    assert zookeeper.chroot not in CHROOTS
    CHROOTS.append(zookeeper.chroot)


async def lead(zookeeper_client):
    async with zookeeper_client(session_timeout=8) as client:
        assert client.session_timeout == 8
        assert await client.get_children("/") == []
        async with aiolead.Election(client, "/election").leadership() as term:
            assert term.is_held


@pytest.mark.anyio
async def test_anyio(zookeeper_client):
    await lead(zookeeper_client)


@pytest.mark.asyncio
async def test_asyncio(zookeeper_client):
    await lead(zookeeper_client)


@pytest.mark.trio
async def test_trio(zookeeper_client):
    await lead(zookeeper_client)


def test_none(zookeeper_client):
    asyncio.run(lead(zookeeper_client))


def test_kazoo(zookeeper):
    client = kazoo.client.KazooClient(zookeeper.connect_string)
    client.start()
    try:
        assert client.get_children("/") == []
        client.create("/mine", ephemeral=True)
        zookeeper.expire_session(client)
        assert zookeeper.chroot + "/mine" not in zookeeper.server.znodes()
    finally:
        client.stop()
        client.close()


def test_a_broken_server(zookeeper):
    zookeeper.server.stop()


def test_is_whole_again_for_the_next_test(zookeeper_client):
    asyncio.run(lead(zookeeper_client))


def test_own_proxy(zookeeper, zookeeper_proxy):
    async def meet():
        async with aiolead.connect(zookeeper_proxy.connect_string) as client:
            await client.create("/met")

    asyncio.run(meet())
    assert zookeeper.chroot + "/met" in zookeeper.server.znodes()
    assert zookeeper_proxy.requests["CREATE2"] == 1
    assert zookeeper.proxy().port != zookeeper_proxy.port
"""


def test_plugin_works_beside_every_other_plugin(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(_EVERYBODY)
    others = ["anyio.pytest_plugin", "pytest_asyncio.plugin", "pytest_trio.plugin"]
    options = [option for name in others for option in ("-p", name)]
    # pytest-asyncio warns without this option.
    options += ["-o", "asyncio_default_fixture_loop_scope=function"]
    result = _run(pytester, *options, "-W", "error")
    result.assert_outcomes(passed=9)  # anyio's plugin runs its test on asyncio and on trio


def test_unused_plugin_imports_nothing(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import sys

        def test_it():
            heavy = {"anyio", "asyncio", "kazoo", "ssl", "trio"}
            assert heavy & {name.partition(".")[0] for name in sys.modules} == set()
            ours = {name for name in sys.modules if name.partition(".")[0] == "aiolead"}
            ours -= {"aiolead", "aiolead._util", "aiolead._util.lazy"}
            assert ours == {"aiolead.pytest_plugin"}
        """
    )
    _run(pytester).assert_outcomes(passed=1)


_GIVEN = """
import asyncio

import aiolead
import pytest


def test_it(zookeeper):
    assert not zookeeper.is_embedded
    with pytest.raises(aiolead.errors.UsageError, match="embedded server"):
        zookeeper.server

    async def write():
        async with aiolead.connect(zookeeper.connect_string) as client:
            await client.ensure_path("/a/b/c")

    asyncio.run(write())
"""


def test_given_server_is_left_clean(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(_GIVEN)
    with EmbeddedServer.in_thread() as server:
        hosts = f"{server.connect_string}/below/this"
        result = _run(pytester, f"--zookeeper-url={hosts}")
        result.assert_outcomes(passed=1)
        result.stdout.fnmatch_lines([f"zookeeper: {hosts}"])
        assert server.znodes() == ["/below", "/below/this"]
        assert server.requests["CREATE2"] >= 4


@pytest.mark.exhaustive("the test kit's servers, which other tests start, kill and isolate")
def test_invalid_address_is_reported(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(_GIVEN)
    pytester.makeini("[pytest]\nzookeeper_url = zk1:port\n")
    result = _run(pytester)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*InvalidConnectStringError: *'port' is no port*"])


@pytest.mark.exhaustive("the test kit's servers, which other tests start, kill and isolate")
@pytest.mark.parametrize("by", ["option", "setting"])
def test_version_of_the_embedded_server(pytester: pytest.Pytester, by: str) -> None:
    pytester.makepyfile(
        """
        import socket

        def test_it(zookeeper):
            address = ("127.0.0.1", zookeeper.server.port)
            with socket.create_connection(address, 30) as link:
                link.sendall(b"srvr")
                assert link.makefile("rb").read().startswith(b"Zookeeper version: 3.9.3-")
        """
    )
    if by == "setting":
        pytester.makeini("[pytest]\nzookeeper_version = 3.9.3\n")
    result = _run(pytester, *["--zookeeper-version=3.9.3"] * (by == "option"))
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["zookeeper: 3.9.3"])


@pytest.mark.exhaustive("the test kit's servers, which other tests start, kill and isolate")
def test_missing_version_is_reported(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_it(zookeeper_ensemble): pass")
    result = _run(pytester, "--zookeeper-version=3.0.99")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*ZooKeeperNotFoundError: *"])


# --- what the fixtures give --------------------------------------------------------------------


def test_session_of_a_given_server_expires_by_its_password() -> None:
    with EmbeddedServer.in_thread() as server, Sandbox(GivenServer(server.connect_string)) as box:
        with RawClient(box.connect_string) as client:
            session = client.session
            client.create("/mine", flags=CreateMode.EPHEMERAL)
            with pytest.raises(UsageError, match="password"):
                box.expire_session(session.session_id)
            box.expire_session(_AsKazoo((session.session_id, session.password)))
            assert server.znodes() == [box.chroot]
            assert server.sessions() == {}


async def test_session_of_a_client_expires() -> None:
    with EmbeddedServer.in_thread() as server, Sandbox(GivenServer(server.connect_string)) as box:
        async with aiolead.connect(box.connect_string) as client, client.observe() as states:
            first = client.session_id
            box.expire_session(client)
            assert first not in server.sessions()
            with anyio.fail_after(30):
                async for change in states:
                    if change.state is aiolead.model.SessionState.EXPIRED:
                        break
            assert change.session_id == first


class _AsKazoo:
    def __init__(self, client_id: tuple[int, bytes] | None) -> None:
        self.client_id = client_id


def test_unknown_session_cannot_expire() -> None:
    with EmbeddedServer.in_thread() as server, Sandbox(server) as box:
        with pytest.raises(UsageError, match="no session"):
            box.expire_session(_AsKazoo(None))
        with pytest.raises(UsageError, match="no session 0x7"):
            box.expire_session(7)


def test_sandbox_heals_the_embedded_server() -> None:
    with EmbeddedServer.in_thread() as server:
        with Sandbox(server):
            server.set_read_only(True)
            server.slow_down(1.0)
            server.limit_requests(50)
            server.drop_reply(OpCode.CREATE)
            server.drop_request(OpCode.CREATE)
            server.throttle(OpCode.CREATE)
            server.pause()
            server.stop()
        with RawClient(server.connect_string) as client:
            assert client.create("/x") == "/x"
            assert client.create("/longer", bytes(100)) == "/longer"


def test_request_above_the_limit_closes_the_connection() -> None:
    with EmbeddedServer.in_thread(max_frame=1000) as server:
        server.limit_requests(100)
        with RawClient(server.connect_string) as client:
            assert client.create("/short") == "/short"
            with pytest.raises((ConnectionError, EOFError)):
                client.create("/long", bytes(100))
        for size in (0, 1001):
            with pytest.raises(ConfigurationError, match="size: must be 1 to 1000 bytes"):
                server.limit_requests(size)


def test_znode_created_by_the_server() -> None:
    with EmbeddedServer.in_thread() as server, RawClient(server.connect_string) as client:
        server.create("/a", b"data")
        assert client.get("/a") == b"data"
        zxid = server.zxid
        with pytest.raises(ServerError):
            server.create("/a")
        with pytest.raises(ServerError):
            server.create("/none/b")
        assert server.zxid == zxid + 2


@pytest.mark.exhaustive("the test kit's servers, which other tests start, kill and isolate")
def test_sandbox_restores_the_ensemble(
    real_ensemble: BlockingEnsemble,
) -> None:
    with EnsembleSandbox(real_ensemble) as box:
        first, second, third = real_ensemble.servers
        with RawClient(box.connect_string) as client:
            client.create("/x")
        first.kill()
        second.pause()
        real_ensemble.isolate(third)
    assert all(server.is_serving() for server in real_ensemble.servers)
    with RawClient(box.hosts) as client:
        client.sync("/")
        assert client.children(box.chroot) == ["x"]
        client.delete(f"{box.chroot}/x")
        client.delete(box.chroot)
