"""Many holds of one client: all bodies are cancelled before any loss is reported; and the limit."""

from __future__ import annotations

import gc

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


@pytest.mark.parametrize(("count", "is_postponed"), [(100, True), (20, False)])
async def test_no_garbage_is_collected_while_many_are_cancelled(
    count: int, is_postponed: bool
) -> None:
    """A full one takes as long as everything else, and each loss makes objects that set it off."""
    held = 0
    collections: list[int] = []
    cancelled: list[int] = []

    async def hold(client: Client, path: str) -> None:
        nonlocal held
        with pytest.raises(LockLost):
            async with Lock(client, path):
                held += 1
                try:
                    await anyio.sleep_forever()
                finally:
                    cancelled.append(len(collections))

    def collected(phase: str, _info: dict[str, int]) -> None:
        if phase == "start":
            collections.append(len(cancelled))

    usual = gc.get_threshold()
    try:
        async with EmbeddedServer() as server, anyio.create_task_group() as tasks:
            async with connect(server) as client:
                for number in range(count):
                    tasks.start_soon(hold, client, f"/lock{number}")
                await eventually(lambda: held == count, "all are held")
                gc.callbacks.append(collected)
                gc.set_threshold(10, 2, 2)
                collections.clear()
                client._core.machine.leases.lose_all(LossReason.UNCONFIRMED)
                await eventually(lambda: len(cancelled) == count, "all are cancelled")
                await eventually(gc.isenabled, "garbage is collected again")
    finally:
        gc.set_threshold(*usual)
        gc.callbacks.remove(collected)
    # A collection that was due before the first notification does not count.
    assert (max(cancelled) <= 1) is is_postponed
