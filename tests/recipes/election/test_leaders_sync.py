"""Reads at a leader that has not yet applied what other servers have reported already.

A leader answers the `sync` of its own clients as a read. Here it has applied less than was
committed for as long as nobody writes through it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from kit.clients import in_memory

from aiolead import Client, Config, NoNodeError, TaskBoard
from aiolead.abc import CoordinationClient
from aiolead.errors import BadVersionError
from aiolead.testing import EmbeddedServer

pytestmark = [pytest.mark.timeout(60), pytest.mark.both_loops]

READS = frozenset({"get", "get_children", "exists", "make_watch", "sync"})
WRITES = frozenset({"create", "set", "delete", "check", "transaction"})


class Leader:
    """A client of a leader: behind a write it reads all that was committed before."""

    def __init__(self, applied: Client, committed: Client) -> None:
        self._applied = applied
        self._committed = committed
        self.backend = LeaderBackend(self)

    def asked(self, name: str) -> Client:
        if name in WRITES:
            self._applied = self._committed
        return self._applied if name in READS else self._committed


class LeaderBackend:
    def __init__(self, leader: Leader) -> None:
        self._leader = leader

    def unlimited(self) -> Leader:
        return self._leader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._leader.asked(name).backend, name)


def _member(name: str) -> Any:
    if isinstance(getattr(CoordinationClient, name), property):
        return property(lambda self: getattr(self.asked(name), name))
    return lambda self, *args, **options: getattr(self.asked(name), name)(*args, **options)


for _name in (name for name in dir(CoordinationClient) if not name.startswith("_")):
    if _name not in (*vars(Leader), "backend"):
        setattr(Leader, _name, _member(_name))


@asynccontextmanager
async def leader_behind() -> AsyncIterator[tuple[Any, Client, Client]]:
    """A leader, and clients of what it has applied and of what is committed."""
    async with EmbeddedServer() as before, EmbeddedServer() as now:
        async with in_memory(before) as applied, in_memory(now) as committed:
            yield Leader(applied, committed), applied, committed


@pytest.mark.parametrize("verb", ["publish", "rollback"])
async def test_version_that_the_caller_knows_is_there(verb: str) -> None:
    async with leader_behind() as (leader, applied, committed):
        for client, versions in ((applied, 1), (committed, 2)):
            for number in range(versions):
                await Config(client, "/config").publish({"key": b"%d" % number})
        config = Config(leader, "/config")
        if verb == "publish":
            assert await config.publish({"other": b""}, version=2) == 3
            assert await Config(committed, "/config").get() == await config.get()
            with pytest.raises(BadVersionError):
                await config.publish({"other": b""}, version=9)
        else:
            assert await config.rollback(2) == 3
            assert (await config.get()).value == {"key": b"1"}
            with pytest.raises(NoNodeError):
                await config.rollback(9)


async def test_result_of_a_task_that_the_caller_knows_is_waited_for() -> None:
    async with leader_behind() as (leader, applied, committed):
        board = TaskBoard(committed, "/board")
        task = await board.submit(b"1")
        for path in ("/board/tasks", "/board/claims", "/board/results"):
            await applied.ensure_path(path)
        onlooker = TaskBoard(leader, "/board")
        async with anyio.create_task_group() as tasks:

            async def work() -> None:
                async with board.claim() as mine:
                    await mine.finish(b"done")

            tasks.start_soon(work)
            assert (await onlooker.result(task)).data == b"done"
        with pytest.raises(NoNodeError):
            await onlooker.result("task-0000000009")
