"""Closing a client that other threads go on using."""

from __future__ import annotations

import gc
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

import anyio
import pytest
from blocking.threads import Backend, connect, in_daemon
from kit.clients import PATIENCE
from kit.pages import Program

import aiolead
from aiolead import blocking
from aiolead.testing import ThreadedServer


@contextmanager
def retrying(client: blocking.Client, count: int) -> Iterator[list[type[Exception]]]:
    """Threads that retry during the body. Gives the last error of each."""
    stop = threading.Event()
    began = threading.Barrier(count + 1)
    told: list[type[Exception]] = [Exception] * count

    def retry(number: int) -> None:
        began.wait(PATIENCE)
        is_last = False
        while not is_last:
            is_last = stop.is_set()  # one more try: it may not have had its turn since
            try:
                client.exists("/")
            except aiolead.AioleadError as error:
                told[number] = type(error)

    threads = [threading.Thread(target=retry, args=(n,), daemon=True) for n in range(count)]
    for thread in threads:
        thread.start()
    try:
        began.wait(PATIENCE)
        yield told
    finally:
        stop.set()
        for thread in threads:
            thread.join(PATIENCE)


@pytest.mark.exhaustive("each case starts processes", one_in=2)
@pytest.mark.parametrize("count", [2, 8])
@pytest.mark.parametrize("reached", [True, False], ids=["reached", "unreached"])
def test_retrying_threads_do_not_delay_closing(
    own: ThreadedServer, backend: Backend, count: int, reached: bool
) -> None:
    connection = connect(own, backend)
    client = connection.__enter__()
    if not reached:
        own.stop()
    with retrying(client, count) as told:
        in_daemon(lambda: connection.__exit__(None, None, None)).result(PATIENCE)
        # Closed once more, as at the end of a program: it is nothing.
        in_daemon(lambda: connection.__exit__(None, None, None)).result(PATIENCE)
        with pytest.raises(aiolead.errors.ClientClosedError):
            client.exists("/")
    assert set(told) == {aiolead.errors.ClientClosedError}


def test_stopped_thread_does_not_delay_closing(own: ThreadedServer, backend: Backend) -> None:
    """The scheduler may stop a thread at any instruction, and have others go on before it."""

    def stop_at(which: int) -> bool:
        """Closes while a call stands there; says whether it is as long as that."""
        stopped, go_on = threading.Event(), threading.Event()
        left = which

        def trace(frame: FrameType, event: str, _arg: object) -> object:
            nonlocal left
            frame.f_trace_opcodes = True
            left -= event == "opcode"
            if left == 0:
                left = -1
                stopped.set()
                go_on.wait(4 * PATIENCE)
            return trace

        def ask() -> None:
            sys.settrace(trace)  # type: ignore[arg-type]
            try:
                client.exists("/")  # a request, which takes no task
                client.call(_nothing)
            finally:
                sys.settrace(None)
                stopped.set()

        connection = connect(own, backend)
        client = connection.__enter__()
        asked = in_daemon(ask)
        try:
            assert stopped.wait(PATIENCE)
            in_daemon(lambda: connection.__exit__(None, None, None)).result(PATIENCE)
        finally:
            go_on.set()
        with suppress(aiolead.errors.ClientClosedError):
            asked.result(PATIENCE)
        return left < 0

    # Python 3.12 traces instructions only from the second call of `settrace` on.
    stop_at(sys.maxsize)
    which = 1
    while stop_at(which):
        which += 37
    assert which > 500


def test_calls_are_refused_from_the_beginning_of_closing(
    own: ThreadedServer, backend: Backend, threads: ThreadPoolExecutor
) -> None:
    """It waits for a body; nobody else waits for that."""
    holds, go_on = threading.Event(), threading.Event()
    told: list[type[Exception]] = []

    def hold(lock: blocking.Lock, client: blocking.Client) -> None:
        with lock as held:
            holds.set()
            assert held.lost.wait(PATIENCE)
            # The requests of this body raise the loss, all other requests are refused. None of
            # them is sent.
            asks: tuple[Callable[[], object], ...] = (
                lambda: client.set("/", b""),
                lambda: blocking.Lock(client, "/b").__enter__(),  # making a lock is a request, too
            )
            for ask in asks:
                try:
                    ask()
                except aiolead.AioleadError as error:
                    told.append(type(error))
            assert go_on.wait(PATIENCE)

    connection = connect(own, backend, session_timeout=40, grace_period=10)
    client = connection.__enter__()
    body = threads.submit(hold, blocking.Lock(client, "/lock"), client)
    assert holds.wait(PATIENCE)
    lock = blocking.Lock(client, "/other")
    closing = threads.submit(connection.__exit__, None, None, None)
    with pytest.raises(aiolead.errors.ClientClosedError):
        while True:
            client.exists("/")
    for ask in (lock.__enter__, lock.contenders, lambda: client.call(_forever)):
        with pytest.raises(aiolead.errors.ClientClosedError):
            ask()
    assert not closing.done(), "it waits for the body"
    assert not body.done()
    go_on.set()
    with pytest.raises(aiolead.LockLost):
        body.result(PATIENCE)
    closing.result(PATIENCE)
    assert own.requests["SET_DATA"] == 0


