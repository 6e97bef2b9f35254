"""What users of the async face write: the body's result is the function's, on every way out."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import assert_type

import aiolead


@asynccontextmanager
async def connected() -> AsyncGenerator[aiolead.Client, None]:
    async with aiolead.connect("zk1,zk2/app", session_timeout=10, connect_timeout=5) as client:
        yield client


async def session() -> int:
    async with aiolead.connect("zk1:2181") as client:
        assert_type(client, aiolead.Client)
        return client.session_id


async def operations(client: aiolead.Client) -> bytes:
    assert_type(
        await client.create("/a", b"", mode=aiolead.CreateMode.EPHEMERAL), aiolead.model.Created
    )
    assert_type(await client.exists("/a"), aiolead.model.Stat | None)
    assert_type(await client.get_children("/"), list[str])
    assert_type(client.chroot("/b"), aiolead.Client)
    data, stat = await client.get("/a")
    assert_type(stat, aiolead.model.Stat)
    await client.set("/a", data, version=stat.version)
    assert_type(aiolead.errors.NoNodeError, type[aiolead.NoNodeError])
    return data


# --- locks ---------------------------------------------------------------------------------------


async def lock(client: aiolead.Client) -> int:
    async with aiolead.Lock(client, "/lock") as held:
        assert_type(held, aiolead.Held)
        return held.token


async def waiting(client: aiolead.Client) -> int:
    async with aiolead.Lock(client, "/lock").acquire(timeout=5) as held:
        assert_type(held, aiolead.Held)
        return held.token


async def trying(client: aiolead.Client) -> int | None:
    async with aiolead.Lock(client, "/lock").try_acquire() as held:
        assert_type(held, aiolead.Held | None)
        return None if held is None else held.token


async def exclusive(client: aiolead.Client) -> int:
    async with aiolead.ExclusiveLock(client, "/lock") as held:
        return held.token


async def reentrant(client: aiolead.Client) -> int:
    same = aiolead.ReentrantLock(client, "/lock")
    async with same as held, same.acquire() as again:
        assert_type(again, aiolead.Held)
        return held.token


async def reading(client: aiolead.Client) -> int:
    async with aiolead.ReadWriteLock(client, "/lock").read as held:
        assert_type(held, aiolead.Held)
        return held.token


async def writing(client: aiolead.Client) -> int:
    async with aiolead.ReadWriteLock(client, "/lock").write as held:
        assert_type(held, aiolead.types.WriteHeld)
        await held.downgrade()
        return held.token


async def permits(client: aiolead.Client) -> int:
    async with aiolead.Semaphore(client, "/permits", 5).acquire(permits=2) as held:
        assert_type(held, aiolead.Held)
        return held.token


async def several(client: aiolead.Client) -> int:
    both = aiolead.MultiLock(aiolead.Lock(client, "/a"), aiolead.ReadWriteLock(client, "/b").read)
    async with both as held:
        assert_type(held, aiolead.types.MultiHeld)
        return len(held.holds)


async def condition(client: aiolead.Client) -> bool:
    async with aiolead.Condition(client, "/condition") as held:
        assert_type(held, aiolead.types.ConditionHeld)
        return await held.wait(timeout=5)


async def names(client: aiolead.Client) -> int:
    async with aiolead.UniqueNames(client, "/names").claim("worker") as name:
        assert_type(name, aiolead.types.HeldName)
        return name.token


# --- elections -----------------------------------------------------------------------------------


async def leading(client: aiolead.Client) -> int:
    async with aiolead.Election(client, "/election", identity="me").leadership() as term:
        assert_type(term, aiolead.Term)
        await term.fenced().set("/state", b"")
        return term.token


async def worker(term: aiolead.Term) -> None:
    term.check()


async def run(client: aiolead.Client) -> None:
    await aiolead.Election(client, "/election").run(worker)


async def campaign(client: aiolead.Client) -> aiolead.Phase:
    async with aiolead.Election(client, "/election").campaign() as states:
        async for state in states:
            assert_type(state, aiolead.types.CampaignState)
            return state.phase
    raise AssertionError


async def observing(client: aiolead.Client) -> str | None:
    async with aiolead.Election(client, "/election").observe() as states:
        async for state in states:
            assert_type(state, aiolead.types.ElectionState)
            return state.leader.identity if state.leader is not None else None
    raise AssertionError


# --- queues, barriers, groups --------------------------------------------------------------------


async def getting(client: aiolead.Client) -> bytes:
    async with aiolead.Queue(client, "/queue").get(timeout=5) as item:
        assert_type(item, aiolead.types.QueueItem)
        await item.ack()
        return item.data


async def consuming(client: aiolead.Client) -> bytes:
    async with aiolead.Queue(client, "/queue").consume() as items:
        async for item in items:
            assert_type(item, aiolead.types.QueueItem)
            return item.data
    raise AssertionError


async def working(client: aiolead.Client) -> bytes:
    async with aiolead.TaskBoard(client, "/tasks").claim() as task:
        assert_type(task, aiolead.types.Task)
        return task.data


async def barrier(client: aiolead.Client) -> int:
    async with aiolead.DoubleBarrier(client, "/barrier", 3) as member:
        assert_type(member, aiolead.types.BarrierMember)
        return member.token


async def node(client: aiolead.Client) -> str | None:
    async with aiolead.PersistentNode(client, "/node", b"") as kept:
        return kept.path


async def member(client: aiolead.Client) -> str:
    async with aiolead.Group(client, "/group").join(b"address") as membership:
        assert_type(membership, aiolead.types.Membership)
        return membership.identity


async def members(client: aiolead.Client) -> list[str]:
    async with aiolead.Group(client, "/group").observe() as view:
        assert_type(view, aiolead.types.MembersView)
        async for now in view:
            assert_type(now, Mapping[str, aiolead.types.Member])
            return list(now)
    raise AssertionError


async def instance(client: aiolead.Client) -> str:
    registry = aiolead.ServiceRegistry(client, "/services")
    async with registry.register(
        aiolead.ServiceInstance(name="web", address="host", port=80)
    ) as registration:
        assert_type(registration, aiolead.types.Registration)
        return registration.instance.id


# --- what is followed ----------------------------------------------------------------------------


async def events(client: aiolead.Client) -> str:
    async with client.watch("/a", recursive=True) as stream:
        async for event in stream:
            assert_type(event, aiolead.model.WatchEvent | aiolead.model.Missed)
            return "?" if isinstance(event, aiolead.model.Missed) else event.path
    raise AssertionError


async def once(client: aiolead.Client) -> aiolead.model.EventType:
    watch = client.backend.make_watch()
    await client.exists("/a", watch=watch)
    return (await watch.wait()).type


async def following(client: aiolead.Client) -> bytes | None:
    async with client.observe_data("/a") as view:
        async for value in view:
            return None if value is None else value[0]
    raise AssertionError


async def tree(client: aiolead.Client) -> bytes | None:
    async with aiolead.TreeCache(client, "/config") as cache:
        found = cache.get("/config/a")
        return None if found is None else found.data
