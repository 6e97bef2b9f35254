"""Where it may be used: not in an event loop, not in a forked child; and the public names."""

from __future__ import annotations

import asyncio
import inspect
import re
import subprocess
import sys
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from blocking.threads import Backend, in_daemon
from kit.checks import PATIENCE, check_each
from kit.cli import environment
from tools.write_blocking import SOURCES, is_constructed

import aiolead
from aiolead import blocking
from aiolead.testing import EmbeddedServer, ThreadedServer

# --- event loops ---------------------------------------------------------------------------------


def _asked(server: ThreadedServer) -> int:
    """How much was asked of it that the client does not ask by itself."""
    requests = server.requests
    return sum(requests[name] for name in ("CONNECT", "CREATE2", "DELETE"))


async def test_use_in_a_thread_with_an_event_loop_is_refused(own: ThreadedServer) -> None:
    there = blocking.connect(own.connect_string)

    def elsewhere() -> None:
        with there as client:
            lock = blocking.Lock(client, "/lock")
            with lock as held:
                anyio.from_thread.run(here, client, lock, held)

    async def here(client: blocking.Client, lock: blocking.Lock, held: blocking.Held) -> None:
        sent = _asked(own)
        for use in (
            blocking.connect(own.connect_string).__enter__,
            lambda: client.create("/a"),
            lambda: client.call(lambda c: c.create("/a")),
            lambda: blocking.Lock(client, "/lock"),
            lock.__enter__,
            held.verify,
            held.release,
        ):
            with pytest.raises(
                aiolead.errors.UsageError, match="in a thread that runs an event loop"
            ):
                use()
        assert _asked(own) == sent
        held.check()  # waits for nobody
        assert held.is_held

    await anyio.to_thread.run_sync(elsewhere)


def test_use_in_its_own_event_loop_is_refused(own: ThreadedServer) -> None:
    """In another thread, which alone hangs if it is not refused: nothing could end that wait."""

    def use() -> list[str]:
        with blocking.connect(own.connect_string) as client:

            async def call_back(_client: aiolead.Client) -> None:
                assert client.statistics().in_flight == 0  # nobody waits for that
                client.get("/")

            with pytest.raises(
                aiolead.errors.UsageError, match="in a thread that runs an event loop"
            ):
                client.call(call_back)
            return client.get_children("/")

    assert in_daemon(use).result(PATIENCE) == ["zookeeper"]


def test_called_function_may_fail_in_any_way(own: ThreadedServer) -> None:
    """The event loop is not the worse for it."""
    with blocking.connect(own.connect_string) as client:
        for error in (
            SystemExit(1),
            KeyboardInterrupt(),
            GeneratorExit(),
            asyncio.CancelledError(),
        ):

            async def fail(_client: aiolead.Client, error: BaseException = error) -> None:
                raise error

            with pytest.raises((type(error), aiolead.errors.ClientClosedError)):
                client.call(fail)
        assert client.get_children("/") == ["zookeeper"]


# --- fork ----------------------------------------------------------------------------------------

PARENT = """
import os, sys
import aiolead
from aiolead import blocking

def child(client, lock, held):
    refused = 0
    for use in (
        lambda: client.get("/"),
        lambda: blocking.Lock(client, "/other"),
        lock.__enter__,
        lock.holders,
        held.check,
        held.verify,
        held.release,
        lambda: held.fenced().set("/", b""),
        client.transaction().set("/", b"").commit,
    ):
        try:
            use()
        except aiolead.errors.UsageError as error:
            assert f"of which this one, {os.getpid()}, was forked" in str(error), error
            refused += 1
    assert not held.is_held and held.remaining() == 0.0
    with blocking.connect(sys.argv[1], session_timeout=2) as own:
        assert own.exists(held.path).ephemeral_owner == held.session_id
        assert own.session_id != held.session_id
    print("refused:", refused, flush=True)

pid = -1
with blocking.connect(sys.argv[1], session_timeout=2, backend=sys.argv[2]) as client:
    lock = blocking.Lock(client, "/lock")
    try:
        with lock as held:
            pid = os.fork()
            if pid == 0:
                child(client, lock, held)
            else:
                assert os.waitpid(pid, 0)[1] == 0
                held.verify()
    except aiolead.errors.UsageError as error:
        print("left:", error, flush=True)
if pid:
    print("parent: done", flush=True)
"""

