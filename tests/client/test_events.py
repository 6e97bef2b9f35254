"""The events that clients and recipes report, on every event loop."""

from __future__ import annotations

import gc
import logging
from collections.abc import Iterator
from typing import Any

import anyio
import pytest
from kit.clients import PATIENCE, SESSION, eventually
from kit.pages import RecordedEvents
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind

import aiolead
from aiolead import CreateMode, Election, Lock, Queue, ServiceRegistry
from aiolead.errors import ConfigurationError, LossReason, NoAuthError, NoNodeError
from aiolead.events import EventName
from aiolead.instrumentation.otel import OpenTelemetrySink
from aiolead.testing import EmbeddedServer

RECIPES = ("contention.", "tenure.", "election.")


@pytest.fixture
def told() -> Iterator[RecordedEvents]:
    """The events of a client. In the end, all of them must be as the page says."""
    told = RecordedEvents()
    yield told
    assert told.wrong == []


def connect(server: EmbeddedServer, told: Any, **options: Any) -> aiolead.types.Connection:
    return aiolead.connect(
        server.connect_string, on_event=told, **{"session_timeout": SESSION, **options}
    )


# --- sessions, connections ---------------------------------------------------------------------


async def test_events_of_a_client_without_faults(told: RecordedEvents) -> None:
    async with EmbeddedServer() as server:
        async with connect(server, told) as client:
            session_id = client.session_id
        assert told.names() == ["session.connected", "connection.opened", "session.closed"]
        assert {event.session_id for event in told.events} == {session_id}
        assert told.events[0].fields == {"before": "connecting", "away": 0.0, "timeout": SESSION}
        opened = told.events[1].fields
        assert (opened["server"], opened["session"]) == (server.connect_string, "first")


async def test_lost_connection_is_reported(told: RecordedEvents) -> None:
    async with EmbeddedServer() as server, connect(server, told) as client:
        server.disconnect()
        await eventually(lambda: len(told.of(EventName.CONNECTION_OPENED)) == 2, "it is back")
        assert told.names("session.")[1:] == ["session.suspended", "session.connected"]
        lost, found = told.of(EventName.CONNECTION_LOST)[0], told.of(EventName.SESSION_CONNECTED)[1]
        assert lost.fields == {
            "server": server.connect_string,
            "reason": "the server closed the connection",
            "error": "ServerHungUp",
            "held": 0,
            "remaining": 0.0,
            "hidden": 0,
        }
        assert found.fields["before"] == "suspended"
        assert 0 < found.fields["away"] < PATIENCE
        now = client.statistics()
        assert (now.connections, now.suspensions, now.expirations) == (2, 1, 0)
        assert (now.state, now.server) == (
            aiolead.model.SessionState.CONNECTED,
            server.connect_string,
        )


async def test_expired_session_ends_its_holds(told: RecordedEvents) -> None:
    async with EmbeddedServer() as server, connect(server, told) as client:
        first = client.session_id
        with pytest.raises(aiolead.LockLost):
            async with Lock(client, "/lock") as held:
                server.expire_session(first)
                await anyio.sleep(PATIENCE)
        await client.ready()
        sessions = ["session.expired", "session.connecting", "session.connected"]
        assert told.names("session.")[-3:] == sessions
        # Losses are reported once the bodies were cancelled: see `LossReports`.
        assert told.names("session.expired", "tenure.ended") == ["session.expired", "tenure.ended"]
        (ended,) = told.of(EventName.TENURE_ENDED)
        assert (ended.session_id, ended.level) == (first, logging.WARNING)
        assert (ended.fields["reason"], ended.fields["token"]) == ("expired", held.token)
        assert client.statistics().expirations == 1


async def test_missing_server_is_reported(told: RecordedEvents) -> None:
    async with EmbeddedServer() as server:
        await server.stop()
        async with connect(server, told, connect_timeout=0):
            await eventually(lambda: bool(told.of(EventName.CONNECTION_FAILED)), "an attempt")
        failed = told.of(EventName.CONNECTION_FAILED)[0]
        assert failed.fields["server"] == server.connect_string
        assert failed.fields["error"] == "ConnectionRefusedError"
        assert "session.closed" in told.names()


