"""Locks and elections held by threads."""

from __future__ import annotations

import itertools
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from blocking.threads import Backend, connect, in_daemon
from kit.checks import until
from kit.clients import PATIENCE, Served
from kit.raw_client import RawClient

import aiolead
from aiolead import blocking
from aiolead.testing import ThreadedServer


def queued(client: blocking.Client, path: str, count: int) -> None:
    """Wait until so many contenders are queued."""

    def are_there() -> bool:
        client.sync(path)
        return len(client.get_children(path)) == count

    until(are_there, f"{count} queued at {path}")


def identities(lock: blocking.Lock) -> list[str]:
    return [who.identity for who in lock.contenders()]


def test_lock_and_election(server: Served, backend: Backend, threads: ThreadPoolExecutor) -> None:
    with connect(server, backend) as client, connect(server, backend) as other:
        lock, same = blocking.Lock(client, "/lock"), blocking.Lock(other, "/lock", identity="ben")
        with lock as held:
            held.check()
            held.verify()
            assert held.is_held
            assert held.remaining() > 0
            assert held.token == client.exists(held.path).czxid  # type: ignore[union-attr]
            with pytest.raises(aiolead.AcquireTimeout), same.acquire(timeout=0.05):
                pass
            with same.try_acquire() as nothing:
                assert nothing is None
            with pytest.raises(aiolead.errors.AlreadyHeldError), lock:
                pass

            def wait_for_it() -> int:
                with same as then:
                    return then.token

            waiting = threads.submit(wait_for_it)
            # A contender that timed out a moment ago may still be queued.
            until(lambda: identities(lock) == [lock.identity, "ben"], "ben waits behind us")
            assert [who.identity for who in lock.holders()] == [lock.identity]
        assert waiting.result(PATIENCE) > held.token
        assert not held.lost.is_set()
        assert held.loss is None
        assert not held.is_held
        with pytest.raises(aiolead.errors.UsageError, match="its body has ended"):
            held.check()
        with same.try_acquire() as free:
            assert free is not None

        election = blocking.Election(client, "/election", identity="anna")
        with election.leadership(timeout=PATIENCE) as term:
            other.check("/")  # a write: its server has caught up
            assert [who.identity for who in blocking.Election(other, "/election").contenders()]
            leader = election.leader()
            assert leader is not None
            assert (leader.identity, leader.token) == ("anna", term.token)
            term.fenced().create("/plan", b"1")
            assert term.fenced().transaction().set("/plan", b"2").delete("/plan").commit()
            term.resign()
            with pytest.raises(aiolead.Fenced):
                term.fenced().create("/plan", b"3")
        assert client.exists("/plan") is None
        with (
            election.campaign(),
            pytest.raises(aiolead.errors.AlreadyHeldError),
            election.leadership(),
        ):
            pass


def test_other_locks_and_semaphores(own: ThreadedServer, threads: ThreadPoolExecutor) -> None:
    with connect(own, "asyncio") as client:
        again = blocking.ReentrantLock(client, "/again")
        with again as outer, again as inner, again.acquire(timeout=0) as innermost:
            assert outer is inner
            assert outer is innermost
        assert again.holders() == []

        both = blocking.ReadWriteLock(client, "/both")

        def read() -> int:
            with both.read.acquire(timeout=PATIENCE):
                return len(both.holders())

        with both.write as writing:
            reading = threads.submit(read)
            queued(client, "/both", 2)
            assert not reading.done()
            writing.downgrade()
            assert writing.is_downgraded
            assert reading.result(PATIENCE) == 2
        with both.read, pytest.raises(aiolead.errors.UpgradeError), both.write:
            pass

        permits = blocking.Semaphore(client, "/permits", 3)
        with permits.acquire(permits=2, timeout=0), permits.try_acquire(permits=2) as too_many:
            assert too_many is None
            assert permits.available() == 1
        permits.set_limit(1)
        assert permits.limit() == 1
        with blocking.ExclusiveLock(client, "/one") as one:
            assert one.path == "/one"
        assert client.exists("/one") is None


