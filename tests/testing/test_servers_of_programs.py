"""The servers and proxies of programs that end early, fork, or use them at the wrong time."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kit.checks import PATIENCE
from kit.elsewhere import in_child

from aiolead import blocking
from aiolead.errors import UsageError
from aiolead.testing import BlockingServer, EmbeddedServer, FaultProxy, GivenServer, Sandbox
from aiolead.testing.threaded import ThreadedServer

pytestmark = pytest.mark.timeout(60)

ROOT = Path(__file__).parents[2]

NOT_LEFT = {
    "abandoned": "server = EmbeddedServer.in_thread().__enter__()",
    "in_a_generator": """
def serving():
    with EmbeddedServer.in_thread() as server:
        yield server

held = serving()
server = next(held)
""",
    "before_a_proxy": """
def serving():
    with EmbeddedServer.in_thread() as server:
        with FaultProxy("127.0.0.1", server.port) as proxy:
            yield server

held = serving()
server = next(held)
""",
}


@pytest.mark.parametrize("how", NOT_LEFT)
def test_program_ends_although_its_server_was_not_left(how: str) -> None:
    program = f"""
import sys
from aiolead.testing import EmbeddedServer, FaultProxy
{NOT_LEFT[how]}
print(server.znodes())
sys.exit(3)
"""
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        capture_output=True,
        cwd=ROOT,
        text=True,
        timeout=PATIENCE,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (3, "[]\n", "")


@pytest.fixture
def server() -> Iterator[ThreadedServer]:
    with EmbeddedServer.in_thread() as server:
        yield server


def refused(act: Callable[[], Any]) -> str:
    """The message of the error for what belongs to the parent."""
    with pytest.raises(UsageError) as error:
        act()
    return str(error.value)


def test_forked_child_leaves_the_embedded_server_alone(server: ThreadedServer) -> None:
    def child() -> str:
        server.__exit__(None, None, None)
        return refused(server.znodes)

    assert "was forked" in in_child(child)
    assert server.znodes() == []


def test_forked_child_leaves_the_proxy_alone(server: ThreadedServer) -> None:
    with FaultProxy("127.0.0.1", server.port) as proxy:

        def child() -> str:
            proxy.close()
            return refused(proxy.reset)

        with blocking.connect(proxy.connect_string) as client:
            assert "was forked" in in_child(child)
            assert client.get_children("/") == ["zookeeper"]
        with blocking.connect(proxy.connect_string):
            pass


def test_forked_child_leaves_the_chroot_alone(server: ThreadedServer) -> None:
    with Sandbox(GivenServer(server.connect_string)) as sandbox:
        in_child(lambda: sandbox.__exit__(None, None, None))
        assert sandbox.chroot in server.znodes()
    assert sandbox.chroot not in server.znodes()


@pytest.mark.usefixtures("real_server")
def test_forked_child_leaves_the_real_server_alone() -> None:
    with BlockingServer() as server:

        def child() -> list[str]:
            server.close()
            verbs: list[Callable[[], Any]] = [
                server.start,
                server.stop,
                server.kill,
                server.pause,
                server.ensure_serving,
                lambda: server.pid,
            ]
            return list(map(refused, verbs))

        assert all("was forked" in message for message in in_child(child))
        assert server.is_serving()
        assert server.log.exists()


def test_left_server_says_so(server: ThreadedServer) -> None:
    with EmbeddedServer.in_thread() as other:
        pass
    for act in (other.znodes, other.stop, lambda: other.port, lambda: other.requests):
        with pytest.raises(UsageError, match="was left"):
            act()
    with pytest.raises(UsageError, match="only once"):
        other.__enter__()
    other.__exit__(None, None, None)


def test_proxy_has_no_address_before_it_starts() -> None:
    proxy = FaultProxy("127.0.0.1", 1)
    with pytest.raises(UsageError, match="was not started"):
        _ = proxy.connect_string


@pytest.mark.anyio
async def test_server_and_proxy_are_used_beside_any_event_loop() -> None:
    """Trio marks its tasks by a context variable, which orders to the thread must not take over."""
    with EmbeddedServer.in_thread() as server, FaultProxy("127.0.0.1", server.port) as proxy:
        proxy.reset()
        server.stop()
        server.start()
        assert server.znodes() == []
