"""Who else is there, and what do they do? Start a few of these, and stop some.

AIOLEAD_HOSTS=127.0.0.1:2181 python examples/who_is_there.py anna
"""

import asyncio

from _command import command

import aiolead


async def main(name: str) -> None:
    async with aiolead.connect() as client:
        group = aiolead.Group(client, "/examples/members")
        async with group.join(b"starting", identity=name) as membership, group.observe() as view:
            await membership.set(b"at work")
            async for change in view.changes():
                what = f"{change.kind.value}: {change.member.id}, {change.member.data.decode()}"
                print(what, flush=True)


with command(main) as arguments:
    asyncio.run(main(*arguments))
