"""A service on trio for systemd: ready before it leads, watched over, and stopped in good order.

AIOLEAD_HOSTS=127.0.0.1:2181 python examples/trio_service/service.py

examples/systemd/leader.service is its unit.
"""

import os
import signal
import socket

import trio

import aiolead


def notify(state: str) -> None:
    """Notify systemd, if it listens: all of sd_notify(3)."""
    address = os.environ.get("NOTIFY_SOCKET")
    if address:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.sendto(state.encode(), address.replace("@", "\0", 1))


async def lead(term: aiolead.Term) -> None:
    """The work of the one that leads. It is cancelled if leadership is lost."""
    print(f"{term.identity} leads, token {term.token}", flush=True)
    notify(f"STATUS=leads, token {term.token}")
    try:
        await trio.sleep_forever()
    finally:
        print(f"{term.identity} has stopped", flush=True)
        notify("STATUS=waits for its turn")


async def keep_watchdog_quiet() -> None:
    """As long as the event loop turns. If the event loop stops, systemd kills the process."""
    every = int(os.environ.get("WATCHDOG_USEC", "10_000_000")) / 1_000_000 / 3
    while True:
        notify("WATCHDOG=1")
        await trio.sleep(every)


async def serve() -> None:
    async with aiolead.connect() as client, trio.open_nursery() as nursery:
        election = aiolead.Election(client, "/examples/service")
        nursery.start_soon(keep_watchdog_quiet)
        nursery.start_soon(election.run, lead)
        notify("READY=1\nSTATUS=waits for its turn")
        print(f"{election.identity} is ready", flush=True)


async def main() -> None:
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve)  # in a task of its own: connecting may be what takes long
            async for _ in signals:
                notify("STOPPING=1")
                nursery.cancel_scope.cancel()


trio.run(main)
