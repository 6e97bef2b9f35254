"""Promises about the lease: what nobody may hold for longer than it is proven."""

from __future__ import annotations

import anyio
from kit.clients import Owner

from aiolead._wire.codes import OpCode
from aiolead.abc import Hold
from aiolead.errors import LossReason
from aiolead.model import CreateMode, SessionState

from .stage import Stage

HELD = "/held"


async def _hold(stage: Stage, **options: bool) -> tuple[Hold, list[LossReason]]:
    """Begin a hold. Return it, and the list of the losses that are reported of it."""
    lost: list[LossReason] = []
    await stage.held(HELD)
    return stage.client.backend.lease.hold(HELD, Owner(lost.append), **options), lost


def _renewals(stage: Stage) -> int:
    return stage.server.requests["MULTI"]


async def _renewed(stage: Stage) -> None:
    """Waits until one more renewal was sent, and the lease has become longer."""
    lease = stage.client.backend.lease
    before, deadline = _renewals(stage), lease.deadline
    await stage.eventually(lambda: _renewals(stage) > before, "a renewal")
    await stage.eventually(lambda: lease.deadline > deadline, "a longer lease")


async def a_hold_is_renewed_through_the_quorum(stage: Stage) -> None:
    """While something is held, transactions are sent, and the lease goes on."""
    hold, lost = await _hold(stage, urgent=True)
    for _ in range(3):
        await _renewed(stage)
    hold.release()
    assert lost == [], "the reported losses"


async def a_lease_is_read_off_a_clock(stage: Stage) -> None:
    """`remaining` falls by itself, never below 0, never above the session timeout."""
    lease, timeout = stage.client.backend.lease, stage.client.session_timeout
    await stage.held(HELD)
    deadline, first = lease.deadline, lease.remaining()
    assert 0 < first <= timeout, "there is some left, and no more than the session timeout"
    await anyio.sleep(0.01)
    if lease.deadline == deadline:
        assert lease.remaining() < first, "some of it has passed"


async def a_lease_never_shrinks_but_with_its_session(stage: Stage) -> None:
    """`deadline` does not fall while the session lives, whatever becomes of its links."""
    lease = stage.client.backend.lease
    hold, lost = await _hold(stage, urgent=True)
    deadlines = [lease.deadline]
    for _ in range(3):
        before = _renewals(stage)
        stage.proxy.reset()
        while _renewals(stage) == before:
            deadlines.append(lease.deadline)
            await anyio.sleep(0.002)
    assert deadlines == sorted(deadlines), "the deadlines, one after the other"
    assert lost == [], "the reported losses"
    hold.release()


async def reads_and_pings_prove_nothing(stage: Stage) -> None:
    """Where no write is confirmed, the lease ends, whatever else is answered."""
    client = stage.client
    hold, lost = await _hold(stage, urgent=True)
    # As by a server that is isolated from the others: it answers reads, and commits nothing.
    before = _renewals(stage)
    stage.server.throttle(OpCode.MULTI, count=1_000_000)
    await stage.eventually(lambda: _renewals(stage) > before, "a renewal that is refused")
    deadline = client.backend.lease.deadline
    while not lost:
        await client.exists("/")
        assert client.backend.lease.deadline <= deadline, "nothing was proven meanwhile"
        await anyio.sleep(0.01)
    assert lost == [LossReason.UNCONFIRMED], "the reported losses"
    hold.release()


async def a_hold_ends_before_its_session(stage: Stage) -> None:
    """Without an answer it is lost in time: the session still lives at the report."""
    client = stage.client
    await stage.held(HELD)
    lost: list[tuple[LossReason, bool]] = []
    session_id = client.session_id

    def on_lost(reason: LossReason) -> None:
        lost.append((reason, session_id in stage.server.sessions()))

    hold = client.backend.lease.hold(HELD, Owner(on_lost), urgent=True)
    stage.proxy.blackhole()
    await stage.eventually(lambda: lost, "the hold is lost")
    assert lost == [(LossReason.UNCONFIRMED, True)], "why, and whether the session still lived"
    assert client.backend.lease.remaining() == 0.0, "the remaining lease"
    assert not client.backend.lease.is_enough(), "it is not enough to begin with"
    hold.release()


