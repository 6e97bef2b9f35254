"""Exceptions of signal handlers: Ctrl-C, and what programs have beside it. And the hard stop."""

from __future__ import annotations

import signal
import sys
import threading
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from types import FrameType

import anyio
import pytest
from blocking.threads import Backend, SoftLimit, connect, interrupted_when
from kit.checks import until
from kit.clients import PATIENCE, eventually
from kit.pages import Program

import aiolead
from aiolead import blocking
from aiolead.blocking._inbox import Inbox
from aiolead.testing import ThreadedServer


@pytest.mark.usefixtures("limit")
def test_interrupted_wait_for_a_lock(own: ThreadedServer, backend: Backend) -> None:
    with connect(own) as other:
        with blocking.Lock(other, "/lock"), connect(own, backend) as client:
            lock = blocking.Lock(client, "/lock")
            with blocking.Lock(client, "/outer"):
                for enter in (lock.acquire(), lock, lock.acquire(timeout=PATIENCE)):
                    in_line = interrupted_when(lambda: len(other.get_children("/lock")) == 2)
                    with pytest.raises(SoftLimit), enter:
                        pytest.fail("both have it")
                    in_line.join()
                    # It left the line by that, not by being closed.
                    until(lambda: len(other.get_children("/lock")) == 1, "it has left the line")
            assert other.get_children("/outer") == []
            # All of it works as before.
            with lock.try_acquire() as held:
                assert held is None


@pytest.mark.usefixtures("limit")
def test_interrupted_wait_for_an_answer_and_a_session(
    own: ThreadedServer, client: blocking.Client, backend: Backend
) -> None:
    lock = blocking.Lock(client, "/lock")
    asked = threading.Event()
    ended = threading.Event()

    async def wait_for_ever(_client: aiolead.Client) -> None:
        asked.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()

    with lock as held:
        thread = interrupted_when(asked.is_set)
        with pytest.raises(SoftLimit):
            client.call(wait_for_ever)
        thread.join()
        assert ended.wait(PATIENCE), "the call is cancelled"
        held.verify()
    assert lock.contenders() == []
    own.pause()
    try:
        connections = own.connections
        thread = interrupted_when(lambda: own.connections > connections)
        with pytest.raises(SoftLimit):
            connect(own, backend).__enter__()
        thread.join()
    finally:
        own.resume()


@pytest.mark.usefixtures("limit")
def test_closed_before_an_interrupted_call_has_ended(own: ThreadedServer, backend: Backend) -> None:
    """The next request of the thread waits for it, and raises the loss."""
    connection = connect(own, backend, grace_period=0.1)
    asked = threading.Event()

    async def outlive(client: aiolead.Client) -> None:
        asked.set()
        with anyio.CancelScope(shield=True):
            while client.state is not aiolead.model.SessionState.CLOSED:  # noqa: ASYNC110 - what closes
                await anyio.sleep(0.01)  # it has no event
            await anyio.sleep(0.05)

    client = connection.__enter__()
    with pytest.raises(aiolead.LockLost) as lost, blocking.Lock(client, "/lock"):
        thread = interrupted_when(asked.is_set)
        with pytest.raises(SoftLimit):
            client.call(outlive)
        thread.join()
        closing = threading.Thread(target=connection.__exit__, args=(None, None, None))
        closing.start()
        with pytest.raises((aiolead.LockLost, aiolead.errors.ClientClosedError)):
            client.get("/")
    assert lost.value.reason is aiolead.errors.LossReason.CLOSED
    closing.join()


class _Interrupt:
    """Raises `SoftLimit` at the start of a function of the package, where signals are handled.

    Args:
        after: how many functions start before that.
    """

    def __init__(self, after: int) -> None:
        self._left = after
        self.has_come = False

    def __call__(self, frame: FrameType, event: str, _argument: object) -> None:
        # What a finalizer raises is only printed.
        is_finalizer = frame.f_code.co_name == "__del__"
        is_ours = frame.f_globals.get("__package__") == blocking.__name__ and not is_finalizer
        if event == "call" and is_ours:
            self._left -= 1
            if self._left < 0:
                self.has_come = True
                sys.settrace(None)
                raise SoftLimit


def test_block_is_left_wherever_leaving_is_interrupted(own: ThreadedServer) -> None:
    """At each function that it calls: at the first one, `__exit__`, no code can do anything."""
    with connect(own) as client, connect(own) as other:
        lock = blocking.Lock(client, "/lock")
        tracer = sys.gettrace()
        for after in count(1):
            interrupt = _Interrupt(after)
            try:
                with suppress(SoftLimit), lock.acquire(timeout=PATIENCE):
                    sys.settrace(interrupt)
            finally:
                sys.settrace(tracer)
            with blocking.Lock(other, "/lock").acquire(timeout=PATIENCE):
                pass
            if not interrupt.has_come:
                break
        assert after > 5


