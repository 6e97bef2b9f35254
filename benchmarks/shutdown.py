"""How long nobody leads after a signal to the leader, for several ways to end a program.

A real ensemble of three servers, and two contenders, each a process, all on this machine. In each
trial the leader gets a signal, as from a terminal, systemd or a container. The time counts from the
call that sends it to the first line of the next leader's body. Then a new contender joins.

    python -m benchmarks.shutdown                       # 20 trials of each row
    python -m benchmarks.shutdown --trials 5 uvloop     # the rows whose names contain a word

docs/explanation/client-tasks.md and docs/how-to/frameworks.md quote the numbers. The rows are
`ROWS`: any command that contends once it has started, and prints a line with the word "leads" when
it leads. The last column is the worst value without the time of a web server: it counts from when
the server begins to stop the application.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import statistics
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

import anyio
from hosts.hosts import ELECTION as HOSTED
from hosts.hosts import PROGRAMS as HOSTS
from hosts.web_hosts import WEB_HOSTS
from kit.checks import until
from kit.pages import ROOT, Program

import aiolead
from aiolead import blocking
from aiolead.testing import BlockingEnsemble

TIMEOUT = 10.0
"""The session timeout, in seconds: what each trial would take if the session was left behind."""

ELECTION = "/shutdown"

LEADS = r"\bleads\b(?: at ([\d.]+))?"
"""The line of a program that leads: with the time, or the time of reading the line counts."""


@dataclass(frozen=True, slots=True)
class Row:
    """A way to end a program.

    Attributes:
        name: the name in the table.
        command: starts the program, which finds the servers in `AIOLEAD_HOSTS`. "{folder}" stands
            for an empty folder of its own.
        signal: SIGINT or SIGTERM.
        election: the path of the election.
        cwd: the directory to run in.
        whole_group: whether all processes of the program get the signal, as on Ctrl-C.
        stops: a pattern with one group, for the line that the leader prints when its host begins to
            stop the application: the group is the monotonic time. Empty if there is no such line.
    """

    name: str
    command: tuple[str, ...]
    signal: signal.Signals
    election: str = ELECTION
    cwd: Path = ROOT
    whole_group: bool = False
    stops: str = ""


# --- the programs ----------------------------------------------------------------------------


def say_that_it_leads() -> None:
    print(f"leads at {time.monotonic()}", flush=True)


async def lead() -> None:
    async with (
        aiolead.connect(session_timeout=TIMEOUT) as client,
        aiolead.Election(client, ELECTION).leadership(),
    ):
        say_that_it_leads()
        await anyio.sleep_forever()


def run_on_asyncio() -> None:
    asyncio.run(lead())


def run_on_uvloop() -> None:
    import uvloop

    uvloop.run(lead())


def run_on_trio() -> None:
    import trio

    trio.run(lead)


async def lead_until_sigterm() -> None:
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    with suppress(asyncio.CancelledError):
        await lead()


def cancel_on_asyncio() -> None:
    asyncio.run(lead_until_sigterm())


def cancel_on_uvloop() -> None:
    import uvloop

    uvloop.run(lead_until_sigterm())


def cancel_on_trio() -> None:
    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lead)
            with anyio.open_signal_receiver(signal.SIGTERM) as signals:
                async for _ in signals:
                    tasks.cancel_scope.cancel()
                    break

    anyio.run(main, backend="trio")


def exit_in_a_handler(run: Callable[[], None]) -> Callable[[], None]:
    def program() -> None:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        run()

    return program


async def lead_until_all_are_cancelled() -> None:
    def cancel_all() -> None:
        for task in asyncio.all_tasks():
            task.cancel()

    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, cancel_all)
    with suppress(asyncio.CancelledError):
        await lead()


def cancel_all_on_asyncio() -> None:
    asyncio.run(lead_until_all_are_cancelled())


def cancel_all_on_uvloop() -> None:
    import uvloop

    uvloop.run(lead_until_all_are_cancelled())


def lead_in_a_thread() -> None:
    with (
        blocking.connect(session_timeout=TIMEOUT) as client,
        blocking.Election(client, ELECTION).leadership() as term,
    ):
        say_that_it_leads()
        while not term.lost.wait(60):
            pass


def celery_worker(started: str, stopped: str) -> Callable[[], None]:
    """A Celery worker contends in a thread of the process that emits two of Celery's signals."""

    def contend(client: blocking.Client) -> None:
        with (
            suppress(aiolead.errors.ClientClosedError, aiolead.TenureLost),
            blocking.Election(client, ELECTION).leadership() as term,
        ):
            say_that_it_leads()
            term.lost.wait()

    def program() -> None:
        import celery.signals

        until_shutdown = ExitStack()

        def start(**_: object) -> None:
            client = until_shutdown.enter_context(blocking.connect(session_timeout=TIMEOUT))
            threading.Thread(target=contend, args=[client], daemon=True).start()

        def stop(**_: object) -> None:
            until_shutdown.close()

        getattr(celery.signals, started).connect(start, weak=False)
        getattr(celery.signals, stopped).connect(stop, weak=False)
        app = celery.Celery("shutdown", broker="memory://")
        app.conf.worker_redirect_stdouts = False
        app.worker_main(["worker", "--concurrency", "1", "--loglevel", "ERROR"])

    return program