async def test_no_secret_in_events(told: RecordedEvents, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    user, right, wrong, znode = "anna", "a-right-secret", "a-wrong-secret", "a-secret-of-a-znode"
    async with EmbeddedServer(sasl_users={user: right}) as server:
        with pytest.raises(aiolead.errors.AuthFailedError):
            async with connect(server, told, sasl=aiolead.SASL.digest_md5(user, wrong)):
                raise AssertionError
        auth = [aiolead.Auth.digest(user, right)]
        sasl = aiolead.SASL.digest_md5(user, right)
        async with connect(server, told, sasl=sasl, auth=auth) as client:
            password = client.credentials.password
            queue = Queue(client, "/queue")
            await queue.put(znode.encode())
            async with Lock(client, "/lock"), queue.get():
                server.disconnect()
                await eventually(lambda: len(told.of(EventName.CONNECTION_OPENED)) == 2, "back")
    assert told.of(EventName.SESSION_AUTH_FAILED)
    everything = "\n".join(
        [str(event) + repr(event) + repr(event.as_dict()) for event in told.events]
        + [record.getMessage() + repr(vars(record)) for record in caplog.records]
    )
    assert str(told.events[0]) in everything
    for secret in (right, wrong, znode, password.hex(), repr(password)):
        assert secret not in everything


# --- holds ------------------------------------------------------------------------------------


async def test_term_and_its_renewals_are_reported(told: RecordedEvents) -> None:
    async with EmbeddedServer() as server:
        async with connect(server, told) as client:
            election = Election(client.chroot("/app"), "/leader", identity="anna")
            async with election.leadership() as term:
                begun = term.statistics()
                await eventually(lambda: bool(told.of(EventName.LEASE_RENEWED)), "a renewal")
                during, client_now = term.statistics(), client.statistics()
        assert told.names(*RECIPES) == [
            "contention.begun",
            "contention.ended",
            "tenure.begun",
            "tenure.ended",
        ]
        who = {"recipe": "Election", "identity": "anna"}
        waits, waited, begins, ends = (e for e in told.events if e.name.startswith(RECIPES))
        assert {event.path for event in (waits, waited, begins, ends)} == {"/app/leader"}
        assert waits.fields == who
        assert waited.fields["outcome"] == "held"
        assert begins.fields == who | {"token": term.token}
        assert ends.fields.items() >= (who | {"token": term.token, "reason": "released"}).items()
        assert (begins.level, ends.level) == (logging.INFO, logging.INFO)

        renewed = told.of(EventName.LEASE_RENEWED)[0].fields
        assert 0 < renewed["took"] < renewed["timeout"] == SESSION
        assert 0 < renewed["remaining"] <= SESSION
        assert client_now.held == 1
        assert client_now.renewals >= 1
        assert client_now.slowest_renewal >= renewed["took"]
        assert 0 < client_now.lease_remaining < SESSION
        assert client_now.requests >= 3

        over = term.statistics()
        assert begun.lasted < during.lasted <= over.lasted == ends.fields["lasted"]
        assert (begun.is_held, over.is_held, over.remaining) == (True, False, 0.0)
        assert (over.token, over.path, over.loss) == (term.token, term.path, None)


async def test_each_end_of_a_tenure_has_its_reason(told: RecordedEvents) -> None:
    async with EmbeddedServer() as server:
        async with connect(server, told) as client:
            async with Lock(client, "/lock") as held:
                await held.release()
            assert held.statistics().is_released
            with pytest.raises(aiolead.LockLost):
                async with Lock(client, "/lock") as held:
                    await client.delete(held.path)
                    await anyio.sleep(PATIENCE)
            assert held.statistics().loss is LossReason.DELETED
            queue = Queue(client, "/queue")
            await queue.put(b"one")
            await queue.put(b"two")
            async with queue.consume() as items:
                async for item in items:
                    await item.ack()
                    break
            async with queue.get():
                pass
        ends = [
            (event.fields["recipe"], event.fields["reason"], event.level)
            for event in told.of(EventName.TENURE_ENDED)
        ]
        assert ends == [
            ("Lock", "resigned", logging.DEBUG),
            ("Lock", "deleted", logging.WARNING),
            ("Queue", "done", logging.DEBUG),
            ("Queue", "released", logging.DEBUG),
        ]
        assert len(told.of(EventName.TENURE_BEGUN)) == len(ends)


async def test_each_end_of_a_wait_has_its_outcome(told: RecordedEvents) -> None:
    async with EmbeddedServer() as server:
        async with connect(server, told) as client, Lock(client, "/lock", identity="holder"):
            lock = Lock(client, "/lock", identity="waits")
            async with lock.try_acquire() as held:
                assert held is None
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_hold, lock)
                await eventually(lambda: len(told.of(EventName.CONTENTION_BEGUN)) == 3, "it waits")
                tasks.cancel_scope.cancel()
            await client.create("/other", acl=[aiolead.ACL.world(aiolead.model.Permission.READ)])
            with pytest.raises(NoAuthError):
                await _hold(Lock(client, "/other", identity="waits"))
        ended = [
            event.fields["outcome"]
            for event in told.of(EventName.CONTENTION_ENDED)
            if event.fields["identity"] == "waits"
        ]
        assert ended == ["not held", "cancelled", "failed"]
        assert len(told.of(EventName.CONTENTION_BEGUN)) == len(ended) + 1


