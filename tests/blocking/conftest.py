"""The fixtures of the tests of `aiolead.blocking`."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import FrameType

import pytest
from blocking.threads import Backend, SoftLimit, connect
from kit.checks import PATIENCE

from aiolead import blocking
from aiolead.testing import EmbeddedServer, ThreadedServer


@pytest.fixture(params=["asyncio", "trio"])
def backend(request: pytest.FixtureRequest) -> Backend:
    """The event loop in the thread of a client."""
    return request.param


@pytest.fixture
def own() -> Iterator[ThreadedServer]:
    """An embedded server that no other test uses.

    It looks for ended sessions often, and grants long ones: those of tests that end none have to
    outlive any hiccup of a busy machine.
    """
    with EmbeddedServer.in_thread(tick_time=0.15, max_session_timeout=60) as server:
        yield server


@pytest.fixture
def client(own: ThreadedServer, backend: Backend) -> Iterator[blocking.Client]:
    """A client of `own`, on each event loop."""
    with connect(own, backend) as client:
        yield client


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    """Other threads. Their work has to end with the test."""
    with ThreadPoolExecutor(8, thread_name_prefix="other") as pool:
        yield pool


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    yield
    left = [t for t in threading.enumerate() if t.name in ("aiolead-blocking", "aiolead-on-lost")]
    for thread in left:
        thread.join(PATIENCE)
    assert [thread for thread in left if thread.is_alive()] == []


@pytest.fixture
def limit() -> Iterator[None]:
    """SIGUSR1 raises `SoftLimit`."""

    def handler(_number: int, _frame: FrameType | None) -> None:
        raise SoftLimit

    before = signal.signal(signal.SIGUSR1, handler)
    yield
    signal.signal(signal.SIGUSR1, before)
