"""An order desk: several processes give out order numbers, each under a name of its own.

The name is the lowest that is free, and held as long as the process lives. No number is given out
twice; each desk takes ten at once, so that it hardly ever has to ask. A counter says how many
orders there are in all.

AIOLEAD_HOSTS=127.0.0.1:2181 python examples/order_desk.py
"""

import asyncio

from _command import command

import aiolead


async def main() -> None:
    async with aiolead.connect() as client:
        desks = aiolead.UniqueNames(client, "/examples/desks")
        numbers = aiolead.SequenceAllocator(client, "/examples/order-numbers", block=10)
        orders = aiolead.Counter(client, "/examples/orders")
        async with desks.claim("desk") as desk:
            for _ in range(5):
                number = await numbers.next()
                total = await orders.add(1)
                print(f"{desk.name}: order {number}, {total} in all", flush=True)
                await asyncio.sleep(0.1)


with command(main):
    asyncio.run(main())
