"""The costs of an `Election`."""

from __future__ import annotations

from contextlib import AsyncExitStack
from functools import partial

import anyio

from aiolead import Client, Election
from costs._acts import beside, call, enter, hand_over, leave, new, used
from costs._counting import IDENTITY, PATH, Bench, rows
from costs.membership import until


def election(client: Client) -> Election:
    return Election(client, PATH, identity=IDENTITY)


async def leader_dies(bench: Bench) -> None:
    """From the end of its session to the next leader."""
    dying = await bench.client()
    others = [election(await bench.client()) for _ in range(2)]

    async def lead(one: Election) -> None:
        async with one.leadership():
            if one is others[0]:
                await bench.stop()
            await anyio.sleep_forever()

    async with anyio.create_task_group() as tasks:
        for one in (election(dying), *others):
            tasks.start_soon(lead, one)
            await bench.settle()
        bench.kill(dying)
        await bench.start()
        bench.server.expire_session(dying.session_id)
        await bench.over()
        tasks.cancel_scope.cancel()


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


LEADS = Election.leadership
OBSERVES = partial(enter, do=Election.observe)

ROWS = rows(
    "Election",
    {
        "lead, nobody there": enter(used(election, LEADS), LEADS),
        "resign": leave(new(election), LEADS),
        "hand-over to the next, a third behind it": hand_over(election, LEADS),
        "hand-over as the leader's session expires, the same": leader_dies,
        "ask who leads": beside(election, LEADS, partial(call, do=Election.leader)),
        "start to observe": beside(election, LEADS, OBSERVES),
        "resign, until an observer sees it": partial(resign_observed, observers=1),
        "resign, until 1,000 observers of one client see it": partial(
            resign_observed, observers=1000
        ),
    },
)
