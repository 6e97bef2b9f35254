"""What a thread is told when what it holds is lost, and what becomes of what it asks for then."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Literal

import pytest
from kit.checks import until
from kit.clients import PATIENCE, SESSION, JumpingClock
from kit.raw_client import RawClient

import aiolead
from aiolead import blocking
from aiolead.errors import LossReason
from aiolead.testing import FaultProxy, Hooks, ThreadedServer

Backend = Literal["asyncio", "trio"]


def test_by_the_clock_at_the_call(own: ThreadedServer, backend: Backend) -> None:
    """As after a process that was stopped: whoever looks first, it is told, and leaving says so."""
    clock = JumpingClock()
    with blocking.connect(
        own.connect_string, backend=backend, session_timeout=SESSION, hooks=Hooks(clock=clock)
    ) as client:
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


def test_the_znode_stays_until_the_body_has_been_left(
    own: ThreadedServer, backend: Backend, threads: ThreadPoolExecutor
) -> None:
    clock = JumpingClock()
    with (
        blocking.connect(
            own.connect_string, backend=backend, session_timeout=SESSION, hooks=Hooks(clock=clock)
        ) as client,
        blocking.connect(own.connect_string, session_timeout=SESSION) as other,
    ):
        theirs = blocking.Lock(other, "/lock")
        with pytest.raises(aiolead.LockLost), blocking.Lock(client, "/lock") as held:
            path = held.path
            clock.jump(SESSION)
            with pytest.raises(aiolead.LockLost):
                held.check()
            # Whatever is asked for inside of it is refused, and changes nothing of that.
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


def test_by_expiry(own: ThreadedServer, backend: Backend) -> None:
    told: list[tuple[aiolead.TenureLost, str]] = []
    answered = threading.Event()

    with blocking.connect(own.connect_string, backend=backend, session_timeout=SESSION) as client:

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


def test_what_the_body_raises_wins_and_tells_of_the_loss(
    own: ThreadedServer, backend: Backend
) -> None:
    with blocking.connect(own.connect_string, backend=backend, session_timeout=SESSION) as client:
        with pytest.raises(KeyError) as raised, blocking.Lock(client, "/lock") as held:
            own.expire_session(client.session_id)
            assert held.lost.wait(PATIENCE)
            raise KeyError("body")
        (note,) = raised.value.__notes__
        assert "lock of /lock lost" in note


def test_whoever_waits_in_the_body_of_something_that_is_lost_stops_waiting(
    own: ThreadedServer, backend: Backend
) -> None:
    """As a task would: by the loss of the outermost. And what was entered within is left."""
    with (
        blocking.connect(own.connect_string, backend=backend, session_timeout=SESSION) as client,
        blocking.connect(own.connect_string, session_timeout=SESSION) as other,
        RawClient(own.connect_string) as operator,
    ):
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
def test_a_silent_link_and_a_real_server(
    request: pytest.FixtureRequest, chroot: str, backend: Backend
) -> None:
    """It is told, the znode being there; and nobody else is let in before we have left."""
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
