"""Requests where people put awaitables: they work there, or fail at once and say why."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import anyio
import pytest
import trio
from kit.clients import connect
from kit.selection import BACKENDS

import aiolead
from aiolead import Client, NoNodeError
from aiolead.errors import UsageError
from aiolead.testing import EmbeddedServer

ASYNCIO = [each for each in BACKENDS if each.values[0][0] == "asyncio"]  # type: ignore[index]
TRIO = [each for each in BACKENDS if each.values[0][0] == "trio"]  # type: ignore[index]


@contextlib.asynccontextmanager
async def _connected() -> AsyncIterator[Client]:
    async with EmbeddedServer() as server, connect(server) as client:
        await client.create("/a", b"x")
        yield client


async def _in_a_task(client: Client) -> Any:
    return await asyncio.create_task(client.get("/a"))


async def _in_a_task_group(client: Client) -> Any:
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(client.get("/a"))
    return task.result()


async def _ensured(client: Client) -> Any:
    return await asyncio.ensure_future(client.get("/a"))


async def _gathered(client: Client) -> Any:
    first, second = await asyncio.gather(client.get("/a"), client.exists("/a"))
    assert second is not None
    return first


async def _waited_for(client: Client) -> Any:
    return await asyncio.wait_for(client.get("/a"), 30)


async def _shielded(client: Client) -> Any:
    return await asyncio.shield(client.get("/a"))


async def _as_completed(client: Client) -> Any:
    (first,) = [await each for each in asyncio.as_completed([client.get("/a")])]
    return first


async def _waited_as_a_task(client: Client) -> Any:
    done, _ = await asyncio.wait([asyncio.ensure_future(client.get("/a"))])
    return done.pop().result()


async def _from_another_thread(client: Client) -> Any:
    return await anyio.to_thread.run_sync(lambda: anyio.from_thread.run(client.get, "/a"))


@pytest.mark.parametrize("anyio_backend", ASYNCIO)
@pytest.mark.parametrize(
    "use",
    [
        _in_a_task,
        _in_a_task_group,
        _ensured,
        _gathered,
        _waited_for,
        _shielded,
        _as_completed,
        _waited_as_a_task,
        _from_another_thread,
    ],
)
async def test_asyncio(use: Callable[[Client], Awaitable[Any]]) -> None:
    async with _connected() as client:
        data, stat = await use(client)
        assert (data, stat.version) == (b"x", 0)
        assert await use(client)


@pytest.mark.parametrize("anyio_backend", ASYNCIO)
async def test_asyncio_wait_refuses_it_at_once() -> None:
    async with _connected() as client:
        with pytest.raises(TypeError, match="use tasks explicitly"):
            await asyncio.wait([client.get("/a")])  # type: ignore[type-var]


@pytest.mark.parametrize("anyio_backend", ASYNCIO)
async def test_the_error_of_a_request_is_its_tasks() -> None:
    async with _connected() as client:

        async def grouped() -> None:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(client.delete("/none"))

        with pytest.raises(ExceptionGroup) as caught:
            await asyncio.create_task(grouped())
        (error,) = caught.value.exceptions
        assert isinstance(error, NoNodeError)
        answered = client.delete("/none")
        await client.sync()
        with pytest.raises(NoNodeError):
            await asyncio.create_task(answered)


@pytest.mark.parametrize("anyio_backend", ASYNCIO)
async def test_a_cancelled_task_leaves_the_request() -> None:
    async with _connected() as client:
        reply = client.get("/a")
        early, late = asyncio.create_task(reply), asyncio.create_task(client.get("/a"))
        early.cancel()  # before it has begun
        await asyncio.sleep(0)
        late.cancel()
        for task in (early, late):
            with pytest.raises(asyncio.CancelledError):
                await task
        assert (await reply)[0] == b"x"
        assert (await asyncio.create_task(reply))[0] == b"x"


@pytest.mark.parametrize("anyio_backend", ASYNCIO)
async def test_several_tasks() -> None:
    """They may await one request; only one may be made of it while it is under way."""
    async with _connected() as client:

        async def awaited() -> bytes:
            return (await reply)[0]

        reply = client.get("/a")
        assert await asyncio.gather(awaited(), awaited()) == [b"x", b"x"]
        reply = client.get("/a")
        first, second = asyncio.create_task(reply), asyncio.create_task(reply)
        assert (await first)[0] == b"x"
        with pytest.raises(UsageError, match="a task was made of this request already"):
            await second


async def test_in_a_task_group_of_anyio() -> None:
    async with _connected() as client:

        def start(tasks: Any) -> None:
            tasks.start_soon(client.create, "/b")

        try:
            async with anyio.create_task_group() as tasks:
                start(tasks)
        except (TypeError, ExceptionGroup) as error:  # anyio before 4.13, on asyncio
            said = repr(getattr(error, "exceptions", [error])[0])
            assert "await it, in an `async def` if a task group is to start that" in said
        assert await client.exists("/b") is not None  # it was sent at the call


async def test_cancelled_in_a_task_group() -> None:
    """anyio asks a task that it cancels whether it has begun."""
    async with _connected() as client:
        async with anyio.create_task_group() as tasks:
            try:
                tasks.start_soon(client.get, "/a")
            except TypeError:
                pytest.skip("an anyio that starts `async def` alone")
            await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()
        assert (await client.get("/a"))[0] == b"x"


@pytest.mark.parametrize("anyio_backend", TRIO)
async def test_in_a_nursery() -> None:
    async with _connected() as client:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.create, "/b")
        assert await client.exists("/b") is not None
        with pytest.raises(ExceptionGroup) as caught:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(client.create, "/b")
        assert isinstance(caught.value.exceptions[0], aiolead.NodeExistsError)


async def test_a_request_has_no_truth_value() -> None:
    async with _connected() as client:
        reply = client.exists("/a")
        with pytest.raises(UsageError, match=r"a request has no truth value: await it.*EXISTS /a"):
            bool(reply)
        assert await reply


async def test_a_transaction_that_is_not_committed_warns() -> None:
    async with _connected() as client:
        with pytest.warns(RuntimeWarning, match="never committed, so nothing was written .*on /n"):
            client.transaction().create("/n")
        async with aiolead.Lock(client, "/l").acquire() as held:
            with pytest.warns(RuntimeWarning, match="never committed.*on /n"):
                held.fenced().transaction().create("/n")
            held.fenced().transaction()
            await held.fenced().create("/m")
        client.transaction()  # of nothing
        await client.transaction().create("/o")
        with pytest.raises(aiolead.errors.ConfigurationError):
            await client.transaction()
        gc.collect()
        assert await client.exists("/n") is None
