"""What users of the blocking face write. `import aiolead` is enough for it."""

from __future__ import annotations

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
