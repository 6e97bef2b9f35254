"""Every recipe on a real server, cancelled at every await: nothing is left behind.

By a cancel scope. On the embedded server they are cancelled in all ways, while others have what
they want and while nobody has.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import pytest
from conftest import ServerUnderTest
from support.cancelling import at_suspension, cancel_everywhere
from support.every_recipe import DONE, FOLLOWED, HELD, KEPT, WAITING, Done, Followed, Held
from support.faults import only_on
from support.recipes import catch_up, connect, eventually

from aiolead import Barrier, Client, Condition, Queue, TaskBoard

pytestmark = [
    pytest.mark.timeout(120),
    pytest.mark.parametrize("server", ["standalone"], indirect=True),
    only_on("trio"),
    pytest.mark.exhaustive("each case cancels at every await", one_in=4),
    pytest.mark.both_loops,
]

Work = Callable[[Client], Coroutine[Any, Any, None]]

GATE = "/gate"


async def have(name: str, scene: Held, client: Client) -> None:
    async with scene.enter(client, f"/{name}") as mine:
        await mine.verify()


async def follow(name: str, what: Followed, client: Client) -> None:
    async with what.observe(client, f"/{name}"):
        pass


async def do(name: str, what: Done, client: Client) -> None:
    await what.do(client, f"/{name}")


async def wait_for_a_condition(client: Client) -> None:
    async with Condition(client, WAITING) as mine:
        await mine.wait(timeout=0)
        await mine.notify_all()


async def pass_a_gate(client: Client) -> None:
    gate = Barrier(client, GATE)
    await gate.set()
    await gate.remove()
    await gate.wait()


async def acknowledge(client: Client) -> None:
    queue = Queue(client, "/acknowledged")
    await queue.put(b"x")
    async with queue.get() as item:
        await item.ack()


async def finish(client: Client) -> None:
    board = TaskBoard(client, "/finished")
    await board.submit(b"x")
    async with board.claim() as task:
        await task.finish()


WORK: dict[str, Work] = {
    **{name: partial(have, name, scene) for name, scene in (HELD | KEPT).items()},
    **{f"following {name}": partial(follow, name, what) for name, what in FOLLOWED.items()},
    **{f"doing {name}": partial(do, name, what) for name, what in DONE.items()},
    "Condition.wait": wait_for_a_condition,
    "Barrier": pass_a_gate,
    "Queue.ack": acknowledge,
    "TaskBoard.finish": finish,
}


@pytest.mark.parametrize("name", WORK)
async def test_cancelled_anywhere_on_a_real_server(server: ServerUnderTest, name: str) -> None:
    async with connect(server) as a, connect(server) as b:
        scene = (HELD | KEPT).get(name)
        if scene is not None and scene.prepare is not None:
            await scene.prepare(b, f"/{name}")
            await catch_up(a)

        async def nothing_is_left() -> bool:
            return await a.get_ephemerals() == []

        async def afterwards() -> None:
            await eventually(nothing_is_left, "no znode of it is left")

        await cancel_everywhere(
            "scope", at_suspension, a, lambda: WORK[name](a), afterwards, most=200
        )
        if scene is not None:
            await scene.turn(b, f"/{name}")