PROGRAMS: dict[str, tuple[Callable[[], None], signal.Signals]] = {
    "Ctrl-C, asyncio": (run_on_asyncio, signal.SIGINT),
    "Ctrl-C, uvloop": (run_on_uvloop, signal.SIGINT),
    "Ctrl-C, trio": (run_on_trio, signal.SIGINT),
    "SIGTERM cancels the main task, asyncio": (cancel_on_asyncio, signal.SIGTERM),
    "SIGTERM cancels the main task, uvloop": (cancel_on_uvloop, signal.SIGTERM),
    "SIGTERM cancels a task group, trio": (cancel_on_trio, signal.SIGTERM),
    "sys.exit() in a handler, asyncio": (exit_in_a_handler(run_on_asyncio), signal.SIGTERM),
    "sys.exit() in a handler, uvloop": (exit_in_a_handler(run_on_uvloop), signal.SIGTERM),
    "SIGTERM cancels all tasks, asyncio": (cancel_all_on_asyncio, signal.SIGTERM),
    "SIGTERM cancels all tasks, uvloop": (cancel_all_on_uvloop, signal.SIGTERM),
    "Ctrl-C, aiolead.blocking": (lead_in_a_thread, signal.SIGINT),
    "sys.exit() in a handler, aiolead.blocking": (
        exit_in_a_handler(lead_in_a_thread),
        signal.SIGTERM,
    ),
    "SIGTERM, a Celery worker: `worker_shutting_down`": (
        celery_worker("worker_ready", "worker_shutting_down"),
        signal.SIGTERM,
    ),
    "SIGTERM, a process of Celery's pool: `worker_process_shutdown`": (
        celery_worker("worker_process_init", "worker_process_shutdown"),
        signal.SIGTERM,
    ),
}

PROGRAM = (sys.executable, "-m", "benchmarks.shutdown", "--program")

RUN = (sys.executable, "-m", "aiolead", "run", "--session-timeout", str(TIMEOUT), ELECTION, "--")

BEAT = (
    *(sys.executable, "-m", "celery", "--workdir", "examples/celery_beat", "-A", "tasks", "beat"),
    *("--schedule", "{folder}/schedule"),  # beat deletes the file if it is none of its own
)

# With several workers, another worker of the same server would lead next.
WEB_SERVERS = {
    "uvicorn": WEB_HOSTS["uvicorn-fastapi"].command,
    "gunicorn": (*WEB_HOSTS["gunicorn"].command, "-w", "1"),
    "hypercorn": WEB_HOSTS["hypercorn"].command,
    "aiohttp": WEB_HOSTS["aiohttp-hooks"].command,
}

WEB_ROWS = [
    Row(
        f"{end}, {name}",
        command,
        number,
        HOSTED,
        HOSTS,
        whole_group=number is signal.SIGINT,
        stops=r"^\d+ is told to stop at ([\d.]+)$",
    )
    for name, command in WEB_SERVERS.items()
    for end, number in (("SIGTERM", signal.SIGTERM), ("Ctrl-C", signal.SIGINT))
]

ROWS = [
    *(Row(name, (*PROGRAM, name), number) for name, (_, number) in PROGRAMS.items()),
    Row("SIGTERM, `aiolead run -- sleep`", (*RUN, "sleep", "600"), signal.SIGTERM),
    Row("SIGTERM, `aiolead run -- celery beat`", (*RUN, *BEAT), signal.SIGTERM),
    *WEB_ROWS,
]


# --- the measurement -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class HandOver:
    """Two times of a trial, in seconds.

    Attributes:
        total: from the signal to the next leader.
        after_host: of that, from when the host of the leader begins to stop the application.
    """

    total: float
    after_host: float


def hand_overs(hosts: str, row: Row, trials: int) -> list[HandOver]:
    """The times without a leader, of each trial."""
    times: list[HandOver] = []
    with ExitStack() as stack:
        client = stack.enter_context(blocking.connect(hosts))
        election = blocking.Election(client, row.election)
        queue: deque[Program] = deque()

        def join() -> None:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="aiolead-shutdown-"))
            command = [part.replace("{folder}", folder) for part in row.command]
            queue.append(stack.enter_context(Program(*command, hosts=hosts, cwd=row.cwd)))
            until(lambda: len(election.contenders()) == len(queue), "it has joined")

        def stop() -> Program:
            leader = queue.popleft()
            leader.send(row.signal, whole_group=row.whole_group)
            return leader

        join()
        queue[0].wait_for(LEADS)
        for _ in range(trials):
            join()
            time.sleep(0.3)  # all is quiet
            begin = time.monotonic()
            leader = stop()
            (led_at,) = queue[0].wait_for(LEADS).groups()
            end = float(led_at) if led_at else time.monotonic()
            stopped = float(leader.wait_for(row.stops)[1]) if row.stops else begin
            times.append(HandOver(end - begin, end - stopped))
            leader.finish()
        stop().finish()
    return times


def table(results: dict[str, list[HandOver]]) -> str:
    lines = ["| end of the leader | median | worst | worst without the host |", "|---|---|---|---|"]
    for name, times in results.items():
        median = statistics.median(each.total for each in times) * 1000
        worst = max(each.total for each in times) * 1000
        own = max(each.after_host for each in times) * 1000
        lines.append(f"| {name} | {median:.0f} ms | {worst:.0f} ms | {own:.0f} ms |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("words", nargs="*", help="only rows whose names contain one of these")
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--program", choices=PROGRAMS, help="be a program of the table")
    arguments = parser.parse_args()
    if arguments.program:
        PROGRAMS[arguments.program][0]()
        return
    # In the background of a shell it would be ignored, by the programs, too.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    words = arguments.words or [""]
    rows = [row for row in ROWS if any(word in row.name for word in words)]
    results: dict[str, list[HandOver]] = {}
    with BlockingEnsemble(3) as ensemble:
        for row in rows:
            times = hand_overs(ensemble.connect_string, row, arguments.trials)
            results[row.name] = times
            print(table({row.name: times}).splitlines()[-1], file=sys.stderr, flush=True)
    print(table(results))


if __name__ == "__main__":
    main()
