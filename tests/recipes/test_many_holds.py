"""Many holds of one client: bodies are cancelled before a loss is reported; costs; the limit."""

from __future__ import annotations

import gc
from typing import Any, Literal

import anyio
import pytest
from kit.clients import connect, contenders_left, eventually

from aiolead import Client, Election, Lock, Semaphore
from aiolead._session import timing
from aiolead.errors import LockLost, LossReason, TooManyHoldsError
from aiolead.events import Event, EventName
from aiolead.testing import EmbeddedServer

MANY = 200


@pytest.mark.parametrize("is_closed", [False, True])
async def test_no_loss_is_reported_before_the_last_body_is_cancelled(is_closed: bool) -> None:
    seen: list[str] = []
    held: list[str] = []

    def sink(event: Event) -> None:
        if event.name is EventName.TENURE_ENDED:
            seen.append(f"reported {event.path} {event.fields['reason']}")

    async def hold(client: Client, path: str) -> None:
        with pytest.raises(LockLost):
            async with Lock(client, path):
                held.append(path)
                try:
                    await anyio.sleep_forever()
                finally:
                    seen.append("cancelled")

    async with EmbeddedServer() as server, anyio.create_task_group() as tasks:
        async with connect(server, on_event=sink) as client:
            for number in range(MANY):
                tasks.start_soon(hold, client, f"/lock{number}")
            await eventually(lambda: len(held) == MANY, "all are held")
            if not is_closed:
                client._core.machine.leases.lose_all(LossReason.UNCONFIRMED)
                await eventually(lambda: len(seen) == 2 * MANY, "all are reported")
        reason = "closed" if is_closed else "unconfirmed"
        losses = [each for each in seen if each != "cancelled"]
        assert sorted(losses) == sorted(f"reported {path} {reason}" for path in held)
        # On trio, the task that reports runs in some order with those that were cancelled.
        assert seen.index(losses[0]) > MANY // 4, seen[: MANY // 4]


async def test_one_hold_too_many_is_refused_and_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(timing, "LOSING", 0.625)  # of a session timeout of 10 s: two holds
    async with EmbeddedServer() as server, connect(server, session_timeout=10) as client:
        async with Lock(client, "/a"), Election(client, "/b").leadership():
            with pytest.raises(TooManyHoldsError, match="the session holds 2 znodes"):
                async with Lock(client, "/c"):
                    pytest.fail("it holds")
            with pytest.raises(TooManyHoldsError):
                async with Semaphore(client, "/d", 3).acquire():
                    pytest.fail("it holds")
        await eventually(lambda: not contenders_left(server, "/c"), "no contender")
        async with Lock(client, "/c"), Lock(client, "/e"):
            pass


async def test_error_at_the_second_hold_releases_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a watchdog would take it for a hold that its holder never releases."""
    async with EmbeddedServer() as server, connect(server) as client:
        lease = type(client.backend.lease)
        held: list[str] = []
        hold = lease.hold

        def fails_at_the_second(self: Any, path: str, *owner: Any, **options: Any) -> Any:
            held.append(path)
            if len(held) == 2:
                raise LookupError("the second")
            return hold(self, path, *owner, **options)

        monkeypatch.setattr(lease, "hold", fails_at_the_second)
        with pytest.raises(LookupError, match="the second"):
            async with Semaphore(client, "/s", 2).acquire(permits=2):
                pytest.fail("it holds")
        leases = client._core.machine.leases
        await eventually(lambda: not leases.held, "nothing is held")
        assert not leases.is_in_grace


@pytest.mark.parametrize(("backend", "most"), [("asyncio", 10), ("trio", 30)])
def test_losing_a_hold_makes_few_objects(backend: Literal["asyncio", "trio"], most: int) -> None:
    """Each new object brings the next garbage collection closer, while other bodies wait.

    Most are those of the event loop. Lower the number when there are fewer. Objects that go are
    subtracted, as Python does.
    """
    made: list[int] = []

    async def hold(client: Client, path: str, held: list[str]) -> None:
        with pytest.raises(LockLost):
            async with Lock(client, path):
                held.append(path)
                try:
                    await anyio.sleep_forever()
                finally:
                    made.append(gc.get_count()[0])

    async def main() -> int:
        held: list[str] = []
        async with EmbeddedServer() as server, anyio.create_task_group() as tasks:
            async with connect(server) as client:
                for number in range(MANY):
                    tasks.start_soon(hold, client, f"/lock{number}", held)
                await eventually(lambda: len(held) == MANY, "all are held")
                gc.collect()
                gc.disable()
                made.append(gc.get_count()[0])
                client._core.machine.leases.lose_all(LossReason.UNCONFIRMED)
                await eventually(lambda: len(made) == MANY + 1, "all are cancelled")
        return made[1] - made[0]

    try:
        assert anyio.run(main, backend=backend) // MANY <= most
    finally:
        gc.enable()
