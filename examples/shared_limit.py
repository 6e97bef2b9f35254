"""A number that all processes share, and that each of them follows.

AIOLEAD_HOSTS=127.0.0.1:2181 python examples/shared_limit.py
"""

import anyio
from _command import command

import aiolead


async def main() -> None:
    async with aiolead.connect() as client:
        limit = aiolead.SharedValue(client, "/examples/limit", b"10")
        async with limit.observe() as values:
            await limit.set(b"20")
            async for value in values:
                print(f"at most {int(value)} at once", flush=True)
                if value == b"20":
                    return


with command(main):
    anyio.run(main, backend="trio")
