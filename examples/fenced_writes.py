"""Writes of a former leader are refused: by ZooKeeper itself, and by a store that compares tokens.

A process that was stopped (by a debugger, a suspended machine, a long garbage collection) cannot
know that another process leads. So the other side has to check.

AIOLEAD_HOSTS=127.0.0.1:2181 python examples/fenced_writes.py
"""

import asyncio

from _command import command

import aiolead


class Store:
    """Stands for a database: `UPDATE ... WHERE token <= :token` does the same."""

    def __init__(self) -> None:
        self.token = 0
        self.value = ""

    def write(self, value: str, token: int) -> None:
        if token < self.token:
            raise PermissionError(f"token {token} is older than {self.token}")
        self.token, self.value = token, value


async def main() -> None:
    store = Store()
    async with aiolead.connect() as client:
        await client.ensure_path("/examples/fenced/plan")
        election = aiolead.Election(client, "/examples/fenced/election")
        async with election.leadership() as old:
            await old.fenced().set("/examples/fenced/plan", b"the old leader's")
            store.write("the old leader's", old.token)
        async with election.leadership() as new:
            await new.fenced().set("/examples/fenced/plan", b"the new leader's")
            store.write("the new leader's", new.token)

            try:  # as if the old leader had slept all the while, and now finishes what it was at
                await old.fenced().set("/examples/fenced/plan", b"too late")
            except aiolead.Fenced as error:
                print(f"ZooKeeper: {error}")
            try:
                store.write("too late", old.token)
            except PermissionError as error:
                print(f"the store: {error}")
        plan, _ = await client.get("/examples/fenced/plan")
        print(f"the plan is {plan.decode()}, the store has {store.value}")


with command(main):
    asyncio.run(main())
