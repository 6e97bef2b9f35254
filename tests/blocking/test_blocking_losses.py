"""Losses of holds of threads: how they are reported, and what later requests raise."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from blocking.threads import Backend, connect
from kit.checks import no_threads, until
from kit.clients import PATIENCE, SESSION, JumpingClock
from kit.raw_client import RawClient

import aiolead
from aiolead import blocking
from aiolead.errors import LossReason, UsageError
from aiolead.testing import FaultProxy, Hooks, ThreadedServer


def test_loss_by_the_clock(own: ThreadedServer, backend: Backend) -> None:
    """As in a process that was stopped. The hold is over at the first look, and the end raises."""
    clock = JumpingClock()
    with connect(own, backend, hooks=Hooks(clock=clock)) as client:
        lock = blocking.Lock(client, "/lock")
        with pytest.raises(aiolead.LockLost) as lost, lock as held:
            clock.jump(SESSION)
            assert not held.is_held
            assert held.remaining() == 0.0
            with pytest.raises(aiolead.LockLost):
                held.check()
            assert held.lost.is_set()
        assert lost.value.token == held.token
        # Nobody has looked: leaving late raises it all the same.
        with pytest.raises(aiolead.LockLost) as lost, lock:
            clock.jump(SESSION)
        assert lost.value.reason in (LossReason.UNCONFIRMED, LossReason.EXPIRED)


def test_znode_stays_until_the_body_is_left(
    own: ThreadedServer, backend: Backend, threads: ThreadPoolExecutor
) -> None:
    clock = JumpingClock()
    with connect(own, backend, hooks=Hooks(clock=clock)) as client, connect(own) as other:
        theirs = blocking.Lock(other, "/lock")
        with pytest.raises(aiolead.LockLost), blocking.Lock(client, "/lock") as held:
            path = held.path
            clock.jump(SESSION)
            with pytest.raises(aiolead.LockLost):
                held.check()
            # Requests in the body are refused.
            for _ in range(2):
                with pytest.raises(aiolead.LockLost):
                    client.set("/", b"")
            with pytest.raises(aiolead.LockLost), blocking.Lock(client, "/second"):
                pytest.fail("entered in a body that is over")
            assert other.exists(path)
            with theirs.try_acquire() as nothing:
                assert nothing is None
        until(lambda: other.exists(path) is None, "the znode is gone")
        with theirs.acquire(timeout=PATIENCE):
            pass
        client.set("/", b"")
    assert own.requests["SET_DATA"] == 1


def test_loss_by_expiry(own: ThreadedServer, client: blocking.Client) -> None:
    told: list[tuple[aiolead.TenureLost, str]] = []
    answered = threading.Event()

    def on_lost(lost: aiolead.TenureLost) -> None:
        client.create("/told")  # it is in no body
        told.append((lost, threading.current_thread().name))
        answered.set()

    with pytest.raises(aiolead.LeadershipLost) as lost:
        with blocking.Election(client, "/election").leadership(on_lost=on_lost) as term:
            own.expire_session(client.session_id)
            assert term.lost.wait(PATIENCE)
            assert term.loss is LossReason.EXPIRED
            assert answered.wait(PATIENCE)
    assert lost.value.reason is LossReason.EXPIRED
    ((error, name),) = told
    assert isinstance(error, aiolead.LeadershipLost)
    assert error.token == term.token
    assert name == "aiolead-on-lost"
    assert client.exists("/told")


def test_on_lost_that_gets_no_thread_is_logged(
    own: ThreadedServer, client: blocking.Client, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(aiolead.LockLost):
        with blocking.Lock(client, "/lock").acquire(on_lost=print) as held, no_threads():
            own.expire_session(client.session_id)
            assert held.lost.wait(PATIENCE)
            until(lambda: "on_lost could not be called" in caplog.text, "it is logged")


def test_body_error_has_a_note_of_the_loss(own: ThreadedServer, client: blocking.Client) -> None:
    with pytest.raises(KeyError) as raised, blocking.Lock(client, "/lock") as held:
        own.expire_session(client.session_id)
        assert held.lost.wait(PATIENCE)
        raise KeyError("body")
    (note,) = raised.value.__notes__
    assert "lock of /lock lost" in note


def test_loss_of_the_outer_hold_ends_a_wait_in_its_body(
    own: ThreadedServer, client: blocking.Client
) -> None:
    """The inner hold is released."""
    with connect(own) as other, RawClient(own.connect_string) as operator:
        with blocking.Lock(other, "/taken"):
            with pytest.raises(aiolead.LockLost) as lost, blocking.Lock(client, "/outer") as outer:
                with blocking.Lock(client, "/inner") as inner:
                    client.call(lambda c: c.check(outer.path))
                    until(lambda: outer.path in own.watches(), "we watch over our own znode")
                    lost_soon = threading.Timer(0.05, operator.delete, (outer.path,))
                    lost_soon.start()
                    with blocking.Lock(client, "/taken"):
                        pytest.fail("both have it")
            assert lost.value.reason is LossReason.DELETED
            assert "lock of /outer" in str(lost.value)
            assert outer.lost.is_set()
            assert not inner.lost.is_set()
            assert other.exists(inner.path) is None
            assert len(other.get_children("/taken")) == 1
            lost_soon.join()


@pytest.mark.exhaustive("the same as on the embedded server")
@pytest.mark.real
def test_loss_on_a_silent_connection_to_a_real_server(
    request: pytest.FixtureRequest, chroot: str, backend: Backend
) -> None:
    """The loss is reported while the znode exists."""
    zookeeper = request.getfixturevalue("zookeeper")
    with (
        FaultProxy("127.0.0.1", zookeeper.port) as proxy,
        RawClient(zookeeper.connect_string) as witness,
    ):
        witness.create(chroot)
        with blocking.connect(
            proxy.connect_string + chroot, backend=backend, session_timeout=2.0, grace_period=0.5
        ) as client:
            with pytest.raises(aiolead.LockLost) as lost:
                with blocking.Lock(client, "/lock") as held:
                    proxy.blackhole()
                    assert held.lost.wait(PATIENCE)
                    witness.exists(chroot + held.path)  # raises, if it is gone
            assert lost.value.reason is LossReason.UNCONFIRMED
            proxy.heal()


def test_revoked_leader_is_told_by_its_next_call(own: ThreadedServer, backend: Backend) -> None:
    """Nothing cancels a thread, so the term is held until its body has ended."""
    reported: list[aiolead.errors.TenureLost] = []
    with connect(own, backend) as client, connect(own) as other:
        election = blocking.Election(client, "/election")
        with pytest.raises(aiolead.LeadershipLost) as lost:
            with election.leadership(on_lost=reported.append) as term:
                (asked,) = blocking.Election(other, "/election").revoke()
                assert asked.path == term.path
                assert term.lost.wait(PATIENCE)
                with pytest.raises(aiolead.LeadershipLost):
                    term.check()
                with pytest.raises(aiolead.LeadershipLost):
                    client.get("/")
                assert term.is_held
                assert other.exists(term.path)
        assert lost.value.reason is LossReason.REVOKED
        until(lambda: len(reported) == 1, "it was reported")
        assert other.get_children("/election") == []


def test_wait_for_a_revocation_ends_with_the_hold(
    own: ThreadedServer, client: blocking.Client, threads: ThreadPoolExecutor
) -> None:
    """Nothing cancels the thread that waits."""
    lock = blocking.Lock(client, "/lock")
    with lock as held:
        waiting = threads.submit(held.revocation_requested)
        lock.revoke()
        assert waiting.result(PATIENCE) is None
    with lock as held:
        waiting = threads.submit(held.revocation_requested)
    with pytest.raises(UsageError, match="its body has ended"):
        waiting.result(PATIENCE)
    with pytest.raises(aiolead.LockLost), lock as held:
        waiting = threads.submit(held.revocation_requested)
        own.expire_session(client.session_id)
        with pytest.raises(aiolead.LockLost):
            waiting.result(PATIENCE)


def test_worker_contends_again_after_a_revocation(own: ThreadedServer, backend: Backend) -> None:
    """After a pause, in which others may lead."""
    terms: list[blocking.Term] = []
    began: list[float] = []

    def worker(term: blocking.Term) -> None:
        terms.append(term)
        began.append(time.monotonic())
        if len(terms) == 2:
            raise KeyError("enough")
        blocking.Election(other, "/election").revoke()
        assert term.lost.wait(PATIENCE)
        term.check()

    with connect(own, backend) as client, connect(own) as other:
        with pytest.raises(KeyError, match="enough"):
            blocking.Election(client, "/election").run(worker, pause=0.05)
        assert terms[0].token < terms[1].token
        assert began[1] - began[0] >= 0.05


def test_leader_hands_over_to_a_successor(
    own: ThreadedServer, backend: Backend, threads: ThreadPoolExecutor
) -> None:
    def lead(name: str) -> str:
        with blocking.Election(others, "/election", identity=name).leadership():
            led.append(name)
        return name

    led: list[str] = []
    with connect(own, backend) as client, connect(own) as others:
        election = blocking.Election(client, "/election", identity="first")
        with election.leadership() as term:
            tasks = []
            for count, name in enumerate(("second", "third"), 2):
                tasks.append(threads.submit(lead, name))
                until(lambda count=count: len(election.contenders()) == count, "it waits")  # type: ignore[misc]
            with pytest.raises(aiolead.errors.HandOverTimeout, match="no contender 'nobody' waits"):
                term.hand_over("nobody", timeout=0)
            assert term.hand_over("third").identity == "third"
            assert not term.is_held
            assert [task.result(PATIENCE) for task in tasks] == ["second", "third"]
    assert led == ["third", "second"]
