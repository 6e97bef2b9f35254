"""Arguments that are easily mistaken are refused at once, before anything is sent."""

from __future__ import annotations

import copy
import functools
import math
import os
import pickle
import socket
from collections.abc import Awaitable, Callable, Iterator
from importlib.metadata import version
from types import MethodType
from typing import Any

import pytest

import aiolead
from aiolead import Client, Election, Lock, ReadWriteLock, ReentrantLock, Semaphore, blocking
from aiolead.errors import ConfigurationError, InvalidPathError, UsageError
from aiolead.testing import EmbeddedServer
from aiolead.types import Layout

PATH = "/contended"


@pytest.fixture
def nothing_is_sent(local: Client, embedded_server: EmbeddedServer) -> Iterator[None]:
    before = embedded_server.requests.copy()
    yield
    assert embedded_server.requests == before


# --- of locks and elections ----------------------------------------------------------------------

BAD: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"path": "relative"}, InvalidPathError, "path: must start with '/'"),
    ({"path": "/a/"}, InvalidPathError, "path: must not end"),
    ({"path": "/a//b"}, InvalidPathError, "path: "),
    ({"path": b"/a"}, InvalidPathError, "path: must be a str"),
    ({"path": None}, InvalidPathError, "path: must be a str"),
    ({"path": "/"}, ConfigurationError, "path: the root"),
    ({"identity": ""}, ConfigurationError, "identity: "),
    ({"identity": b"me"}, ConfigurationError, "identity: "),
    ({"identity": 7}, ConfigurationError, "identity: "),
    ({"identity": "\ud800"}, ConfigurationError, "identity: is not valid Unicode"),
    ({"identity": "é" * 2049}, ConfigurationError, "identity: has 4098 bytes"),
    ({"layout": "curator"}, ConfigurationError, "layout: must be a Layout"),
    ({"layout": None}, ConfigurationError, "layout: must be a Layout"),
    ({"on_disconnect": "stay"}, ConfigurationError, "on_disconnect: "),
    ({"on_disconnect": None}, ConfigurationError, "on_disconnect: "),
    ({"acl": []}, ConfigurationError, "acl: "),
    ({"acl": ["world"]}, ConfigurationError, "acl: "),
]

OWN_LOCK, OWN_ELECTION = Layout(lock="{id}-job-"), Layout(election="{id}-job-")

FORMLESS: list[tuple[Any, dict[str, Any]]] = [
    *((Election, {"layout": layout}) for layout in (Layout.GO, Layout.WRITE_LOCK, OWN_LOCK)),
    *((recipe, {"layout": OWN_ELECTION}) for recipe in (Lock, ReentrantLock)),
    *((ReadWriteLock, {"layout": layout}) for layout in (Layout.GO, Layout.WRITE_LOCK, OWN_LOCK)),
    *(
        (Semaphore, {"limit": 1, "layout": layout})
        for layout in (Layout.GO, Layout.AIOZK, Layout.WRITE_LOCK, OWN_LOCK)
    ),
]


@pytest.mark.usefixtures("nothing_is_sent")
async def test_wrong_arguments_of_a_recipe_are_refused(local: Client) -> None:
    for recipe in (Lock, Election):
        for arguments, error, says in BAD:
            with pytest.raises(error, match=f"^{says}"):
                recipe(local, **{"path": PATH, **arguments})
    for leaders in (0, -1, 1001, 1.0, "2", True, None):
        with pytest.raises(ConfigurationError, match=r"^leaders: must be from 1 to 1000"):
            Election(local, PATH, leaders=leaders)  # type: ignore[arg-type]
    for ask in (Lock(local, PATH).acquire, Election(local, PATH).leadership):
        for wait in (-1, -0.001, math.nan, "5", True, b""):
            with pytest.raises(ConfigurationError, match=r"^timeout: must be None or seconds"):
                ask(timeout=wait)  # type: ignore[arg-type]


@pytest.mark.usefixtures("nothing_is_sent")
async def test_layout_without_names_for_a_recipe_is_refused(local: Client) -> None:
    for recipe, arguments in FORMLESS:
        with pytest.raises(ConfigurationError, match=f"^layout: .* {recipe.__name__}"):
            recipe(local, PATH, **arguments)


async def test_extreme_arguments_are_accepted(local: Client) -> None:
    assert Lock(local, PATH).identity == f"{socket.gethostname()}:{os.getpid()}"
    for identity in ("x" * 4096, "é" * 2048, "名前", "a b\n"):
        election = Election(local, PATH, identity=identity, leaders=1000)
        async with election.leadership(timeout=math.inf):
            leader = await election.leader()
            assert leader is not None
            assert leader.identity == identity


