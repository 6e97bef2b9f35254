"""A buffer with three places: processes that put wait for processes that take, and vice versa.

AIOLEAD_HOSTS=127.0.0.1:2181 python examples/bounded_buffer.py take 5 &
AIOLEAD_HOSTS=127.0.0.1:2181 python examples/bounded_buffer.py put 5
"""

import json
from typing import Literal

import anyio
from _command import command

import aiolead

PATH = "/examples/buffer"
PLACES = 3


async def main(what: Literal["put", "take"], count: int) -> None:
    async with aiolead.connect() as client:
        await client.ensure_path(PATH)
        condition = aiolead.Condition(client, f"{PATH}-condition")

        async def items() -> list[int]:
            data, _ = await client.get(PATH)
            found: list[int] = json.loads(data or b"[]")
            return found

        for number in range(count):
            async with condition as held:
                if what == "put":
                    while len(buffer := await items()) == PLACES:
                        await held.wait()
                    buffer.append(number)
                    print(f"puts {number}", flush=True)
                else:
                    while not (buffer := await items()):
                        await held.wait()
                    print(f"takes {buffer.pop(0)}", flush=True)
                await held.fenced().set(PATH, json.dumps(buffer).encode())
                await held.notify_all()


with command(main) as arguments:
    anyio.run(main, *arguments)
