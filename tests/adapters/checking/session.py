"""Promises about the session, and what lives and ends with it."""

from __future__ import annotations

from functools import partial

import anyio

from aiolead.abc import CoordinationClient
from aiolead.errors import (
    AioleadError,
    ClientClosedError,
    ConnectionLossError,
    InternalError,
    NoNodeError,
    SessionError,
)
from aiolead.model import CreateMode, SessionState

from .stage import CREATES, Stage, fails, refuses


async def a_client_knows_its_session(stage: Stage) -> None:
    """Its id, its timeout as the server has granted it, its state."""
    client = stage.client
    info = stage.server.sessions().get(client.session_id)
    assert info is not None, "the server knows the session"
    assert client.session_timeout == info.timeout, "the timeout"
    assert client.state == SessionState.CONNECTED, "the state"
    await client.ready()


async def states_are_told_in_order(stage: Stage) -> None:
    """A lost connection is reported as `SUSPENDED`, then `CONNECTED`, of the same session."""
    client = stage.client
    told: list[tuple[SessionState, int]] = []
    agreed: list[bool] = []

    def note(state: SessionState, session_id: int) -> None:
        told.append((state, session_id))
        agreed.append(client.state is state)

    unsubscribe = client.backend.subscribe(note)
    mine = client.session_id
    await stage.isolate()
    stage.proxy.heal()
    await client.ready()
    assert told == [(SessionState.SUSPENDED, mine), (SessionState.CONNECTED, mine)]
    assert all(agreed), "`state` says the same, at that moment"
    unsubscribe()
    await stage.isolate()
    stage.proxy.heal()
    await client.ready()
    assert len(told) == 2, "the notifications of an unsubscribed callback"


async def an_expired_session_is_told_before_the_next(stage: Stage) -> None:
    """`EXPIRED`, with the old id, comes before anything of the next session."""
    client = stage.client
    told: list[tuple[SessionState, int]] = []
    client.backend.subscribe(lambda state, session_id: told.append((state, session_id)))
    old = await stage.expire()
    new = client.session_id
    assert (SessionState.EXPIRED, old) in told, "the end of the old session is reported"
    assert (SessionState.CONNECTED, new) in told, "the new session is reported"
    ended = told.index((SessionState.EXPIRED, old))
    assert all(session_id != old for _, session_id in told[ended + 1 :]), "the old one is over"
    assert all(session_id != new for _, session_id in told[:ended]), "the new one comes later"
    assert await client.exists("/") is not None, "requests are answered in the new session"


async def what_is_in_flight_ends_with_its_session(stage: Stage) -> None:
    """A write fails with the session that it was sent in, and is not sent in the next one."""
    client = stage.client
    await client.create("/a")
    held = stage.proxy.hold_reply(CREATES)
    created = client.create("/a/n-", mode=CreateMode.EPHEMERAL_SEQUENTIAL)
    await held.wait()
    old = client.session_id
    stage.server.expire_session(old)
    held.cut()
    try:
        await created
    except (SessionError, ConnectionLossError):
        pass
    else:
        raise AssertionError("it was answered, whose answer was lost")
    await stage.eventually(lambda: client.session_id not in (0, old), "a new session")
    await client.ready()
    assert await client.get_children("/a") == [], "the children"


async def ready_waits_for_the_connection(stage: Stage) -> None:
    """`ready` returns once there is one, and not before."""
    client = stage.client
    await stage.isolate()
    is_ready = anyio.Event()

    async def wait() -> None:
        await client.ready()
        is_ready.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        await anyio.sleep(0.02)
        assert not is_ready.is_set(), "it waits while there is no connection"
        stage.proxy.heal()
        await is_ready.wait()
    assert client.state == SessionState.CONNECTED, "the state"


async def whether_it_is_connected_is_known_at_once(stage: Stage) -> None:
    """`check_connected` returns or raises, and waits for nothing."""
    client = stage.client
    client.backend.check_connected()
    await stage.isolate()
    refuses(client.backend.check_connected, ConnectionLossError)
    stage.proxy.heal()
    await client.ready()
    client.backend.check_connected()


async def closing_ends_the_session(stage: Stage) -> None:
    """Its ephemeral znodes are gone once it is closed; nobody is left waiting."""
    failures: list[AioleadError] = []
    opened: list[CoordinationClient] = []

    async def wait(reply: object) -> None:
        try:
            await reply  # type: ignore[misc]
        except AioleadError as error:
            failures.append(error)

    async with anyio.create_task_group() as tasks:
        async with stage.another() as client:
            opened.append(client)
            await client.create("/a", mode=CreateMode.EPHEMERAL)
            session_id = client.session_id
            assert session_id in stage.server.sessions(), "it has a session of its own"
            held = stage.proxy.hold_reply(CREATES)
            unanswered = client.create("/b", mode=CreateMode.EPHEMERAL)
            await held.wait()
            tasks.start_soon(wait, unanswered)
            held.release()
        assert session_id not in stage.server.sessions(), "the session is closed"
    (closed,) = opened
    assert stage.server.znodes() == [], "the tree"
    assert closed.state == SessionState.CLOSED, "the state"
    await fails(closed.exists("/"), ClientClosedError)
    await fails(closed.ready(), SessionError)