async def a_hold_outlives_a_link(stage: Stage) -> None:
    """A lost link alone ends no hold, unless it was to be surrendered with it."""
    client = stage.client
    await stage.held(HELD)
    told: list[str] = []
    client.backend.subscribe(lambda state, _session_id: told.append(state.value))
    kept = client.backend.lease.hold(
        HELD, Owner(lambda reason: told.append(f"kept: {reason.name}")), urgent=True
    )
    given = client.backend.lease.hold(
        HELD,
        Owner(lambda reason: told.append(f"given: {reason.name}")),
        urgent=True,
        resign_on_disconnect=True,
    )
    stage.proxy.reset()
    await stage.eventually(lambda: SessionState.CONNECTED.value in told, "the next connection")
    assert "given: DISCONNECTED" in told, "the one that was to be surrendered is lost"
    assert told.index("given: DISCONNECTED") < told.index(SessionState.CONNECTED.value)
    before = _renewals(stage)
    await stage.eventually(lambda: _renewals(stage) > before, "the other one is renewed")
    assert not any(what.startswith("kept") for what in told), "the other one is held"
    kept.release()
    given.release()


async def a_deleted_znode_is_not_held(stage: Stage) -> None:
    """If somebody deletes it, the next renewal finds that out."""
    hold, lost = await _hold(stage, urgent=True)
    await stage.operator.delete(HELD)
    await stage.eventually(lambda: lost, "the hold is lost")
    assert lost == [LossReason.DELETED], "the reported losses"
    hold.release()


async def nothing_is_held_without_its_session(stage: Stage) -> None:
    """The end of the session ends its holds; a holder that has released is not notified."""
    lost: list[str] = []
    await stage.held(HELD)
    lease = stage.client.backend.lease
    hold = lease.hold(HELD, Owner(lambda reason: lost.append(f"held: {reason.name}")), urgent=True)
    released = lease.hold(HELD, Owner(lambda reason: lost.append(f"released: {reason.name}")))
    released.release()
    await stage.expire()
    assert lost == ["held: EXPIRED"], "the notified holders"
    hold.release()


async def a_hold_settles_once(stage: Stage) -> None:
    """`hold_settled` is called once, before the first renewal; not after a release."""
    told: list[str] = []
    await stage.held(HELD)
    lease = stage.client.backend.lease
    short = lease.hold(HELD, Owner(lambda _: told.append("lost"), lambda: told.append("short")))
    short.release()
    hold = lease.hold(HELD, Owner(lambda _: told.append("lost"), lambda: told.append("settled")))
    before = _renewals(stage)
    await stage.eventually(lambda: _renewals(stage) > before + 1, "two renewals")
    assert told == ["settled"], "what was called"
    hold.release()


async def a_hold_is_lost_by_its_holders_word(stage: Stage) -> None:
    """`lose` calls `hold_lost` with its reason, at once, and once."""
    hold, lost = await _hold(stage)
    hold.lose(LossReason.DELETED)
    assert lost == [LossReason.DELETED], "the reported losses when `lose` returns"
    hold.lose(LossReason.EXPIRED)
    hold.release()
    assert lost == [LossReason.DELETED], "the reported losses after that"


async def closing_waits_for_its_holders(stage: Stage) -> None:
    """Holds are lost first (`CLOSED`); the session lives until its holders have released."""
    told: list[str] = []
    is_lost = anyio.Event()

    def on_lost(reason: LossReason) -> None:
        told.append(reason.name)
        is_lost.set()

    async def let_go(hold: Hold) -> None:
        await is_lost.wait()
        await anyio.sleep(0.02)
        told.append("lives" if HELD in stage.server.znodes() else "is over")
        hold.release()

    async with anyio.create_task_group() as tasks, stage.another() as client:
        await client.create(HELD, mode=CreateMode.EPHEMERAL)
        tasks.start_soon(let_go, client.backend.lease.hold(HELD, Owner(on_lost)))
    assert told == ["CLOSED", "lives"], "the order of events"
    assert stage.server.znodes() == [], "the tree"
