"""The conformance kit: our own client keeps every promise, and each planted bug breaks one."""

from __future__ import annotations

import contextlib
import inspect
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any

import aiozk
import anyio
import pytest
from adapters.aiozk_peer import Adapted
from adapters.checking import BrokenPromises, check_client, promises
from adapters.checking.stage import PROMISES
from kit.faults import only_on

import aiolead
from aiolead.abc import CoordinationClient
from aiolead.errors import ConfigurationError, ConnectionLossError, LossReason
from aiolead.model import SessionState, WatchEvent

TIMEOUT = 2.0

pytestmark = pytest.mark.keeps_time(TIMEOUT)

PATIENCE = 4.0
"""How long a bug has that keeps a promise from ever being kept, in seconds."""


def ours(hosts: str) -> aiolead.types.Connection:
    return aiolead.connect(hosts, session_timeout=TIMEOUT)


async def test_our_own_client_keeps_every_promise(
    internal_errors: list[logging.LogRecord],
) -> None:
    assert await check_client(ours, patience=20) == tuple(PROMISES)
    assert len(internal_errors) == 1  # that of a promise about them


@pytest.mark.exhaustive("a client that is not ours")
@only_on("asyncio")
async def test_an_adapted_client_keeps_every_promise(
    internal_errors: list[logging.LogRecord],
) -> None:
    assert aiozk.__version__.startswith("0.32.")
    kept = await check_client(lambda hosts: Adapted(hosts, session_timeout=TIMEOUT), patience=20)
    assert kept == tuple(PROMISES)


# --- planted bugs ------------------------------------------------------------------------------


class Wrapped:
    """A client that is ours, but for what a subclass does wrong, or its backend."""

    def __init__(self, client: aiolead.Client, backend: type[WrappedBackend] | None = None) -> None:
        self.real = client
        self.backend = (backend or WrappedBackend)(self)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)


class WrappedBackend:
    """A backend that is ours, but for what a subclass does wrong."""

    def __init__(self, client: Wrapped) -> None:
        self.client = client
        self.real = client.real.backend

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)

    def unlimited(self) -> Any:
        return self.client


class Replied:
    """A reply of another's making: `answer` is a coroutine function."""

    def __init__(self, real: Any, answer: Callable[[], Any]) -> None:
        self._real = real
        self._answer = answer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def __await__(self) -> Any:
        return self._answer().__await__()


class Lazy(Wrapped):
    """Sends a request when its answer is awaited."""

    def create(self, *args: Any, **options: Any) -> Any:
        async def answer() -> Any:
            return await self.real.create(*args, **options)

        return Replied(None, answer)


class Retrying(Wrapped):
    """Sends a write again whose answer was lost, as aiozk does."""

    def create(self, *args: Any, **options: Any) -> Any:
        real = self.real.create(*args, **options)

        async def answer() -> Any:
            try:
                return await real
            except ConnectionLossError:
                await self.real.ready()
                return await self.real.create(*args, **options)

        return Replied(real, answer)


class Giving(Wrapped):
    """Does not send a read again whose answer was lost."""

    def get(self, path: str, *, watch: Any = None) -> Any:
        real = self.real.get(path, watch=watch)
        lost: list[bool] = []
        self.real.backend.subscribe(lambda state, _: lost.append(state is SessionState.SUSPENDED))

        async def answer() -> Any:
            value = await real
            if any(lost):
                raise ConnectionLossError("the link was lost")
            return value

        return Replied(real, answer)


class Certain(Wrapped):
    """Says of a lost write that it was not applied."""

    def set(self, path: str, data: bytes, *, version: int = -1) -> Any:
        real = self.real.set(path, data, version=version)

        async def answer() -> Any:
            try:
                return await real
            except ConnectionLossError as error:
                error.outcome = aiolead.errors.Outcome.NOT_APPLIED
                raise

        return Replied(real, answer)


class Believing(Wrapped):
    """Asks the connected server where it should ask the quorum."""

    def check(self, path: str, *, version: int = -1) -> Any:
        real = self.real.exists(path)

        async def answer() -> None:
            if await real is None:
                raise aiolead.NoNodeError(path)

        return Replied(real, answer)


class Unfenced(Wrapped):
    """Does not look at the guard."""

    def fenced(self, guard: str, *, gone: Any = None) -> Any:
        return Plain(self.real)


class Plain:
    def __init__(self, client: aiolead.Client) -> None:
        self.transaction, self.set, self.delete = client.transaction, client.set, client.delete
        self._client = client

    async def create(self, path: str, data: bytes = b"") -> str:
        return (await self._client.create(path, data)).path


class Persisting(WrappedBackend):
    """Its watches fire again and again."""

    def make_watch(self, on_event: Any = None) -> Any:
        def again(event: WatchEvent) -> None:
            if on_event is not None:
                on_event(event)
                on_event(event)

        return self.real.make_watch(again)


class Forgetting(WrappedBackend):
    """Does not tell that a session's end has ended its watches."""

    def make_watch(self, on_event: Any = None) -> Any:
        def filtered(event: WatchEvent) -> None:
            if on_event is not None and event.type is not aiolead.model.EventType.NONE:
                on_event(event)

        return self.real.make_watch(filtered)


class Unaware(WrappedBackend):
    """Does not tell what has happened before its watches were armed together."""

    def arm(self, watches: Any, *, since: int) -> Any:
        return self.real.arm(watches, since=1 << 62)


class Silent(WrappedBackend):
    """Goes from one session to the next without telling that the first one is over."""

    def subscribe(self, on_state: Any) -> Any:
        def filtered(state: SessionState, session_id: int) -> None:
            if state is not SessionState.EXPIRED:
                on_state(state, session_id)

        return self.real.subscribe(filtered)


