"""The event loop is blocked, so that nobody can cancel the body: a watchdog ends the process.

AIOLEAD_HOSTS=127.0.0.1:2181 python examples/hard_stop.py; echo "exit code $?"
"""

import asyncio
import time

from _command import command

import aiolead


def work() -> None:
    time.sleep(600)  # stands for whatever never yields


def say_and_end(overrun: aiolead.types.Overrun) -> None:
    """Called in a thread of its own: the event loop does not run."""
    print(f"{overrun.remaining:.2f} seconds are left to end in", flush=True)
    overrun.end_process()


async def main() -> None:
    watchdog = aiolead.Watchdog(on_overrun=say_and_end)
    async with aiolead.connect(session_timeout=4, watchdog=watchdog) as client:
        lock = aiolead.Lock(client, "/examples/hard_stop")
        async with lock as held:
            print(f"holds the lock, token {held.token}", flush=True)
            work()


with command(main):
    asyncio.run(main())
