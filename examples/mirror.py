"""A local copy of everything below /examples/tree, and its changes.

Reading the copy needs no server. After a lost connection, or an expired session, everything is
compared, and differences are reported like any other change.

AIOLEAD_HOSTS=127.0.0.1:2181 python examples/mirror.py
"""

import asyncio

from _command import command

import aiolead

TOP = "/examples/tree"


async def main() -> None:
    async with aiolead.connect() as client, aiolead.TreeCache(client, TOP) as cache:
        print(f"{len(cache)} znodes", flush=True)
        async for event in cache.events(initial=True):
            data = b"" if event.new is None else event.new.data or b""
            print(f"{event.type.value} {event.path} {data.decode()}".rstrip(), flush=True)


with command(main):
    asyncio.run(main())
