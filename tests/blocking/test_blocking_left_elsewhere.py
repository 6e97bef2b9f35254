"""A block that is left by another thread than the one that entered it: released, and refused."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from blocking.threads import Backend, connect
from kit.checks import PATIENCE, until

from aiolead import blocking
from aiolead.errors import UsageError
from aiolead.testing import ThreadedServer

pytestmark = pytest.mark.timeout(60)
Make = Callable[[Any], Any]


@contextmanager
def locked(client: Any) -> Iterator[Any]:
    """As a dependency of a web framework, whose halves run in different threads of a pool."""
    with blocking.Lock(client, "/l").acquire() as held:
        yield held


HELD: dict[str, Make] = {
    "acquire": lambda client: blocking.Lock(client, "/l").acquire(),
    "lock": lambda client: blocking.Lock(client, "/l"),
    "ReentrantLock": lambda client: blocking.ReentrantLock(client, "/l").acquire(),
    "MultiLock": lambda client: blocking.MultiLock(blocking.Lock(client, "/l")).acquire(),
}


@pytest.fixture
def threads() -> Iterator[tuple[ThreadPoolExecutor, ThreadPoolExecutor]]:
    with ThreadPoolExecutor(1) as first, ThreadPoolExecutor(1) as second:
        yield first, second


Threads = tuple[ThreadPoolExecutor, ThreadPoolExecutor]


def in_thread(thread: ThreadPoolExecutor, act: Callable[..., Any], *args: Any) -> Any:
    return thread.submit(act, *args).result(PATIENCE)


def taken(client: Any) -> bool:
    """Whether it can be acquired, and was released again."""
    with blocking.Lock(client, "/l").acquire(timeout=PATIENCE):
        return True


@pytest.mark.parametrize("name", HELD)
def test_another_thread_releases_the_hold(
    own: ThreadedServer, threads: Threads, backend: Backend, name: str
) -> None:
    first, second = threads
    with connect(own, backend) as client, connect(own) as other:
        context = HELD[name](client)
        held = in_thread(first, context.__enter__)
        with pytest.raises(UsageError, match="entered by another thread, so it was released"):
            in_thread(second, context.__exit__, None, None, None)
        assert not held.is_held
        for user, thread in ((other, first), (client, second), (client, first)):
            assert in_thread(thread, taken, user)
        with pytest.raises(UsageError):
            in_thread(first, context.__exit__, None, None, None)
        assert in_thread(first, taken, client)
        until(lambda: not client._loop._tasks, "no task is left")  # type: ignore[attr-defined]


def test_outer_block_left_by_another_thread(
    own: ThreadedServer, threads: Threads, backend: Backend
) -> None:
    """The inner hold is kept, and its own thread leaves it."""
    first, second = threads
    with connect(own, backend) as client, connect(own) as other:
        outer = blocking.Lock(client, "/l").acquire()
        inner = blocking.Lock(client, "/inner").acquire()
        in_thread(first, outer.__enter__)
        held = in_thread(first, inner.__enter__)
        with pytest.raises(UsageError, match="entered by another thread"):
            in_thread(second, outer.__exit__, None, None, None)
        assert taken(other)
        assert in_thread(first, held.verify) is None
        in_thread(first, inner.__exit__, None, None, None)
        assert in_thread(first, taken, client)
        until(lambda: not client._loop._tasks, "no task is left")  # type: ignore[attr-defined]


def test_halves_of_a_generator_in_two_threads(own: ThreadedServer, threads: Threads) -> None:
    first, second = threads
    with connect(own) as client:
        context = locked(client)
        in_thread(first, context.__enter__)
        with pytest.raises(UsageError, match="entered by another thread"):
            in_thread(second, context.__exit__, None, None, None)
        assert in_thread(second, taken, client)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_collected_generator_releases_the_hold(own: ThreadedServer, threads: Threads) -> None:
    first, _ = threads
    with connect(own) as client:
        abandoned = [locked(client)]
        in_thread(first, abandoned[0].__enter__)
        abandoned.clear()
        gc.collect()
        assert taken(client)


def test_thread_goes_on_after_another_left_its_block(own: ThreadedServer, threads: Threads) -> None:
    """Its next call is made outside of the block, and leaving it says why."""
    first, second = threads
    with connect(own) as client, ExitStack() as stack:
        context = blocking.Lock(client, "/l").acquire()
        held = in_thread(first, context.__enter__)
        with pytest.raises(UsageError):
            in_thread(second, context.__exit__, None, None, None)
        assert in_thread(first, client.get, "/")
        with pytest.raises(UsageError):
            in_thread(first, held.check)
        stack.enter_context(blocking.Lock(client, "/l"))


def test_third_thread_leaves_neither_of_two_blocks(own: ThreadedServer, threads: Threads) -> None:
    """Two threads are in blocks of one object: a third one leaves neither."""
    first, second = threads
    with connect(own) as client:
        permits = blocking.Semaphore(client, "/s", 2)
        helds = [in_thread(each, permits.__enter__) for each in (first, second)]
        with pytest.raises(UsageError, match="in the reverse order"):
            permits.__exit__(None, None, None)
        assert all(held.is_held for held in helds)
        for each in (first, second):
            in_thread(each, permits.__exit__, None, None, None)