# The warning of Python 3.12 and newer. The event loop of the client runs in a thread.
WARNED = (
    r".*/parent\.py:\d+: DeprecationWarning: This process \(pid=\d+\) is multi-threaded, "
    r"use of fork\(\) may lead to deadlocks in the child\.\n  pid = os\.fork\(\)\n"
)


def test_use_in_a_forked_child_is_refused(backend: str, tmp_path: Path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    with EmbeddedServer.in_thread() as server:
        done = subprocess.run(
            [sys.executable, str(script), server.connect_string, backend],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env=environment(),
        )
        assert done.returncode == 0, done.stderr
        refused, left, parent = done.stdout.splitlines()
        assert refused == "refused: 9"
        assert left.startswith("left: the client belongs to process ")
        assert parent == "parent: done"
        warned = WARNED if sys.version_info >= (3, 12) else ""
        assert re.fullmatch(warned, done.stderr), done.stderr
        assert server.requests["CLOSE_SESSION"] == 2  # the child's own, and the parent's
        assert server.sessions() == {}


# --- public names --------------------------------------------------------------------------------


def test_connect_takes_the_options_of_aiolead() -> None:
    theirs = dict(inspect.signature(aiolead.connect).parameters)
    ours = dict(inspect.signature(blocking.connect).parameters)
    assert set(ours) - set(theirs) == {"backend", "backend_options"}
    assert {name: ours.get(name) for name in theirs} == theirs


@check_each("name", sorted(filter(is_constructed, SOURCES)))
def test_recipes_take_the_arguments_of_aiolead(name: str) -> None:
    def parameters(cls: type) -> dict[str, tuple[object, str]]:
        made = inspect.signature(cls).parameters.values()
        return {p.name: (p.kind, str(p.default)) for p in made}

    assert parameters(getattr(blocking, name)) == parameters(SOURCES[name])


def test_names_are_sorted_and_documented() -> None:
    assert sorted(blocking.__all__) == blocking.__all__
    for name in blocking.__all__:
        thing = getattr(blocking, name)
        assert thing.__doc__, name
        if inspect.isclass(thing):
            for method, function in inspect.getmembers(thing):
                if not method.startswith("_") and (
                    inspect.isfunction(function) or isinstance(function, property)
                ):
                    assert inspect.getdoc(function) or method == "path", f"{name}.{method}"


@pytest.mark.parametrize("backend", ["uvloop", None])
def test_unknown_backend_is_refused(backend: object) -> None:
    with pytest.raises(aiolead.errors.ConfigurationError, match="backend"):
        blocking.connect("127.0.0.1:1", backend=backend)  # type: ignore[arg-type]


def test_trio_that_is_not_installed_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "trio", None)
    with pytest.raises(aiolead.errors.ConfigurationError, match=r"pip install .aiolead\[trio\]"):
        blocking.connect("127.0.0.1:1", backend="trio")
    # A connection that was not entered has nothing to close.
    blocking.connect("127.0.0.1:1").__exit__(None, None, None)


def test_unreachable_server(backend: Backend) -> None:
    connection = blocking.connect("127.0.0.1:1", connect_timeout=0.2, backend=backend)
    with pytest.raises(aiolead.errors.ConnectFailed) as failed, connection:
        pass
    assert failed.value.attempts
    with pytest.raises(aiolead.errors.UsageError, match="entered already"):
        connection.__enter__()