def test_events_are_reported_in_the_thread_of_the_loop(
    own: ThreadedServer, backend: Backend
) -> None:
    told: list[tuple[str, str]] = []

    def on_event(event: aiolead.events.Event) -> None:
        told.append((event.name, threading.current_thread().name))

    with connect(own, backend, on_event=on_event) as client:
        with blocking.Lock(client, "/lock") as held:
            assert held.statistics().is_held
            assert client.statistics().held == 1
        assert (held.statistics().loss, held.statistics().remaining) == (None, 0.0)
    assert {"session.connected", "tenure.begun", "tenure.ended"} <= {name for name, _ in told}
    assert {thread for _, thread in told} == {"aiolead-blocking"}


def test_threads_exclude_each_other(own: ThreadedServer, backend: Backend) -> None:
    """With one object, eight threads, and nothing else between them."""
    tokens: list[int] = []
    inside: list[int] = []

    def work(lock: blocking.Lock) -> None:
        for _ in range(3):
            with lock as held:
                inside.append(1)
                assert len(inside) == 1
                tokens.append(held.token)
                held.fenced().set("/mine", b"%d" % held.token)
                inside.pop()

    with connect(own, backend) as client, ThreadPoolExecutor(8) as pool:
        client.create("/mine")
        lock = blocking.Lock(client, "/lock")
        for done in [pool.submit(work, lock) for _ in range(8)]:
            done.result(PATIENCE)
        assert tokens == sorted(set(tokens))
        assert len(tokens) == 24
        assert client.get("/mine")[1].version == 24
        assert lock.contenders() == []
    assert own.sessions() == {}


def test_body_error_propagates_unchanged(client: blocking.Client) -> None:
    lock = blocking.Lock(client, "/lock")
    for error in (KeyError("body"), SystemExit(3), KeyboardInterrupt(), GeneratorExit()):
        with pytest.raises(type(error)) as raised, lock:
            raise error
        assert raised.value is error
        assert raised.value.__context__ is None
        assert not hasattr(raised.value, "__notes__")
    assert lock.contenders() == []


def test_calls_of_async_functions_and_chroots(own: ThreadedServer, client: blocking.Client) -> None:
    assert client.call(lambda c: aiolead.Counter(c, "/count").add(2)) == 2
    below = client.chroot("/below")
    below.ensure_path("/a/b")
    assert client.get_children("/below/a") == ["b"]
    assert below.set("/a", b"data", version=0).version == 1
    assert below.get("/a")[0] == b"data"
    with pytest.raises(aiolead.errors.NotEmptyError):
        below.delete("/a")
    assert blocking.admin.delete_all(below, "/a") == 2
    with pytest.raises(aiolead.errors.TransactionError):
        client.transaction().create("/below/c").check("/nothing").commit()
    assert client.transaction().create("/c", b"x").check("/c").commit() == ["/c", None]
    client.delete("/c")
    assert client.state is aiolead.model.SessionState.CONNECTED
    assert client.session_id in own.sessions()


def test_blocks_must_be_left_in_reverse_order(own: ThreadedServer) -> None:
    with connect(own, "asyncio") as client:
        outer = blocking.Lock(client, "/outer").acquire()
        inner = blocking.Lock(client, "/inner").acquire()
        outer.__enter__()
        inner.__enter__()
        with pytest.raises(aiolead.errors.UsageError, match="in the reverse order"):
            outer.__exit__(None, None, None)
        with pytest.raises(aiolead.errors.UsageError):
            inner.__enter__()
        inner.__exit__(None, None, None)
        outer.__exit__(None, None, None)
        with pytest.raises(aiolead.errors.UsageError):
            outer.__exit__(None, None, None)
        assert own.requests["DELETE"] == 2


