"""What the tests of `aiolead.blocking` share."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Literal

import pytest
from kit.checks import PATIENCE

from aiolead.testing import EmbeddedServer, ThreadedServer


@pytest.fixture(params=["asyncio", "trio"])
def backend(request: pytest.FixtureRequest) -> Literal["asyncio", "trio"]:
    """The event loop in the thread of a client."""
    return request.param


@pytest.fixture
def own() -> Iterator[ThreadedServer]:
    """An embedded server of the test's own, to look into.

    It looks for ended sessions often, and grants long ones: those of tests that end none have to
    outlive any hiccup of a busy machine.
    """
    with EmbeddedServer.in_thread(tick_time=0.15, max_session_timeout=60) as server:
        yield server


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    """Other threads. What they do has to come to its end."""
    with ThreadPoolExecutor(8, thread_name_prefix="other") as pool:
        yield pool


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    yield
    left = [t for t in threading.enumerate() if t.name in ("aiolead-blocking", "aiolead-on-lost")]
    for thread in left:
        thread.join(PATIENCE)
    assert [thread for thread in left if thread.is_alive()] == []