SCRIPT = """
import sys
import aiolead
from aiolead import blocking

with blocking.connect(sys.argv[1]) as client:
    lock = blocking.Lock(client, "/lock")
    with blocking.Lock(client, "/mine"):
        try:
            print("waits", flush=True)
            with lock:
                pass
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        with lock:
            pass
"""


def test_ctrl_c(own: ThreadedServer, tmp_path: Path) -> None:
    """Once, and it goes on; twice, and it has ended with nothing left."""
    (tmp_path / "script.py").write_text(SCRIPT)
    with blocking.connect(own.connect_string) as other:

        def line(path: str) -> int:
            return len(other.get_children(path))

        with blocking.Lock(other, "/lock"):
            with Program(str(tmp_path / "script.py"), own.connect_string) as program:
                program.wait_for("waits")
                until(lambda: line("/lock") == 2, "it waits")
                first = set(other.get_children("/lock"))
                program.interrupt()
                program.wait_for("interrupted")
                until(
                    lambda: line("/lock") == 2 and set(other.get_children("/lock")) != first,
                    "it waits again, with another znode",
                )
                program.interrupt()
                assert program.finish() == -signal.SIGINT
                assert len(own.sessions()) == 1
                assert line("/lock") == 1
                assert line("/mine") == 0


STUBBORN = """
import sys, time
import aiolead
from aiolead import blocking

with blocking.connect(sys.argv[1], session_timeout=1.5, watchdog=True) as client:
    with blocking.Lock(client, "/lock") as held:
        print("holds", client.session_id, flush=True)
        time.sleep(60)
"""


def test_watchdog_ends_a_body_that_does_not_stop(own: ThreadedServer, tmp_path: Path) -> None:
    (tmp_path / "stubborn.py").write_text(STUBBORN)
    with Program(str(tmp_path / "stubborn.py"), own.connect_string) as program:
        session = int(program.wait_for(r"holds (\d+)")[1])
        own.expire_session(session)
        program.wait_for("aiolead: held for too long: /lock/.*although the session expired")
        assert program.finish() == 70


ON_LOST = """
import atexit, contextlib, signal, sys, threading, time
import aiolead
from aiolead import blocking

def interrupt(lost):
    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

until_exit = contextlib.ExitStack()
atexit.register(until_exit.close)
client = until_exit.enter_context(blocking.connect(sys.argv[1]))
try:
    with blocking.Lock(client, "/lock").acquire(on_lost=interrupt):
        print("holds", client.session_id, flush=True)
        time.sleep(60)
except KeyboardInterrupt as interrupted:
    print(interrupted.__notes__, flush=True)
"""


def test_loss_can_interrupt_the_main_thread(own: ThreadedServer, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(ON_LOST)
    with Program(str(tmp_path / "script.py"), own.connect_string) as program:
        own.expire_session(int(program.wait_for(r"holds (\d+)")[1]))
        program.wait_for(r"lock of /lock lost .*: the session expired")
        assert program.finish() == 0
        assert "Traceback" not in "".join(program.lines)
    assert own.sessions() == {}, "closed as the program ends"


@pytest.mark.usefixtures("limit")
def test_interrupted_wait_of_a_condition_ends_the_block(client: blocking.Client) -> None:
    condition = blocking.Condition(client, "/condition")
    with pytest.raises(aiolead.errors.UsageError, match="a wait was cancelled"), condition as held:
        thread = interrupted_when(lambda: len(condition.waiters()) == 1)
        with pytest.raises(SoftLimit):
            held.wait()
        with pytest.raises(aiolead.errors.UsageError, match="leave its `with` block"):
            while True:
                client.get("/")
    thread.join()
    assert condition.contenders() == []


def test_thread_never_waits_for_a_busy_event_loop(backend: Backend) -> None:
    """Nor do signal handlers, which may fill the socket that wakes it."""
    inbox, ran = Inbox(), list[int]()
    for number in range(2000):
        inbox.post(partial(ran.append, number))

    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(inbox.receive, backend)
            await eventually(lambda: len(ran) == 2000, "all are run")
            inbox.close()

    anyio.run(main, backend=backend)
    inbox.release()
    assert ran == list(range(2000))


@pytest.mark.usefixtures("limit")
def test_interrupted_request_is_not_sent(own: ThreadedServer, backend: Backend) -> None:
    """The event loop is busy; the thread gives up before the loop looks what it was asked for."""
    with connect(own, backend) as client:
        is_busy, go_on = threading.Event(), threading.Event()

        async def block(_client: aiolead.Client) -> None:
            is_busy.set()
            go_on.wait(PATIENCE)

        busy = threading.Thread(target=client.call, args=(block,))
        busy.start()
        assert is_busy.wait(PATIENCE)
        asks = interrupted_when(lambda: client._loop._inbox._posted)  # type: ignore[attr-defined]
        with pytest.raises(SoftLimit):
            client.set("/", b"never")
        go_on.set()
        busy.join()
        asks.join()
        assert client.get("/")[0] == b""
    assert own.requests["SET_DATA"] == 0