async def _nothing(_client: aiolead.Client) -> None:
    pass


async def _forever(_client: aiolead.Client) -> None:
    await anyio.sleep_forever()


def test_closing_ends_a_waiting_call(
    own: ThreadedServer, backend: Backend, threads: ThreadPoolExecutor
) -> None:
    asked = threading.Event()

    async def wait(client: aiolead.Client) -> None:
        asked.set()
        await _forever(client)

    with connect(own, backend) as client:
        waits = threads.submit(client.call, wait)
        assert asked.wait(PATIENCE)
    with pytest.raises(aiolead.errors.ClientClosedError):
        waits.result(PATIENCE)


def test_closing_in_its_own_event_loop_is_refused(own: ThreadedServer, backend: Backend) -> None:
    connection = connect(own, backend)

    async def close(_client: aiolead.Client) -> None:
        connection.__exit__(None, None, None)

    with connection as client:
        with pytest.raises(aiolead.errors.UsageError, match="in the thread of its own event loop"):
            client.call(close)
        assert client.get_children("/") == ["zookeeper"]


@pytest.fixture
def no_names(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Names are not found, nor not found, until the test is over; gives whether one was asked for.

    A resolver without its servers does so for half a minute.
    """
    asked, over = threading.Event(), threading.Event()
    known = socket.getaddrinfo

    def getaddrinfo(host: Any, *args: Any, **options: Any) -> Any:
        if host not in ("zk.example", b"zk.example"):
            return known(host, *args, **options)
        if len(args) == 5 and args[4] & socket.AI_NUMERICHOST:  # trio: whether it is a name at all
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        asked.set()
        over.wait(4 * PATIENCE)
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    yield asked
    over.set()


def test_slow_name_lookup_delays_nobody(no_names: threading.Event, backend: Backend) -> None:
    """Neither the caller nor the thread of the event loop waits for the lookup."""
    connection = blocking.connect("zk.example:2181", connect_timeout=0.2, backend=backend)
    with pytest.raises(aiolead.errors.ConnectFailed):
        in_daemon(connection.__enter__).result(PATIENCE)
    no_names.clear()
    connection = blocking.connect("zk.example:2181", connect_timeout=0, backend=backend)
    in_daemon(connection.__enter__).result(PATIENCE)
    assert no_names.wait(PATIENCE)
    in_daemon(lambda: connection.__exit__(None, None, None)).result(PATIENCE)


def test_request_fails_when_the_event_loop_crashes(
    own: ThreadedServer, backend: Backend, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing but the loop would answer it, and no task of the loop waits for it."""
    is_asked = threading.Event()

    def exits(_event: object) -> None:
        if is_asked.is_set():
            raise SystemExit

    connection = connect(own, backend, on_event=exits)
    client = connection.__enter__()
    own.stop()
    is_asked.set()
    request = in_daemon(lambda: client.exists("/"))
    with pytest.raises(aiolead.errors.ClientClosedError):
        request.result(PATIENCE)
    with pytest.raises(BaseException):  # noqa: B017 - each event loop has its own
        connection.__exit__(None, None, None)
    gc.collect()
    assert "never retrieved" not in caplog.text, "it was raised, and is not logged again"


@pytest.mark.parametrize(
    ("enter", "reason"),
    [
        (lambda client: blocking.Lock(client, "/lock"), aiolead.LockLost),
        (
            lambda client: blocking.PersistentNode(client, "/node"),
            aiolead.errors.ClientClosedError,
        ),
    ],
    ids=["Lock", "PersistentNode"],
)
def test_call_in_a_block_that_closing_ends_raises_the_reason(
    own: ThreadedServer, backend: Backend, enter: Callable[[blocking.Client], Any], reason: Any
) -> None:
    connection = connect(own, backend)
    client = connection.__enter__()
    asked = threading.Event()

    async def wait_for_ever(_client: aiolead.Client) -> None:
        asked.set()
        await anyio.sleep_forever()

    def close() -> None:
        assert asked.wait(PATIENCE)
        connection.__exit__(None, None, None)

    closed = in_daemon(close)
    with pytest.raises(reason), enter(client):
        client.call(wait_for_ever)
    closed.result(PATIENCE)


ABANDONED = """
import sys
from aiolead import blocking
from aiolead.errors import UsageError

def connected():
    with blocking.connect(sys.argv[1]) as client:
        yield client

def holding(client):
    with blocking.Lock(client, "/lock") as held:
        try:
            yield
        finally:
            try:
                held.verify()
            except UsageError as error:
                print(error, flush=True)

connection = connected()
generator = holding(next(connection))
next(generator)
"""


def test_abandoned_generators_do_not_keep_the_interpreter_from_ending(
    own: ThreadedServer, tmp_path: Path
) -> None:
    """It closes them once it has stopped the thread of the event loop, which answers no more."""
    script = tmp_path / "script.py"
    script.write_text(ABANDONED)
    with Program(str(script), own.connect_string) as program:
        assert program.finish() == 0
        (line,) = program.lines
        assert line.startswith("the interpreter ends, which has stopped the event loop")
