"""Measures the memory of one client while another one writes what it should not.

    python -m tests.assurance.chaos.hostile_memory --minutes 60 --loop trio

This process has one client with a hold that it keeps, contenders and waiters that come and go,
views and consumers. A second process runs the embedded server (or uses that of `--hosts`), and
writes into the paths of all recipes: forged names of contenders, children below items, identities
of up to 1 MB, persistent znodes with the names of contenders, data of other formats. Its server
also throttles requests and cuts connections.

Every few seconds after a warm-up, the bytes that Python has allocated (`tracemalloc`) and the
resident set of the process are measured. The exit code is 1 if either has grown: see `judge`.
`--leak` keeps memory on purpose, to see that a leak is found.
"""

from __future__ import annotations

import argparse
import gc
import os
import random
import subprocess
import sys
import time
import tracemalloc
import uuid
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, suppress
from functools import partial
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import anyio.to_thread

sys.path.insert(0, str(Path(__file__).parents[2]))

from kit.every_recipe import DONE, FOLLOWED, HELD
from parsing.hostile_data import ALLOWED_NAMES, DATA_CASES

import aiolead
from aiolead.errors import AioleadError, BadArgumentsError
from aiolead.testing import EmbeddedServer, OpCode

MIB = 1 << 20

MOST_TRACED = 2 * MIB
"""How much the bytes that Python has allocated may grow, from the lowest value of the first quarter
to that of the last one.

A znode has at most 1 MB, so that one answer, read but not yet decoded, and its copy may be alive in
each measurement. All else is bounded by what there is on the server, which does not grow. In an
hour, 2 MiB are about 600 bytes a second: less than one lost task or watch a second.
"""

MOST_RESIDENT = 24 * MIB
"""How much the resident set may grow, measured in the same way.

It has all of the above, and the memory that the allocators keep: answers of 1 MB that come at other
moments leave other gaps. Memory that only C code has lost shows here alone.
"""

LEAST_SAMPLES = 8
"""How many measurements there are at least, however slow the machine is."""

ROOT = "/hostile"

LARGE = 10_000
"""From how many bytes of data a znode of the hostile writer is a large one."""

KEPT_ZNODES, KEPT_LARGE = 100, 3
"""How many small and large znodes of the hostile writer there are at a time: the oldest is deleted
first. Views have the data of their znodes in memory, and rightly: with more large ones than there
are paths, their number would be what is measured."""

MOST_ITEMS = 20
"""How many items of the queue there are at a time, those of the hostile writer included."""

THROTTLED = (
    *(OpCode.EXISTS, OpCode.GET_DATA, OpCode.GET_CHILDREN, OpCode.GET_CHILDREN2, OpCode.MULTI),
    *(OpCode.CREATE2, OpCode.DELETE, OpCode.SET_DATA, OpCode.SET_WATCHES, OpCode.SET_WATCHES2),
    OpCode.ADD_WATCH,
)

PATHS = tuple(
    f"{ROOT}/{kind}/{name}"
    for kind, names in (("held", [*HELD, "kept"]), ("followed", FOLLOWED), ("done", DONE))
    for name in names
)
"""Where the client is at work, and the hostile writer writes."""


class Sample(NamedTuple):
    """One measurement, in bytes; `at` is in seconds since the start."""

    at: float
    traced: int
    resident: int