async def closing_without_a_link_is_bounded(stage: Stage) -> None:
    """A client that cannot reach a server is closed all the same, and its requests fail."""
    async with stage.another() as client:
        await stage.isolate(client)
        waiting = client.create("/a")
    await fails(waiting, AioleadError)
    stage.proxy.heal()


async def a_job_outlives_its_caller(stage: Stage) -> None:
    """A spawned job outlives the cancellation of its caller, and ends with the client."""
    told: list[str] = []
    begun, may_go_on = anyio.Event(), anyio.Event()

    async def job() -> None:
        begun.set()
        await may_go_on.wait()
        told.append("went on")
        try:
            await anyio.sleep_forever()
        finally:
            told.append("ended")

    async with stage.another() as client:
        with anyio.CancelScope() as scope:
            client.backend.spawn(job)
            scope.cancel()
            await anyio.sleep_forever()
        await begun.wait()
        may_go_on.set()
        await stage.eventually(lambda: told == ["went on"], "the job goes on")
    assert told == ["went on", "ended"], "its state when the client is closed"


async def a_job_that_fails_harms_nobody(stage: Stage) -> None:
    """An `AioleadError` of a job is logged; the client and other jobs go on."""
    done = anyio.Event()

    async def failing() -> None:
        await stage.client.delete("/none")
        raise AssertionError("there is no such znode")

    async def working() -> None:
        await fails(stage.client.delete("/none"), NoNodeError)
        await stage.client.exists("/")
        done.set()

    stage.client.backend.spawn(failing)
    stage.client.backend.spawn(working)
    await done.wait()
    await stage.client.exists("/")


async def the_end_of_a_job_is_reported(stage: Stage) -> None:
    """`on_end` is called once: with nothing, the `AioleadError`, or an `InternalError`."""
    ends: list[tuple[str, AioleadError | None]] = []

    async def returning() -> None:
        await stage.client.exists("/")

    async def refused() -> None:
        await stage.client.delete("/none")

    async def failing() -> None:
        await stage.client.exists("/")
        raise LookupError("nobody expects this")

    async def lasting() -> None:
        await anyio.sleep_forever()

    def end(name: str, error: AioleadError | None) -> None:
        ends.append((name, error))

    async with stage.another() as other:
        for client, job in (
            (stage.client, returning),
            (stage.client, refused),
            (stage.client, failing),
            (other, lasting),
        ):
            client.backend.spawn(job, partial(end, job.__name__))
        await stage.eventually(lambda: len(ends) == 3, "three jobs have ended")
    told = dict(ends)
    assert len(ends) == 4, "how often the end of four jobs was reported"
    assert told["returning"] is None, "a job that returned"
    assert isinstance(told["refused"], NoNodeError), "a job that raised an `AioleadError`"
    defect = told["failing"]
    assert isinstance(defect, InternalError), "a job that raised another exception"
    assert isinstance(defect.__cause__, LookupError), "it is the cause"
    assert isinstance(told["lasting"], ClientClosedError), "a job that ended with its client"
    await stage.client.exists("/")


class _Common:
    """Something that is shared."""


async def what_is_shared_is_one_object(stage: Stage) -> None:
    """Everybody on a session gets the same one for a path and a kind, and other ones for others."""

    class Other(_Common):
        """Another kind."""

    client = stage.client
    mine = client.backend.shared("/a", _Common)
    assert client.backend.shared("/a", _Common) is mine, "the same again"
    assert client.backend.unlimited().backend.shared("/a", _Common) is mine
    assert client.backend.shared("/b", _Common) is not mine, "another one for another path"
    assert client.backend.shared("/a", Other) is not mine, "another one for another kind"


async def full_paths_are_those_on_the_servers(stage: Stage) -> None:
    """The same znode has the same full path for everybody: locks are taken in that order."""
    client = stage.client
    created = await client.create("/a")
    full = client.backend.full_path(created.path)
    assert client.backend.unlimited().backend.full_path(created.path) == full
    assert await stage.operator.exists(full) is not None, "it is there without a chroot, too"
    assert client.backend.full_path("/b") != full, "another path has another one"


async def no_serial_is_given_twice(stage: Stage) -> None:
    """Names are made unique by them, whatever was forgotten meanwhile."""
    clients = (stage.client, stage.client.backend.unlimited())
    serials = [client.backend.serial() for _ in range(3) for client in clients]
    assert len(set(serials)) == len(serials), f"{serials} are different numbers"


async def what_is_pipelined_is_asked_for_in_order(stage: Stage) -> None:
    """Whether it leaves together is for the client; in order, it is answered."""
    client = stage.client
    with client.pipelined():
        created, there, deleted = client.create("/a"), client.exists("/a"), client.delete("/a")
    await created
    assert await there is not None, "in the order of the calls"
    await deleted


async def the_unlimited_client_is_the_same(stage: Stage) -> None:
    """It has the same session, and what is asked of both goes out in the order of the calls."""
    client = stage.client
    unlimited = client.backend.unlimited()
    assert unlimited.session_id == client.session_id, "its session"
    created, there, deleted = client.create("/a"), unlimited.exists("/a"), client.delete("/a")
    assert await there is not None, "in the order of the calls"
    await created
    await deleted
