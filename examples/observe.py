"""Print the leader, and each change, without contending. Let `election_asyncio.py` run beside it.

AIOLEAD_HOSTS=127.0.0.1:2181 python examples/observe.py
"""

import asyncio

from _command import command

import aiolead


async def main() -> None:
    async with aiolead.connect() as client:
        election = aiolead.Election(client, "/examples/election")
        async with election.observe() as states:
            async for state in states:
                leader = state.leader.identity if state.leader else "nobody"
                seen = "leads" if state.is_current else "led when the connection was lost"
                print(f"{leader} {seen}", flush=True)


with command(main):
    asyncio.run(main())