def judge(samples: Sequence[Sample]) -> list[str]:
    """Compares the first quarter of the measurements with the last one.

    The lowest value of each quarter counts. Between two measurements, answers of up to 1 MB come
    and go; a leak is in every measurement after it.
    """
    quarter = max(1, len(samples) // 4)
    first, last = samples[:quarter], samples[-quarter:]
    wrong = []
    for name, most in (("traced", MOST_TRACED), ("resident", MOST_RESIDENT)):
        before, after = (min(getattr(s, name) for s in part) for part in (first, last))
        if after - before > most:
            wrong.append(
                f"{name}: {before / MIB:.1f} to {after / MIB:.1f} MiB, "
                f"{(after - before) / MIB:.1f} more; {most / MIB:.0f} are allowed"
            )
    return wrong


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


# --- the client that is measured -----------------------------------------------------------------


class Work:
    """The tasks of the client: each does the same again and again, whatever comes of it.

    Attributes:
        seen: how often each was done, and each type of error was raised.
        has_kept: set once the hold is there that stays.
    """

    def __init__(self, client: aiolead.Client, seed: int) -> None:
        self.seen: Counter[str] = Counter()
        self.has_kept = anyio.Event()
        self._client = client
        self._seed = seed

    async def prepare(self) -> None:
        """Makes the paths, and whatever has to be there before something can be held."""
        for path in PATHS:
            await self._insist(partial(self._client.ensure_path, path))
        for name, held in HELD.items():
            if held.prepare is not None:
                path = f"{ROOT}/held/{name}"
                await self._insist(partial(held.prepare, self._client, path))

    async def _insist(self, do: Callable[[], Awaitable[object]]) -> None:
        """Does it once. The server may throttle it, or cut the connection, several times."""
        while True:
            try:
                await do()
            except AioleadError:
                await anyio.sleep(0.05)
            else:
                return

    async def repeat(
        self, name: str, do: Callable[[random.Random], Awaitable[object]], pause: float = 0.02
    ) -> None:
        """Does something until it is cancelled. Errors other than the library's own end the run."""
        rng = random.Random(f"{self._seed} {name}")
        while True:
            try:
                await do(rng)
                self.seen[name] += 1
            except AioleadError as error:
                self.seen[type(error).__name__] += 1
            except BaseExceptionGroup as group:
                # On trio, one that has the cancellation, too, if the run ends at this moment.
                foreign = group.split(AioleadError)[1]
                if foreign is not None:
                    raise foreign from None
                self.seen["ExceptionGroup"] += 1
            await anyio.sleep(pause * (1 + rng.random()))

    async def keep(self, _: random.Random) -> None:
        """The hold that stays, however many others want it."""
        async with aiolead.Lock(self._client, f"{ROOT}/held/kept"):
            self.seen["kept hold entered"] += 1
            self.has_kept.set()
            await anyio.sleep_forever()

    async def wait_for_kept(self, rng: random.Random) -> None:
        lock = aiolead.Lock(self._client, f"{ROOT}/held/kept")
        with suppress(aiolead.AcquireTimeout):
            async with lock.acquire(timeout=rng.random()):
                pass
        await lock.contenders()

    async def hold(self, name: str, rng: random.Random) -> None:
        """Contends for a while; has it for a moment if it is its turn."""
        with anyio.move_on_after(0.2 + rng.random()):
            async with HELD[name].enter(self._client, f"{ROOT}/held/{name}"):
                await anyio.sleep(0.05 * rng.random())

    async def wait(self, rng: random.Random) -> None:
        with anyio.move_on_after(0.2 + rng.random()):
            async with aiolead.Condition(self._client, f"{ROOT}/held/Condition") as mine:
                await mine.wait()

    async def follow(self, name: str, longest: float, rng: random.Random) -> None:
        with anyio.move_on_after(longest * (0.5 + rng.random())):
            path = f"{ROOT}/followed/{name}"
            if name == "Election":
                # Without the helper's task, which takes each identity for a number.
                async with aiolead.Election(self._client, path).observe() as states:
                    async for _ in states:
                        pass
            async with FOLLOWED[name].observe(self._client, path):
                await anyio.sleep_forever()

    async def do(self, name: str, _: random.Random) -> None:
        await DONE[name].do(self._client, f"{ROOT}/done/{name}")

    async def produce(self, _: random.Random) -> None:
        """Puts an item, unless they pile up because the consumers cannot take them."""
        queue = aiolead.Queue(self._client, f"{ROOT}/done/Queue")
        if await queue.size() < MOST_ITEMS:
            await queue.put(b"x")

    async def consume(self, _: random.Random) -> None:
        with suppress(aiolead.AcquireTimeout):
            async with aiolead.Queue(self._client, f"{ROOT}/done/Queue").get(timeout=1.0) as item:
                await item.ack()

    def start(self, tasks: anyio.abc.TaskGroup) -> None:
        """Starts all of it."""
        jobs: dict[str, Callable[[random.Random], Awaitable[object]]] = {
            "keep": self.keep,
            "wait for kept": self.wait_for_kept,
            "wait for kept, too": self.wait_for_kept,
            "wait": self.wait,
            "produce": self.produce,
            "consume": self.consume,
            "consume, too": self.consume,
        }
        for name in HELD:
            for suffix in ("", ", too"):
                jobs[f"hold {name}{suffix}"] = partial(self.hold, name)
        for name in FOLLOWED:
            jobs[f"follow {name}"] = partial(self.follow, name, 2.0)
            jobs[f"follow {name} for long"] = partial(self.follow, name, inf)
        for name in DONE.keys() - {"Queue"}:
            jobs[f"do {name}"] = partial(self.do, name)
        for name, job in jobs.items():
            tasks.start_soon(self.repeat, name, job)


def resident() -> int:
    """The resident set of this process, in bytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE")


async def measure(
    hosts: str, options: argparse.Namespace, begin: Callable[[], None], is_alive: Callable[[], bool]
) -> bool:
    """Runs the client; whether its memory stayed flat.

    Args:
        hosts: the server.
        options: of the command line.
        begin: lets the hostile writer begin.
        is_alive: whether the hostile writer still writes.
    """
    samples: list[Sample] = []
    leaked: list[bytes] = []
    async with aiolead.connect(hosts) as client, anyio.create_task_group() as tasks:
        work = Work(client, options.seed)
        await work.prepare()
        work.start(tasks)
        await work.has_kept.wait()
        begin()
        began = time.monotonic()
        end, warm_at = began + 60 * options.minutes, began + options.warm_up
        while is_alive() and ((now := time.monotonic()) < end or len(samples) < LEAST_SAMPLES):
            if now >= warm_at:
                gc.collect()
                sample = Sample(now - began, tracemalloc.get_traced_memory()[0], resident())
                samples.append(sample)
                say(
                    f"{sample.at:7.1f} s  traced {sample.traced / MIB:7.2f} MiB  "
                    f"resident {sample.resident / MIB:7.1f} MiB  done {work.seen.total()}"
                )
            leaked.append(bytes(round(options.leak * options.every)))
            await anyio.sleep(options.every)
        tasks.cancel_scope.cancel()
    for what, count in sorted(work.seen.items()):
        say(f"{count:8} {what}")
    wrong = judge(samples) if is_alive() else ["the hostile writer has ended"]
    for line in wrong:
        say(f"WRONG: {line}")
    return not wrong


# --- the hostile writer, in a process of its own -------------------------------------------------


class Hostile:
    """A client that writes where it should not, and cleans up: there are never more znodes."""

    def __init__(self, client: aiolead.Client, rng: random.Random) -> None:
        self._client = client
        self._rng = rng
        self._small: deque[str] = deque()
        self._large: deque[str] = deque()

    async def run(self) -> None:
        """Writes until it is cancelled."""
        while True:
            await self._write()
            await anyio.sleep(0.005)

    async def _write(self) -> None:
        """Does one thing, which may be refused."""
        rng, client = self._rng, self._client
        path = rng.choice(PATHS)
        try:
            children = await client.get_children(path)
            act = rng.choice((self._forge, self._copy, self._be_huge, self._write_below))
            await act(path, children)
        except (BadArgumentsError, aiolead.NoNodeError, aiolead.NodeExistsError):
            pass
        except AioleadError:
            await anyio.sleep(0.05)
        for made, most in ((self._small, KEPT_ZNODES), (self._large, KEPT_LARGE)):
            while len(made) > most:
                await self._delete(made.popleft())

    async def _delete(self, path: str) -> None:
        while True:
            try:
                await aiolead.admin.delete_all(self._client, path)
            except aiolead.NoNodeError:
                return
            except AioleadError:
                await anyio.sleep(0.05)
            else:
                return

    def _data(self) -> bytes:
        return self._rng.choice(list(DATA_CASES.values())) or b""

    async def _create(self, path: str, data: bytes, mode: aiolead.CreateMode) -> None:
        made = self._small if len(data) < LARGE else self._large
        # First, for it may be there although the answer was lost.
        made.append(path)
        try:
            await self._client.create(path, data, mode=mode)
        except aiolead.NodeExistsError:
            made.pop()  # somebody else's
            raise

    async def _forge(self, path: str, children: Sequence[str]) -> None:
        """Any name that the servers allow."""
        name = self._rng.choice(list(ALLOWED_NAMES.values()))
        await self._create(f"{path}/{name}", self._data(), aiolead.CreateMode.PERSISTENT)

    async def _copy(self, path: str, children: Sequence[str]) -> None:
        """A persistent znode with the name of a contender or an item, before or after it."""
        if children:
            head, number = (name := self._rng.choice(children))[:-10], name[-10:]
            if number.isdecimal():
                name = f"{head}{max(0, int(number) + self._rng.randint(-3, 3)):010d}"
            await self._create(f"{path}/{name}", self._data(), aiolead.CreateMode.PERSISTENT)

    async def _be_huge(self, path: str, children: Sequence[str]) -> None:
        """A contender of Curator's or kazoo's with an identity of up to 1 MB."""
        head = self._rng.choice((f"_c_{uuid.uuid4()}-lock-", f"{uuid.uuid4().hex}__lock__"))
        name = f"{head}{self._rng.randrange(100_000):010d}"
        data = b"i" * self._rng.choice((10_000, 100_000, 900_000))
        await self._create(f"{path}/{name}", data, aiolead.CreateMode.EPHEMERAL)

    async def _write_below(self, path: str, children: Sequence[str]) -> None:
        if children:
            below = f"{path}/{self._rng.choice(children)}/{uuid.uuid4().hex}"
            await self._create(below, self._data(), aiolead.CreateMode.PERSISTENT)


async def harass(server: EmbeddedServer, rng: random.Random) -> None:
    """Throttles requests and cuts connections, as servers and networks under load do."""
    while True:
        await anyio.sleep(0.05 * (1 + rng.random()))
        server.throttle(rng.choice(THROTTLED))
        if rng.random() < 0.01:
            server.disconnect(reset=rng.random() < 0.5)


async def be_hostile(hosts: str | None, seed: int) -> None:
    """Runs until the process that is measured ends: its end of the pipe closes then."""
    rng = random.Random(seed)
    async with AsyncExitStack() as stack:
        server = None
        if hosts is None:
            server = await stack.enter_async_context(EmbeddedServer())
            hosts = server.connect_string
        client = await stack.enter_async_context(aiolead.connect(hosts))
        tasks = await stack.enter_async_context(anyio.create_task_group())
        say(hosts)
        # A line comes when the client holds what it is to keep.
        await anyio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True)
        if server is not None:
            tasks.start_soon(harass, server, rng)
        tasks.start_soon(Hostile(client, rng).run)
        await anyio.to_thread.run_sync(sys.stdin.read, abandon_on_cancel=True)
        tasks.cancel_scope.cancel()


# --- the command ---------------------------------------------------------------------------------


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--warm-up", type=float, default=60.0, help="seconds before the first one")
    parser.add_argument("--every", type=float, default=5.0, help="seconds between measurements")
    parser.add_argument("--loop", choices=["asyncio", "uvloop", "trio"], default="asyncio")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--hosts", help="of real servers; the embedded one by default")
    parser.add_argument("--leak", type=float, default=0.0, help="bytes to keep a second")
    parser.add_argument("--be-hostile", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.be_hostile:
        anyio.run(be_hostile, options.hosts, options.seed)
        return 0
    command = [sys.executable, "-m", "tests.assurance.chaos.hostile_memory", "--be-hostile"]
    command += ["--seed", str(options.seed)]
    command += ["--hosts", options.hosts] if options.hosts else []
    backend: dict[str, Any] = {"backend": "trio" if options.loop == "trio" else "asyncio"}
    if options.loop == "uvloop":
        backend["backend_options"] = {"use_uvloop": True}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, text=True, **pipes) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        try:
            hosts = other.stdout.readline().strip()
            tracemalloc.start()

            def begin() -> None:
                other.stdin.write("begin\n")
                other.stdin.flush()

            run = partial(measure, hosts, options, begin, lambda: other.poll() is None)
            flat = anyio.run(run, **backend)
        finally:
            other.stdin.close()
    return 0 if flat else 1


if __name__ == "__main__":
    sys.exit(main())
