"""A program that does not release a lock under a watchdog: `overrun.py BACKEND HOW HOSTS`.

It prints `holds PATH`, with the path of its znode, and then the lines that a test needs.
Where the servers play no part, its clock jumps over the end of the lease.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import anyio
import uvloop

import aiolead
from aiolead.testing import Hooks

LONG = 60.0
"""Longer than any test waits, in seconds."""

TERM = 1.5
"""The session timeout, in seconds."""

BACKENDS: dict[str, tuple[str, dict[str, Any]]] = {
    "asyncio": ("asyncio", {}),
    "asyncio+uvloop": ("asyncio", {"loop_factory": uvloop.new_event_loop}),
    "trio": ("trio", {}),
}


class Clock:
    """The lease's, which can be moved on, as if the machine had been suspended for so long."""

    ahead = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.ahead


CLOCK = Clock()


def say(*words: object) -> None:
    os.write(1, " ".join(map(str, words)).encode() + b"\n")


def sleeps() -> None:
    time.sleep(LONG)


def computes() -> None:
    end = time.monotonic() + LONG
    while time.monotonic() < end:
        pass


def keeps_the_interpreter() -> None:
    """In C, without letting any other thread run."""
    CLOCK.ahead += TERM
    ctypes.PyDLL(None).usleep(500_000)
    say("ran on")
    computes()


def fills_standard_error() -> None:
    """Gets stuck in writing what nobody reads."""
    CLOCK.ahead += TERM
    while True:
        os.write(2, bytes(1 << 20))


def start_many_threads() -> None:
    """With stacks that fill more than a pipe holds."""
    all_are_down = threading.Barrier(31)

    def down(depth: int) -> None:
        if depth:
            down(depth - 1)
        else:
            all_are_down.wait()
            time.sleep(LONG)

    for _ in range(30):
        threading.Thread(target=down, args=(100,), daemon=True).start()
    all_are_down.wait()


def has_many_threads() -> None:
    CLOCK.ahead += TERM
    time.sleep(LONG)


def leaves_a_child() -> None:
    child = subprocess.Popen([sys.executable, "-c", f"import time; time.sleep({LONG})"])
    say("child", child.pid)
    CLOCK.ahead += TERM
    time.sleep(LONG)


def forks() -> None:
    """The child has the memory of its parent, but neither its threads nor its role."""
    child = os.fork()
    CLOCK.ahead += TERM
    if child == 0:
        time.sleep(LONG)
    say("child", child)
    time.sleep(LONG)


def has_a_broken_hook() -> None:
    CLOCK.ahead += TERM
    time.sleep(LONG)


def broken_hook(overrun: aiolead.types.Overrun) -> None:
    raise ValueError(f"cannot deal with {len(overrun.holds)}")


WAYS: dict[str, Callable[[], None]] = {
    way.__name__: way
    for way in (
        sleeps,
        computes,
        keeps_the_interpreter,
        fills_standard_error,
        has_many_threads,
        leaves_a_child,
        forks,
        has_a_broken_hook,
    )
}


async def main(how: str, hosts: str) -> None:
    broken = how == "has_a_broken_hook"
    if how == "has_many_threads":
        start_many_threads()  # before it holds anything, however long that takes
    async with aiolead.connect(
        hosts,
        session_timeout=TERM,
        connect_timeout=LONG,
        grace_period=TERM / 4,  # the most there can be: a busy machine needs it
        hooks=Hooks(clock=CLOCK),
        watchdog=aiolead.Watchdog(on_overrun=broken_hook) if broken else True,
    ) as client:
        async with aiolead.Lock(client, "/overrun") as held:
            say("holds", held.path)
            if how == "does_not_stop":
                with anyio.move_on_after(LONG, shield=True):
                    await anyio.sleep_forever()
            else:
                WAYS[how]()
    say("went on")


if __name__ == "__main__":
    backend, options = BACKENDS[sys.argv[1]]
    anyio.run(main, *sys.argv[2:], backend=backend, backend_options=options)
