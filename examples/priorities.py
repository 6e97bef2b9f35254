"""Two queues that are not first come first served: by priority, and not before a certain time.

AIOLEAD_HOSTS=127.0.0.1:2181 python examples/priorities.py
"""

import anyio
from _command import command

import aiolead


async def main() -> None:
    async with aiolead.connect() as client:
        urgent = aiolead.PriorityQueue(client, "/examples/urgent")
        await urgent.put(b"can wait", priority=9)
        await urgent.put(b"at once", priority=1)
        later = aiolead.DelayQueue(client, "/examples/later")
        await later.put(b"in a moment", delay=0.2)
        for queue, count in ((urgent, 2), (later, 1)):
            for _ in range(count):
                async with queue.get() as item:
                    print(item.data.decode(), flush=True)
                    await item.ack()


with command(main):
    anyio.run(main)
