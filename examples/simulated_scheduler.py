"""A job scheduler in the simulation: is it true that one process at a time does the job?

`careful` and `careless` are the application. They know nothing of the simulation: they are given a
client, and a printer, on which the pages of two schedulers must not get mixed. The rest puts them
into a world where connections break, servers are partitioned or die, and processes are killed or
stopped: in each schedule three schedulers run, and the printer reports mixed pages.

`careful` asks before each page whether it still leads. `careless` asks once, and does not let
itself be interrupted, since half a job would be a pity. In a test with one server and a link that
works, both do the same.

python examples/simulated_scheduler.py [how many schedules]
"""

from collections.abc import Awaitable, Callable
from functools import partial

import anyio

import aiolead
from aiolead.testing import simulation

PAGES = 10

# --- the application -----------------------------------------------------------------------------


class Printer:
    """There is one. Reports a page that is printed between the pages of another job.

    Args:
        pause: how long a page takes to dry, in seconds, as it is now.
        on_mixed: called when pages are mixed.
    """

    def __init__(self, pause: Callable[[], float], on_mixed: Callable[[str], object]) -> None:
        self._pause = pause
        self._on_mixed = on_mixed
        self._latest: object = None

    async def page(self, job: object, number: int) -> None:
        if number > 0 and self._latest is not job:
            self._on_mixed(f"page {number} of a job comes after pages of another one")
        self._latest = job
        await anyio.sleep(self._pause())


async def careful(client: aiolead.Client, printer: Printer) -> None:
    job = object()
    async with aiolead.Election(client, "/scheduler").leadership() as term:
        for number in range(PAGES):
            term.check()
            await printer.page(job, number)


async def careless(client: aiolead.Client, printer: Printer) -> None:
    job = object()
    async with aiolead.Election(client, "/scheduler").leadership() as term:
        term.check()
        with anyio.CancelScope(shield=True):
            for number in range(PAGES):
                await printer.page(job, number)


# --- the world that it is put into ---------------------------------------------------------------

Job = Callable[[aiolead.Client, Printer], Awaitable[None]]

DRYING = 0.5
"""The time of a page, in seconds: a job takes longer than a session can live without its client."""


async def schedulers(job: Job, world: simulation.World) -> None:
    """The scenario: three processes that do the job again and again."""
    printer = Printer(lambda: 0.0 if world.is_healed else DRYING, partial(world.violation, "mixed"))
    for name in ("a", "b", "c"):
        world.start(name, partial(scheduler, job, printer, world))


async def scheduler(
    job: Job, printer: Printer, world: simulation.World, process: simulation.Process
) -> None:
    """One process: until all has healed, and then it does the job once more, or is reported."""
    while True:
        try:
            async with world.client(process) as client:
                while True:
                    was_healed = world.is_healed
                    try:
                        await job(client, printer)
                    except aiolead.LeadershipLost:
                        continue  # the job was not finished: another one
                    if was_healed:
                        return
        except aiolead.errors.ConnectFailed:
            await anyio.sleep(0.1)


async def careful_schedulers(world: simulation.World) -> None:
    await schedulers(careful, world)


async def careless_schedulers(world: simulation.World) -> None:
    await schedulers(careless, world)


# --- many schedules of faults --------------------------------------------------------------------


def search(scenario: simulation.Scenario, count: int) -> simulation.Outcome | None:
    """The first of so many schedules that find something, with as few faults as will do."""
    for seed in range(count):
        outcome = simulation.simulate(scenario, seed=seed)
        if outcome.violations:
            return outcome.shrunk()
    return None


def main(count: int = 100) -> None:
    for scenario in (careful_schedulers, careless_schedulers):
        found = search(scenario, count)
        if found is None:
            print(f"{scenario.__name__}: nothing was wrong in {count} schedules", flush=True)
        else:
            print(f"{scenario.__name__}: {found.violations[0]}", flush=True)
            print(f"{found.schedule.tell()}\nTo replay it: {found.replay_line}", flush=True)


if __name__ == "__main__":
    from _command import command

    with command(main) as arguments:
        main(*arguments)
