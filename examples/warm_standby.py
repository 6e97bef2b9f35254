"""Two of many serve at a time, and the next one warms up before its turn.

AIOLEAD_HOSTS=127.0.0.1:2181 python examples/warm_standby.py anna     # and ben, cleo, dora
"""

import asyncio

from _command import command

import aiolead


async def main(name: str) -> None:
    async with aiolead.connect() as client:
        election = aiolead.Election(client, "/examples/pair", identity=name, leaders=2)
        is_warm = False
        async with election.campaign() as states:
            async for state in states:
                match state.phase:
                    case aiolead.Phase.FOLLOWING if state.is_next and not is_warm:
                        is_warm = True
                        print(f"{name} warms up", flush=True)
                    case aiolead.Phase.LEADING:
                        print(f"{name} serves, token {state.token}", flush=True)
                    case aiolead.Phase.LOST:
                        is_warm = False
                        print(f"{name} has lost its place: {state.reason}", flush=True)


with command(main) as arguments:
    asyncio.run(main(*arguments))
