"""What users of the async face write around a client; see also `inferred.txt`."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import assert_type

import aiolead


@asynccontextmanager
async def connected() -> AsyncGenerator[aiolead.Client, None]:
    async with aiolead.connect("zk1,zk2/app", session_timeout=10, connect_timeout=5) as client:
        yield client


async def session() -> int:
    async with connected() as client:
        assert_type(client, aiolead.Client)
        return client.session_id


async def reentrant(client: aiolead.Client) -> int:
    same = aiolead.ReentrantLock(client, "/lock")
    async with same as held, same.acquire() as again:
        assert_type(again, aiolead.Held)
        return held.token


async def worker(term: aiolead.Term) -> None:
    term.check()


async def run(client: aiolead.Client) -> None:
    await aiolead.Election(client, "/election").run(worker)


async def observing(client: aiolead.Client) -> str | None:
    async with aiolead.Election(client, "/election").observe() as states:
        async for state in states:
            return state.leader.identity if state.leader is not None else None
    raise AssertionError


async def once(client: aiolead.Client) -> aiolead.model.EventType:
    watch = client.backend.make_watch()
    await client.exists("/a", watch=watch)
    return (await watch.wait()).type


async def tree(client: aiolead.Client) -> bytes | None:
    async with aiolead.TreeCache(client, "/config") as cache:
        found = cache.get("/config/a")
        return None if found is None else found.data
