"""A catalogue with many readers and one writer, which then reads on. Start a few of these.

AIOLEAD_HOSTS=127.0.0.1:2181 python examples/read_write.py read
AIOLEAD_HOSTS=127.0.0.1:2181 python examples/read_write.py write
"""

from typing import Literal

import trio
from _command import command

import aiolead

PATH = "/examples/catalogue"


async def main(what: Literal["read", "write"]) -> None:
    async with aiolead.connect() as client:
        await client.ensure_path(PATH)
        lock = aiolead.ReadWriteLock(client, f"{PATH}-lock")
        if what == "read":
            async with lock.read:
                await look(client)
        else:
            async with lock.write as held:
                version = int(await read(client)) + 1
                await held.fenced().set(PATH, str(version).encode())
                print(f"has written, token {held.token}", flush=True)
                await held.downgrade()  # others may look, too; nobody may write
                await look(client)


async def look(client: aiolead.Client) -> None:
    print(f"sees version {(await read(client)).decode()}", flush=True)
    await trio.sleep(0.1)


async def read(client: aiolead.Client) -> bytes:
    await client.sync(PATH)  # the data of the last writer, on any server
    return (await client.get(PATH))[0] or b"0"


with command(main) as arguments:
    trio.run(main, *arguments, restrict_keyboard_interrupt_to_checkpoints=True)