def test_closing_ends_waits_and_reports_losses(
    own: ThreadedServer, backend: Backend, threads: ThreadPoolExecutor
) -> None:
    holds, told = threading.Event(), threading.Event()

    def hold(lock: blocking.Lock) -> None:
        with lock as held:
            holds.set()
            told.set() if held.lost.wait(PATIENCE) else None
            # The session is there until we have left, or the grace period is over.
            assert own.sessions() != {}

    with connect(own, backend) as client:
        lock = blocking.Lock(client, "/lock")
        holder = threads.submit(hold, lock)
        assert holds.wait(PATIENCE)
        waiter = threads.submit(lock.acquire().__enter__)
        queued(client, "/lock", 2)
    with pytest.raises(aiolead.LockLost) as lost:
        holder.result(PATIENCE)
    assert lost.value.reason is aiolead.errors.LossReason.CLOSED
    with pytest.raises(aiolead.errors.ClientClosedError):
        waiter.result(PATIENCE)
    with pytest.raises(aiolead.errors.ClientClosedError):
        client.get("/")
    with pytest.raises(aiolead.errors.ClientClosedError):
        blocking.Lock(client, "/lock")
    assert own.sessions() == {}


def test_body_outlives_the_client(own: ThreadedServer) -> None:
    holds, closed = threading.Event(), threading.Event()

    def hold(lock: blocking.Lock) -> None:
        with lock as held:
            holds.set()
            assert closed.wait(PATIENCE)
            with pytest.raises(aiolead.LockLost):
                held.check()
            assert held.remaining() == 0.0

    connection = connect(own, "asyncio", grace_period=0.05)
    lock = blocking.Lock(connection.__enter__(), "/lock")
    holder = in_daemon(lambda: hold(lock))
    assert holds.wait(PATIENCE)
    in_daemon(lambda: connection.__exit__(None, None, None)).result(PATIENCE / 2)
    assert own.sessions() == {}
    closed.set()
    with pytest.raises(aiolead.LockLost) as lost:
        holder.result(PATIENCE)
    assert lost.value.reason is aiolead.errors.LossReason.CLOSED


def test_election_goes_on_after_a_loss(own: ThreadedServer, client: blocking.Client) -> None:
    tokens: list[int] = []

    def worker(term: blocking.Term) -> None:
        tokens.append(term.token)
        if len(tokens) == 1:
            own.expire_session(term.session_id)
            assert term.lost.wait(PATIENCE)
            term.check()
        elif len(tokens) == 3:
            raise KeyError("enough")

    with pytest.raises(KeyError, match="enough"):
        blocking.Election(client, "/election").run(worker)
    assert tokens == sorted(set(tokens))
    assert len(tokens) == 3


def test_election_pauses_after_its_worker_returns(own: ThreadedServer, backend: Backend) -> None:
    began: list[float] = []

    def worker(_term: blocking.Term) -> None:
        began.append(time.monotonic())
        if len(began) == 3:
            raise KeyError("enough")

    def lose_another(term: blocking.Term) -> None:
        raise aiolead.LeadershipLost("/other", aiolead.errors.LossReason.EXPIRED, term.token + 1)

    with connect(own, backend) as client:
        election = blocking.Election(client, "/election")
        with pytest.raises(KeyError, match="enough"):
            election.run(worker, pause=0.05)
        for pause in (-1, "1"):
            with pytest.raises(aiolead.errors.ConfigurationError, match="pause: must be seconds"):
                election.run(worker, pause=pause)  # type: ignore[arg-type]
        with pytest.raises(aiolead.LeadershipLost, match="/other"):
            election.run(lose_another)
        with election.leadership(timeout=0):
            pass
    assert len(began) == 3
    assert all(later - earlier >= 0.05 for earlier, later in itertools.pairwise(began))


def test_loss_by_a_delete(own: ThreadedServer, backend: Backend) -> None:
    with connect(own, backend) as client, RawClient(own.connect_string) as operator:
        with pytest.raises(aiolead.LockLost) as lost:
            with blocking.Lock(client, "/lock", identity="anna") as held:
                assert operator.get(held.path) == b"anna"
                operator.delete(held.path)
                with pytest.raises(aiolead.LockLost):
                    held.verify()
                assert held.lost.wait(PATIENCE)
                assert repr(held.lost) == "<LostEvent: set>"
                held.lost.clear()
                assert not held.lost.is_set()
        assert lost.value.reason is aiolead.errors.LossReason.DELETED