class Untold(WrappedBackend):
    """Does not say how a job has ended."""

    def spawn(self, job: Any, on_end: Any = None) -> None:
        self.real.spawn(job)


class Selfish(WrappedBackend):
    """Shares nothing."""

    def shared(self, path: str, make: Any) -> Any:
        return make()


class BrokenLease:
    def __init__(self, real: Any) -> None:
        self._real = real

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


class Optimistic(BrokenLease):
    """Counts from the last answer of any kind, for a session timeout."""

    def remaining(self) -> float:
        return TIMEOUT


class Endless(BrokenLease):
    """A hold ends when the servers say so, and not before."""

    def hold(self, path: str, lost: Any, **options: Any) -> Any:
        def filtered(reason: LossReason) -> None:
            if reason is not LossReason.UNCONFIRMED:
                lost(reason)

        return self._real.hold(path, filtered, **options)


class Riding(BrokenLease):
    """Surrenders nothing."""

    def hold(
        self, path: str, lost: Any, *, resign_on_disconnect: bool = False, **options: Any
    ) -> Any:
        return self._real.hold(path, lost, **options)


class Unsettled(BrokenLease):
    """Never says that a hold has lasted for a moment."""

    def hold(self, path: str, lost: Any, *, settled: Any = None, **options: Any) -> Any:
        return self._real.hold(path, lost, **options)


class Late(BrokenLease):
    """Forgets why something was lost."""

    def hold(self, path: str, lost: Any, **options: Any) -> Any:
        return self._real.hold(path, lambda _: lost(LossReason.EXPIRED), **options)


def leased(lease: Any) -> Any:
    class Leased(WrappedBackend):
        @property
        def lease(self) -> Any:
            return lease(self.real.lease)

    Leased.__name__ = lease.__name__
    return Leased


BUGS = [
    (Lazy, "requests_are_applied_in_the_order_of_the_calls"),
    (Lazy, "a_call_hands_its_request_over"),
    (Retrying, "a_lost_write_is_never_sent_again"),
    (Giving, "a_lost_read_is_sent_again"),
    (Certain, "a_lost_write_is_never_sent_again"),
    (Believing, "a_check_asks_the_quorum"),
    (Unfenced, "fenced_writes_need_their_guard"),
    (Unfenced, "a_fence_does_not_outlive_its_session"),
    (Persisting, "a_watch_fires_once"),
    (Forgetting, "the_end_of_a_session_ends_its_watches"),
    (Unaware, "watches_are_armed_together"),
    (Silent, "an_expired_session_is_told_before_the_next"),
    (Untold, "the_end_of_a_job_is_reported"),
    (Selfish, "what_is_shared_is_one_object"),
    (leased(Optimistic), "a_lease_is_read_off_a_clock"),
    (leased(Optimistic), "a_hold_ends_before_its_session"),
    (leased(Endless), "reads_and_pings_prove_nothing"),
    (leased(Endless), "a_hold_ends_before_its_session"),
    (leased(Riding), "a_hold_outlives_a_link"),
    (leased(Unsettled), "a_hold_settles_once"),
    (leased(Late), "a_deleted_znode_is_not_held"),
    (leased(Late), "closing_waits_for_its_holders"),
]


@pytest.mark.exhaustive("checks the kit, and nothing it checks")
@only_on("trio")
async def test_planted_bugs_break_their_promises(
    internal_errors: list[logging.LogRecord],
) -> None:
    told: dict[tuple[str, str], str] = {}

    async def plant(bug: Any, promise: str) -> None:
        @contextlib.asynccontextmanager
        async def connect(hosts: str) -> AsyncIterator[CoordinationClient]:
            async with ours(hosts) as client:
                if issubclass(bug, WrappedBackend):
                    yield Wrapped(client, bug)  # type: ignore[misc]
                else:
                    yield bug(client)

        try:
            await check_client(connect, only=[promise], patience=PATIENCE)
        except BrokenPromises as error:
            told[bug.__name__, promise] = str(error)

    async with anyio.create_task_group() as tasks:
        for bug, promise in BUGS:
            tasks.start_soon(plant, bug, promise)
    assert set(told) == {(bug.__name__, promise) for bug, promise in BUGS}
    assert all(promise in text for (_, promise), text in told.items())
    assert f"not within {PATIENCE:g} s: " in told["Endless", "a_hold_ends_before_its_session"]


# --- the kit itself ----------------------------------------------------------------------------


def test_every_promise_says_what_it_is() -> None:
    said = promises()
    assert list(said) == list(PROMISES)
    assert all(text.endswith(".") for text in said.values())
    assert all(inspect.iscoroutinefunction(promise) for promise in PROMISES.values())


@only_on("trio")
async def test_a_client_that_cannot_be_opened_breaks_what_it_is_tried_for() -> None:
    @contextlib.asynccontextmanager
    async def connect(hosts: str) -> AsyncIterator[CoordinationClient]:
        raise OSError("no")
        yield

    with pytest.raises(BrokenPromises) as caught:
        await check_client(connect, only=list(PROMISES)[:3])
    assert list(caught.value.broken) == list(PROMISES)[:3]


@only_on("trio")
async def test_there_is_no_promise_of_another_name() -> None:
    for only in (["a_hold"], "a_hold"):
        with pytest.raises(ConfigurationError, match="only: must be some of"):
            await check_client(ours, only=only)


@only_on("trio")
async def test_checking_can_be_cancelled() -> None:
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as tasks:

            @contextlib.asynccontextmanager
            async def connect(hosts: str) -> AsyncIterator[CoordinationClient]:
                async with ours(hosts) as client:
                    scope.cancel()
                    yield client

            tasks.start_soon(check_client, connect)
    assert scope.cancelled_caught