@pytest.mark.parametrize(
    ("make", "line"),
    [
        (lambda: aiolead.Lock("/x"), "Lock(client, path)"),  # type: ignore[call-arg, arg-type]
        (lambda: aiolead.Election(path="/x"), "Election(client, path)"),  # type: ignore[call-arg]
        (lambda: aiolead.Queue(), "Queue(client, path)"),  # type: ignore[call-arg]
        (lambda: aiolead.Barrier("/x"), "Barrier(client, path)"),  # type: ignore[call-arg, arg-type]
        (lambda: Semaphore("/x", 2), "Semaphore(client, path, limit)"),  # type: ignore[call-arg, arg-type]
    ],
)
def test_missing_argument_names_the_class(make: Callable[[], object], line: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        make()
    assert str(caught.value).endswith(f"write `{line}`")
    assert str(caught.value).startswith(line.partition("(")[0])


def test_unknown_argument_names_the_class() -> None:
    with pytest.raises(ConfigurationError, match=r"^Lock: .*unexpected keyword argument 'wait'"):
        aiolead.Lock(None, "/x", wait=3)  # type: ignore[call-arg, arg-type]


# --- values --------------------------------------------------------------------------------------


async def test_bytes_of_any_type_are_a_value(local: Client) -> None:
    shared = aiolead.SharedValue(local, "/v")
    for value in (b"a", bytearray(b"a"), memoryview(b"a")):
        await shared.set(value)  # type: ignore[arg-type]
        assert (await shared.get()).value == b"a"


# --- workers -------------------------------------------------------------------------------------


async def work(term: object) -> None: ...


def sync(term: object) -> None: ...


def untyped(term):  # type: ignore[no-untyped-def]
    ...


async def takes_nothing() -> None: ...


async def takes_two(term: object, more: object) -> None: ...


async def generates(term: object) -> Any:
    yield


def returns_an_awaitable(term: object) -> Awaitable[None]:
    return work(term)


@functools.wraps(work)
def wrapped(*args: Any) -> Any:
    return work(*args)


class Worker:
    async def __call__(self, term: object) -> None: ...

    async def method(self, term: object) -> None: ...

    def sync_method(self, term: object) -> None: ...


BAD_WORKERS = [sync, untyped, takes_nothing, takes_two, generates, Worker().sync_method, None, 5]
GOOD_WORKERS = [
    *(work, returns_an_awaitable, wrapped, Worker(), Worker().method),
    functools.partial(takes_two, more=1),
    lambda term: work(term),
]


@pytest.mark.usefixtures("nothing_is_sent")
async def test_worker_that_cannot_run_is_refused(local: Client) -> None:
    election = aiolead.Election(local, "/e")
    for worker in BAD_WORKERS:
        with pytest.raises(ConfigurationError, match=r"^worker: .*`async def work\(term\):`"):
            await election.run(worker)  # type: ignore[arg-type]
        with pytest.raises(ConfigurationError, match=r"^worker: "):
            election.running(worker)  # type: ignore[arg-type]
    for good in GOOD_WORKERS:
        election.running(good)  # type: ignore[arg-type]
    for worker in (work, sync, None):  # a worker of a partitioner takes two arguments
        with pytest.raises(ConfigurationError, match=r"`async def work\(item, held\):`"):
            await aiolead.Partitioner(local, "/p", ["a"]).run(worker)  # type: ignore[arg-type]


def test_worker_for_threads_that_cannot_run_is_refused() -> None:
    with EmbeddedServer.in_thread() as server, blocking.connect(server.connect_string) as client:
        election = blocking.Election(client, "/e")
        for worker in (work, takes_nothing, Worker().method, None):
            with pytest.raises(ConfigurationError, match=r"^worker: .*`def work\(term\):`"):
                election.run(worker)  # type: ignore[arg-type]
        assert "/e" not in server.znodes()


# --- the package ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "hosts", ["h;i", "h;i:2181", "h /app", "h\t/app", "a,h /app", "h=1", "$ZK", "${ZK}:2181", "h|i"]
)
def test_wrong_hosts_are_refused(hosts: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^hosts: "):
        aiolead.connect(hosts)


@pytest.mark.parametrize("hosts", ["h, i", "h_1.x-y", "bücher.example", "h/app", "[::1]:2181/a b"])
def test_unusual_hosts_are_accepted(hosts: str) -> None:
    aiolead.connect(hosts)


async def test_completion_offers_what_there_is(local: Client) -> None:
    for recipe in (
        aiolead.Lock(local, "/l"),
        aiolead.Election(local, "/e"),
        aiolead.Queue(local, "/q"),
        aiolead.Semaphore(local, "/s", 1),
    ):
        for name in dir(recipe):
            try:
                getattr(recipe, name)
            except UsageError as error:
                pytest.fail(f"{recipe!r}: {name}: {error}")
    assert "acquire" in dir(aiolead.Lock(local, "/l"))


def test_completion_offers_public_names() -> None:
    offered = {name for name in dir(aiolead) if not name.startswith("_")}
    assert {"Lock", "connect", "errors", "blocking"} <= offered
    assert {"TYPE_CHECKING", "Exports"} & offered == set()
    assert "__version__" in dir(aiolead)
    assert aiolead.__version__ == version("aiolead")


async def test_lost_callback_that_could_not_be_called_is_refused(local: Client) -> None:
    async def stop() -> None:
        raise AssertionError("nobody awaits it")

    wrong: list[Any] = [None, "stop", stop, functools.partial(stop), stop(), lambda lost: lost]
    async with aiolead.Lock(local, "/lock") as held:
        for callback in wrong:
            with pytest.raises(ConfigurationError, match="callback: "):
                held.add_lost_callback(callback)


async def test_lost_callback_may_be_any_method(local: Client) -> None:
    class Plain:
        def stop(self) -> None: ...

    class NotReferable:
        """Its objects can be in no set of weak references."""

        __slots__ = ()

        def __call__(self, _bound_to: object) -> None: ...

    right = [Plain().stop, Plain().stop, MethodType(NotReferable(), 1), [].clear]
    async with aiolead.Lock(local, "/lock") as held:
        for callback in right:
            held.add_lost_callback(callback)


async def test_objects_of_a_session_are_not_pickled(local: Client) -> None:
    """As for another process. The same goes for what contains them."""
    async with aiolead.Lock(local, "/lock") as held:
        for each in (local, local.chroot("/a"), aiolead.Lock(local, "/lock"), held, [local]):
            with pytest.raises(UsageError, match=r"neither pickled nor copied, .* connect there"):
                pickle.dumps(each)
        for each in (local, local.chroot("/a"), held, [local]):
            with pytest.raises(UsageError, match=r"neither pickled nor copied, .* connect there"):
                copy.deepcopy(each)
