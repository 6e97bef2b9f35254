"""Programs of users of the blocking face, for the type checkers. They import `aiolead` alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_type

import aiolead


def session() -> int:
    with aiolead.blocking.connect("zk1:2181", session_timeout=10, backend="trio") as client:
        assert_type(client, aiolead.blocking.Client)
        return client.session_id


def operations(client: aiolead.blocking.Client) -> bytes:
    assert_type(client.create("/a"), aiolead.model.Created)
    assert_type(client.call(lambda c: c.get_children("/")), list[str])
    data, stat = client.get("/a")
    assert_type(stat, aiolead.model.Stat)
    return data


def lock(client: aiolead.blocking.Client) -> int:
    with aiolead.blocking.Lock(client, "/lock") as held:
        assert_type(held, aiolead.blocking.Held)
        return held.token


def trying(client: aiolead.blocking.Client) -> int | None:
    with aiolead.blocking.Lock(client, "/lock").try_acquire() as held:
        assert_type(held, aiolead.blocking.Held | None)
        return None if held is None else held.token


def reentrant(client: aiolead.blocking.Client) -> int:
    with aiolead.blocking.ReentrantLock(client, "/lock").acquire(timeout=5) as held:
        return held.token


def exclusive(client: aiolead.blocking.Client) -> int:
    with aiolead.blocking.ExclusiveLock(client, "/lock") as held:
        return held.token


def writing(client: aiolead.blocking.Client) -> int:
    with aiolead.blocking.ReadWriteLock(client, "/lock").write as held:
        assert_type(held, aiolead.blocking.WriteHeld)
        return held.token


def permits(client: aiolead.blocking.Client) -> int:
    with aiolead.blocking.Semaphore(client, "/permits", 5).acquire(permits=2) as held:
        return held.token


def leading(client: aiolead.blocking.Client) -> int:
    with aiolead.blocking.Election(client, "/election").leadership(timeout=5) as term:
        assert_type(term, aiolead.blocking.Term)
        return term.token


def working(client: aiolead.blocking.Client) -> bytes:
    queue = aiolead.blocking.Queue(client, "/jobs")
    with queue.consume(on_lost=lambda lost: lost.reason) as items:
        for item in items:
            assert_type(item, aiolead.blocking.QueueItem)
            item.ack()
    with queue.get(timeout=5) as item:
        return item.data


def task(client: aiolead.blocking.Client) -> str:
    board = aiolead.blocking.TaskBoard(client, "/board")
    with board.claim() as task:
        assert_type(task, aiolead.blocking.Task)
    with board.observe() as view:
        assert_type(view.value, Mapping[str, aiolead.types.TaskState])
    return board.submit(b"data")


def following(client: aiolead.blocking.Client) -> int:
    config = aiolead.blocking.Config(client, "/config", parse=len)
    with config.observe() as view:
        for size in view:
            assert_type(size, int)
            return size
    with client.observe_data("/a") as data:
        assert_type(data.value, tuple[bytes, aiolead.model.Stat] | None)
    with client.watch("/a", recursive=True) as events:
        for event in events:
            assert_type(event, aiolead.model.WatchEvent | aiolead.model.Missed)
    return 0


def sharing(client: aiolead.blocking.Client) -> str:
    assert_type(aiolead.blocking.SharedValue(client, "/a").get().value, bytes)
    text = aiolead.blocking.SharedValue(client, "/b", "", codec=aiolead.types.Codec.text())
    assert_type(text, aiolead.blocking.SharedValue[str])
    return text.update(str.upper).value


def waiting(client: aiolead.blocking.Client) -> bool:
    with aiolead.blocking.Condition(client, "/condition").acquire() as held:
        return held.wait(timeout=5)


def several(client: aiolead.blocking.Client) -> tuple[aiolead.blocking.Tenure, ...]:
    lock, both = aiolead.blocking.Lock(client, "/a"), aiolead.blocking.ReadWriteLock(client, "/b")
    with aiolead.blocking.MultiLock(lock, both.write) as held:
        held.check()
        return held.holds


def meeting(client: aiolead.blocking.Client) -> int:
    with aiolead.blocking.DoubleBarrier(client, "/barrier", 2) as member:
        return member.round


def members(client: aiolead.blocking.Client) -> str:
    group = aiolead.blocking.Group(client, "/group")
    with group.join(b"data") as membership, group.observe() as view:
        for change in view.changes():
            assert_type(change, aiolead.types.MemberChange)
        return membership.identity


def services(client: aiolead.blocking.Client) -> aiolead.ServiceInstance | None:
    with aiolead.blocking.ServiceRegistry(client, "/services").observe("web") as view:
        return aiolead.blocking.Picker(view, aiolead.types.RoundRobin()).pick()


def tree(client: aiolead.blocking.Client) -> list[str]:
    with aiolead.blocking.TreeCache(client, "/tree") as cache:
        for event in cache.events():
            assert_type(event, aiolead.types.TreeEvent)
        return list(cache)


def keeping(client: aiolead.blocking.Client) -> aiolead.blocking.TenureContext[aiolead.Held]:
    return aiolead.blocking.Lock(client, "/lock").acquire()  # type: ignore[return-value]  # pyright: ignore[reportReturnType]
