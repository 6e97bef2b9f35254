"""What an `Election` costs."""

from __future__ import annotations

from contextlib import AsyncExitStack
from functools import partial

import anyio

from aiolead import Client, Election
from costs._counting import IDENTITY, PATH, Bench, Operation
from costs.membership import until


def election(client: Client, leaders: int = 1) -> Election:
    return Election(client, PATH, identity=IDENTITY, leaders=leaders)


async def lead(bench: Bench) -> None:
    """With the first renewal of the lease: leadership is taken to last."""
    one = election(await bench.client())
    async with one.leadership():
        pass
    await bench.start()
    async with one.leadership():
        await bench.stop()


async def resign(bench: Bench) -> None:
    async with election(await bench.client()).leadership():
        await bench.start()
    await bench.stop()


async def hand_over(bench: Bench) -> None:
    first, *others = [election(await bench.client()) for _ in range(3)]
    async with anyio.create_task_group() as tasks:
        async with first.leadership():
            for other in others:
                tasks.start_soon(_lead, other, bench if other is others[0] else None)
                await bench.settle()
            await bench.start()
        await bench.over()
        tasks.cancel_scope.cancel()


async def leader_dies(bench: Bench) -> None:
    """From the end of its session to the next leader."""
    dying = await bench.client()
    others = [election(await bench.client()) for _ in range(2)]
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_lead, election(dying), None)
        await bench.settle()
        for other in others:
            tasks.start_soon(_lead, other, bench if other is others[0] else None)
            await bench.settle()
        bench.kill(dying)
        await bench.start()
        bench.server.expire_session(dying.session_id)
        await bench.over()
        tasks.cancel_scope.cancel()


async def _lead(one: Election, bench: Bench | None) -> None:
    async with one.leadership():
        if bench is not None:
            await bench.stop()
        await anyio.sleep_forever()


async def who_leads(bench: Bench) -> None:
    async with election(await bench.client()).leadership():
        other = election(await bench.client())
        async with bench.measured():
            assert await other.leader() is not None


async def observe(bench: Bench) -> None:
    async with election(await bench.client()).leadership():
        other = election(await bench.client())
        await bench.start()
        async with other.observe():
            await bench.stop()


async def resign_observed(bench: Bench, observers: int) -> None:
    leading, looking = await bench.client(), await bench.client()
    async with AsyncExitStack() as stack:
        async with election(leading).leadership():
            views = [
                await stack.enter_async_context(election(looking).observe())
                for _ in range(observers)
            ]
            await bench.settle()
            await bench.start()
        await until(lambda: all(view.value.leader is None for view in views))
        await bench.stop()


ROWS = [
    Operation("Election", "lead, nobody there", lead),
    Operation("Election", "resign", resign),
    Operation("Election", "hand-over to the next, a third behind it", hand_over),
    Operation("Election", "hand-over as the leader's session expires, the same", leader_dies),
    Operation("Election", "ask who leads", who_leads),
    Operation("Election", "start to observe", observe),
    Operation(
        "Election", "resign, until an observer sees it", partial(resign_observed, observers=1)
    ),
    Operation(
        "Election",
        "resign, until 1,000 observers of one client see it",
        partial(resign_observed, observers=1000),
    ),
]
