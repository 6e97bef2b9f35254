"""Work that is split over all who are there. Start a few of these, and stop some.

AIOLEAD_HOSTS=127.0.0.1:2181 python examples/shared_work.py anna
"""

import trio
from _command import command

import aiolead

SHARDS = [f"shard-{number}" for number in range(6)]


async def main(name: str) -> None:
    async def work(shard: str, held: aiolead.Held) -> None:
        print(f"{name} takes {shard}, token {held.token}", flush=True)
        try:
            await trio.sleep_forever()  # the work: it is cancelled when the shard moves on
        finally:
            print(f"{name} leaves {shard}", flush=True)

    async with aiolead.connect() as client:
        partitioner = aiolead.Partitioner(client, "/examples/work", SHARDS, identity=name)
        await partitioner.run(work)


with command(main) as arguments:
    trio.run(main, *arguments, restrict_keyboard_interrupt_to_checkpoints=True)
