"""One of many processes leads. Start this twice, then stop the one that leads with Ctrl-C.

AIOLEAD_HOSTS=127.0.0.1:2181 python examples/election_trio.py
"""

import trio
from _command import command

import aiolead


async def main() -> None:
    async with aiolead.connect() as client:
        election = aiolead.Election(client, "/examples/election")
        print(f"{election.identity} waits its turn", flush=True)
        async with election.leadership() as term:
            print(f"{election.identity} leads, token {term.token}", flush=True)
            await trio.sleep(3600)  # the work: it is cancelled if leadership is lost


with command(main):
    trio.run(main, restrict_keyboard_interrupt_to_checkpoints=True)