async def _hold(lock: Lock) -> None:
    async with lock:
        raise AssertionError


async def test_election_changes_are_reported(told: RecordedEvents) -> None:
    changed = EventName.ELECTION_CHANGED
    async with EmbeddedServer() as server:
        async with connect(server, told) as client:
            election = Election(client, "/election", identity="anna")
            async with election.observe() as seen:
                with anyio.fail_after(PATIENCE):
                    await anext(aiter(seen))
                    async with election.campaign() as states:
                        async for state in states:
                            if state.term is not None and state.phase is aiolead.Phase.LEADING:
                                await eventually(lambda: bool(told.of(changed)), "it is seen")
                                await state.term.resign()
                    await eventually(lambda: len(told.of(changed)) >= 2, "so is its end")
        first, *_, last = told.of(EventName.ELECTION_CHANGED)
        (begun,) = told.of(EventName.TENURE_BEGUN)
        assert first.path == "/election"
        assert first.fields == {"identity": "anna", "token": begun.fields["token"], "leaders": 1}
        assert last.fields == {"identity": "", "token": 0, "leaders": 0}
        assert [event.fields["reason"] for event in told.of(EventName.TENURE_ENDED)] == ["resigned"]


async def test_close_of_a_client_is_no_alarm(told: RecordedEvents) -> None:
    async with EmbeddedServer() as server:
        async with connect(server, told) as client:
            async with Election(client, "/election").campaign() as states:
                async for state in states:
                    if state.phase is aiolead.Phase.LEADING:
                        break
                client._core.machine.leases.close()
                await eventually(lambda: bool(told.of(EventName.TENURE_ENDED)), "it is over")
        (ended,) = told.of(EventName.TENURE_ENDED)
        assert (ended.fields["reason"], ended.level) == ("closed", logging.INFO)


async def test_late_renewal_is_reported(told: RecordedEvents) -> None:
    async with EmbeddedServer() as server, connect(server, told) as client:
        told_of = client._core.lease_renewed
        told_of(SESSION / 4, 5.0)
        told_of(SESSION / 4 + 0.5, 4.0)
        assert told.names("lease.") == ["lease.renewed", "lease.renewed", "lease.late"]
        now = client.statistics()
        assert (now.renewals, now.late_renewals, now.slowest_renewal) == (2, 1, SESSION / 4 + 0.5)


# --- requests ----------------------------------------------------------------------------------


async def test_request_has_a_span_below_that_of_its_task() -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("test")
    sink = OpenTelemetrySink(
        meter_provider=MeterProvider(), tracer_provider=provider, requests=True
    )
    async with EmbeddedServer() as server:
        host, _, port = server.connect_string.rpartition(":")
        async with aiolead.connect(server.connect_string, on_event=sink) as client:
            exporter.clear()
            with tracer.start_as_current_span("around") as around:
                await client.create("/a", b"")
                with pytest.raises(NoNodeError):
                    await client.get("/none")
            created, failed = exporter.get_finished_spans()[:2]
    assert created.name.startswith("zookeeper CREATE")
    assert failed.name == "zookeeper GET_DATA"
    where = {"server.address": host, "server.port": int(port)}
    assert failed.attributes is not None
    assert dict(failed.attributes) == where | {
        "aiolead.operation": "GET_DATA",
        "aiolead.path": "/none",
        "error.type": "NoNodeError",
    }
    assert failed.kind is SpanKind.CLIENT
    for span in (created, failed):
        assert span.parent is not None
        assert span.parent.span_id == around.get_span_context().span_id


