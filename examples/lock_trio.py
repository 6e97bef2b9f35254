"""One process at a time. Start this a few times at once: they take turns.

AIOLEAD_HOSTS=127.0.0.1:2181 python examples/lock_trio.py
"""

import trio
from _command import command

import aiolead


async def main() -> None:
    async with aiolead.connect() as client:
        lock = aiolead.Lock(client, "/examples/lock")
        async with lock.acquire(timeout=30) as held:  # AcquireTimeout if it takes longer
            print(f"{held.identity} holds the lock, token {held.token}", flush=True)
            await trio.sleep(0.5)  # the work: it is cancelled if the lock is lost
            print(f"{held.identity} has done its work", flush=True)


with command(main):
    trio.run(main, restrict_keyboard_interrupt_to_checkpoints=True)
