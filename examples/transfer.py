"""Moves something between two accounts: both are locked, in an order that all agree on.

AIOLEAD_HOSTS=127.0.0.1:2181 python examples/transfer.py
"""

import anyio
from _command import command

import aiolead


async def main() -> None:
    async with aiolead.connect() as client:
        ours = aiolead.ReentrantLock(client, "/examples/accounts/ours")
        theirs = aiolead.ReentrantLock(client, "/examples/accounts/theirs")

        async def book(lock: aiolead.ReentrantLock, amount: int) -> None:
            async with lock:  # this task may have it already: then it costs nothing
                print(f"{amount:+d} on {lock.path.rpartition('/')[2]}", flush=True)

        async with aiolead.MultiLock(theirs, ours).acquire(timeout=10) as held:
            print(f"{len(held.holds)} locks held", flush=True)
            await book(ours, -5)
            await book(theirs, +5)


with command(main):
    anyio.run(main)