async def test_requests_are_reported_only_to_those_who_want_them(told: RecordedEvents) -> None:
    async with EmbeddedServer() as server, connect(server, told) as client:
        await client.create("/a", b"")
    assert told.of(EventName.REQUEST_ENDED) == []


# --- sinks -------------------------------------------------------------------------------------


async def test_error_of_a_sink_is_logged_once(
    told: RecordedEvents, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(_: aiolead.events.Event) -> None:
        raise ValueError("a sink")

    async with EmbeddedServer() as server, connect(server, [fails, told]) as client:
        async with Lock(client, "/lock"):
            server.disconnect()
            await eventually(lambda: len(told.of(EventName.CONNECTION_OPENED)) == 2, "back")
        await client.create("/x", mode=CreateMode.EPHEMERAL)
    assert told.names()[-1] == "session.closed"
    complaints = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert len(complaints) == 1


async def test_events_are_logged_without_a_sink(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "aiolead")
    async with EmbeddedServer() as server, aiolead.connect(server.connect_string) as client:
        assert client.backend.events.wants(logging.INFO)
        assert not client.backend.events.wants(logging.DEBUG)
        async with Lock(client, "/lock"), Election(client, "/election").leadership():
            pass
    # The debug mode of asyncio reports slow steps; a busy machine has some.
    ours = [record for record in caplog.records if record.name.startswith("aiolead")]
    told = [vars(record).get("aiolead_event") for record in ours]
    assert told == ["connection.opened", "tenure.begun", "tenure.ended"]


class _Asynchronous:
    async def __call__(self, _: aiolead.events.Event) -> None:
        raise AssertionError


@pytest.mark.parametrize(
    "sink", ["print", 7, [print, None], _Asynchronous(), _Asynchronous().__call__]
)
def test_invalid_sinks_are_refused(sink: Any) -> None:
    with pytest.raises(ConfigurationError, match="on_event"):
        aiolead.connect("zk", on_event=sink)


# --- names of other processes --------------------------------------------------------------------


async def _delete_unseen(client: aiolead.Client, path: str) -> None:
    client.delete(path)  # fails, and nobody ever asks
    await client.sync("/")
    gc.collect()


async def test_hostile_names_are_printable(
    told: RecordedEvents, caplog: pytest.LogCaptureFixture
) -> None:
    path, mallory = "/locks/\u202e\u2028x", "\x1b[2J\r\nall is well\u2029"
    with caplog.at_level(logging.DEBUG, logger="aiolead"):
        async with EmbeddedServer() as server, connect(server, told) as client:
            async with Lock(client, path, identity=mallory) as held:
                assert held.path.startswith(path)
            with pytest.raises(NoNodeError) as missing:
                await client.get(f"{path}/none")
            # A service that anybody may write, with what is no instance of it.
            await client.ensure_path("/services/web")
            await client.create("/services/web/\u2066y", b"\x1b")
            with pytest.warns(RuntimeWarning, match="never awaited") as warned:
                await _delete_unseen(client, f"{path}/neither")
            assert str(warned[0].message).isprintable()
            assert await ServiceRegistry(client, "/services").instances("web") == []
    lines = [record.getMessage() for record in caplog.records if record.name[:7] == "aiolead"]
    assert all(line.isprintable() for line in lines)
    assert any(
        r"\u202e\u2028x" in line and r"\x1b[2J\r\nall is well\u2029" in line for line in lines
    )
    assert any("is no instance of a service" in line for line in lines)
    assert any("never awaited" in line for line in lines)
    # Programs get the names unchanged.
    (begun,) = told.of(EventName.TENURE_BEGUN)
    assert (begun.path, begun.fields["identity"]) == (path, mallory)
    assert missing.value.path == f"{path}/none"
    assert str(missing.value).isprintable()
