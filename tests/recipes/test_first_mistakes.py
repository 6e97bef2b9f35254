"""Arguments that are easily mistaken are refused at once, before anything is sent."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from importlib.metadata import version
from typing import Any

import pytest
from kit.clients import in_memory

import aiolead
from aiolead import Client, blocking
from aiolead.errors import ConfigurationError, UsageError
from aiolead.testing import EmbeddedServer
from aiolead.types import Codec

VALUES: dict[str, tuple[Callable[[Client], Any], tuple[Any, ...]]] = {
    "raw": (
        lambda client: aiolead.SharedValue(client, "/v"),
        (5, [1, 2, 3], "text", {"a": 1}, None, 1.5),
    ),
    "text": (
        lambda client: aiolead.SharedValue(client, "/v", "", codec=Codec.text()),
        (5, b"text", None),
    ),
    "int64": (
        lambda client: aiolead.SharedValue(client, "/v", 0, codec=Codec.int64()),
        ("5", 1.0, True, None),
    ),
    "decimal": (
        lambda client: aiolead.SharedValue(client, "/v", 0, codec=Codec.decimal()),
        ("5", 1.5, True, None),
    ),
}


@pytest.mark.parametrize("codec", VALUES)
async def test_a_value_of_another_type_is_refused(codec: str) -> None:
    make, values = VALUES[codec]
    async with EmbeddedServer() as server, in_memory(server) as client:
        shared = make(client)
        for value in values:
            with pytest.raises(ConfigurationError, match=r"^value: must be (bytes|an? \w+), not "):
                await shared.set(value)
        assert "/v" not in server.znodes()


async def test_bytes_of_any_type_are_a_value() -> None:
    async with EmbeddedServer() as server, in_memory(server) as client:
        shared = aiolead.SharedValue(client, "/v")
        for value in (b"a", bytearray(b"a"), memoryview(b"a")):
            await shared.set(value)  # type: ignore[arg-type]
            assert (await shared.get()).value == b"a"


@pytest.mark.parametrize("changes", ["text", 5, None, ["key"]])
async def test_changes_that_are_no_mapping_are_refused(changes: Any) -> None:
    async with EmbeddedServer() as server, in_memory(server) as client:
        with pytest.raises(ConfigurationError, match="changes: must be a mapping"):
            await aiolead.Config(client, "/c").publish(changes)
        assert "/c" not in server.znodes()


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


def name_of(worker: Any) -> str:
    # Its address is another one in each process of pytest-xdist.
    return getattr(worker, "__name__", None) or type(worker).__name__


@pytest.mark.parametrize("worker", BAD_WORKERS, ids=name_of)
async def test_a_worker_that_cannot_run_is_refused(worker: Any) -> None:
    async with EmbeddedServer() as server, in_memory(server) as client:
        election = aiolead.Election(client, "/e")
        with pytest.raises(ConfigurationError, match=r"^worker: .*`async def work\(term\):`"):
            await election.run(worker)
        with pytest.raises(ConfigurationError, match=r"^worker: "):
            election.running(worker)
        assert "/e" not in server.znodes()


@pytest.mark.parametrize("worker", [work, sync, None], ids=name_of)
async def test_a_worker_of_a_partitioner_takes_two_arguments(worker: Any) -> None:
    async with EmbeddedServer() as server, in_memory(server) as client:
        with pytest.raises(ConfigurationError, match=r"`async def work\(item, held\):`"):
            await aiolead.Partitioner(client, "/p", ["a"]).run(worker)
        assert "/p" not in server.znodes()


@pytest.mark.parametrize("worker", GOOD_WORKERS, ids=name_of)
async def test_any_other_worker_is_not(worker: Any) -> None:
    async with EmbeddedServer() as server, in_memory(server) as client:
        aiolead.Election(client, "/e").running(worker)


def test_a_worker_for_threads() -> None:
    with EmbeddedServer.in_thread() as server, blocking.connect(server.connect_string) as client:
        election = blocking.Election(client, "/e")
        for worker in (work, takes_nothing, Worker().method, None):
            with pytest.raises(ConfigurationError, match=r"^worker: .*`def work\(term\):`"):
                election.run(worker)  # type: ignore[arg-type]
        assert "/e" not in server.znodes()


@pytest.mark.parametrize(
    ("make", "line"),
    [
        (lambda: aiolead.Lock("/x"), "Lock(client, path)"),  # type: ignore[call-arg, arg-type]
        (lambda: aiolead.Election(path="/x"), "Election(client, path)"),  # type: ignore[call-arg]
        (lambda: aiolead.Queue(), "Queue(client, path)"),  # type: ignore[call-arg]
        (lambda: aiolead.Barrier("/x"), "Barrier(client, path)"),  # type: ignore[call-arg, arg-type]
        (
            lambda: aiolead.Semaphore("/x", 2),  # type: ignore[call-arg, arg-type]
            "Semaphore(client, path, limit)",
        ),
    ],
)
def test_a_missing_argument_names_the_class(make: Callable[[], object], line: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        make()
    assert str(caught.value).endswith(f"write `{line}`")
    assert str(caught.value).startswith(line.partition("(")[0])


def test_an_unknown_argument_names_the_class() -> None:
    with pytest.raises(ConfigurationError, match=r"^Lock: .*unexpected keyword argument 'wait'"):
        aiolead.Lock(None, "/x", wait=3)  # type: ignore[call-arg, arg-type]


@pytest.mark.parametrize(
    "hosts", ["h;i", "h;i:2181", "h /app", "h\t/app", "a,h /app", "h=1", "$ZK", "${ZK}:2181", "h|i"]
)
def test_hosts_that_are_none(hosts: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^hosts: "):
        aiolead.connect(hosts)


@pytest.mark.parametrize("hosts", ["h, i", "h_1.x-y", "bücher.example", "h/app", "[::1]:2181/a b"])
def test_hosts_that_are_some(hosts: str) -> None:
    aiolead.connect(hosts)


async def test_completion_offers_what_there_is() -> None:
    async with EmbeddedServer() as server, in_memory(server) as client:
        for recipe in (
            aiolead.Lock(client, "/l"),
            aiolead.Election(client, "/e"),
            aiolead.Queue(client, "/q"),
            aiolead.Semaphore(client, "/s", 1),
        ):
            for name in dir(recipe):
                try:
                    getattr(recipe, name)
                except UsageError as error:
                    pytest.fail(f"{recipe!r}: {name}: {error}")
        assert "acquire" in dir(aiolead.Lock(client, "/l"))


def test_completion_offers_public_names() -> None:
    offered = {name for name in dir(aiolead) if not name.startswith("_")}
    assert {"Lock", "connect", "errors", "blocking"} <= offered
    assert {"TYPE_CHECKING", "Exports"} & offered == set()


def test_the_version() -> None:
    assert aiolead.__version__ == version("aiolead")
    assert "__version__" in dir(aiolead)
