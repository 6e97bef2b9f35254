"""Operations that take several requests, in networks where links break and servers die."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

import anyio
import pytest

import aiolead
from aiolead import Client, NodeExistsError, NoNodeError, admin
from aiolead.model import Quota
from aiolead.testing import simulation

TREES = 4
WIDTH = 12


async def grow(client: Client, top: str) -> None:
    """A tree of two levels, or as much of it as is not lost."""
    paths = [top, *(f"{top}/{i}" for i in range(WIDTH))]
    paths += [f"{top}/{i}/{j}" for i in range(WIDTH) for j in range(WIDTH)]
    lost: list[aiolead.ConnectionLossError] = []
    for reply in [client.create(path) for path in paths]:
        try:
            await reply
        except aiolead.ConnectionLossError as error:
            lost.append(error)
        except (NodeExistsError, NoNodeError):
            pass  # of an attempt before, or since the parent was lost with the link
    if lost:
        raise lost[0]


async def work(client: Client, top: str, world: simulation.World) -> None:
    await grow(client, top)
    await admin.delete_all(client, top)
    await client.sync()
    if await client.exists(top) is not None:
        world.violation("deleted", f"{top} is left of a tree that was deleted")
    data, missing = await client.reads().get("/").get(top)
    if not isinstance(data, tuple) or not isinstance(missing, NoNodeError):
        world.violation("reads", f"answered {data!r} and {missing!r}")
    await admin.whoami(client)
    quota = Quota(count=3, bytes_hard=9)
    with suppress(NodeExistsError):
        await client.create(top)
    await admin.set_quota(client, top, quota)
    found = await admin.get_quota(client, top)
    if found is None or found[0] != quota or found[1].count != 1:
        world.violation("quota", f"found {found!r}")
    await admin.delete_quota(client, top)


async def program(
    world: simulation.World, done: list[str], finished: anyio.Event, process: simulation.Process
) -> None:
    while len(done) < TREES:
        with suppress(aiolead.errors.TransportError, aiolead.errors.SessionError):
            async with world.client(process) as client:
                while len(done) < TREES:
                    top = f"/tree-{len(done)}"
                    with suppress(aiolead.ConnectionLossError):
                        await work(client, top, world)
                        done.append(top)
                    await anyio.sleep(0.1)
    finished.set()


async def scenario(world: simulation.World, done: list[str]) -> None:
    finished = anyio.Event()
    world.start("worker", partial(program, world, done, finished))
    await world.healed()
    with anyio.move_on_after(30):
        await finished.wait()


@pytest.mark.parametrize("seed", range(5))
def test_operations_among_faults(seed: int) -> None:
    done: list[str] = []
    outcome = simulation.simulate(partial(scenario, done=done), seed=seed)
    assert outcome.violations == ()
    assert len(done) == TREES
