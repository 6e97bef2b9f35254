"""A service with several instances, and a client that asks those that are there, and work.

AIOLEAD_HOSTS=127.0.0.1:2181 python examples/services.py serve 8001
AIOLEAD_HOSTS=127.0.0.1:2181 python examples/services.py serve 8002
AIOLEAD_HOSTS=127.0.0.1:2181 python examples/services.py ask
"""

import asyncio
import signal
from typing import Literal

from _command import command

import aiolead

PATH = "/examples/services"


async def serve(port: int) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    instance = aiolead.ServiceInstance(name="echo", address="127.0.0.1", port=port)
    server = await asyncio.start_server(answer, "127.0.0.1", port)
    async with aiolead.connect() as client, server:
        registry = aiolead.ServiceRegistry(client, PATH)
        async with registry.register(instance) as registration:
            print(f"serves at {port}", flush=True)
            await stop.wait()
            await registration.drain()  # no new requests; those that are there are answered
            print("drains", flush=True)
            await asyncio.sleep(0.2)
    print("gone", flush=True)


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    port = writer.get_extra_info("sockname")[1]
    writer.write(f"{(await reader.readline()).decode().strip()} from {port}\n".encode())
    await writer.drain()
    writer.close()


async def ask() -> None:
    async with aiolead.connect() as client:
        registry = aiolead.ServiceRegistry(client, PATH)
        async with registry.observe("echo") as view:
            picker = aiolead.types.Picker(view, aiolead.types.RoundRobin())
            while True:
                instance = picker.pick()
                if instance is None:
                    print("nobody is there", flush=True)
                else:
                    try:
                        print(await request(instance), flush=True)
                    except OSError:
                        picker.report_error(instance)
                await asyncio.sleep(0.05)


async def request(instance: aiolead.ServiceInstance) -> str:
    reader, writer = await asyncio.open_connection(instance.address, instance.port)
    writer.write(b"hello\n")
    reply = await reader.readline()
    writer.close()
    return reply.decode().strip()


async def main(what: Literal["serve", "ask"], port: int = 8001) -> None:
    await (ask() if what == "ask" else serve(port))


with command(main) as arguments:
    asyncio.run(main(*arguments))
