"""One of the processes of `aiolead demo`: it contends, and works while it leads.

It is a plain user of the library. What it does it says on standard output, one JSON object per line
with the time on a clock that all processes of the machine share. It ends on SIGTERM, after it has
resigned, and when its standard input ends: whoever started it is gone then.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Awaitable, Callable

import anyio

import aiolead

from ..errors import AioleadError
from . import exits
from .process_keeper import clock
from .signals import Signals

__all__ = ["main"]

BEAT = 0.05
"""How often a leader works, in seconds."""


def _say(event: str, **details: object) -> None:
    print(json.dumps({"event": event, "at": clock(), **details}), flush=True)


async def _contend(hosts: str, path: str, name: str, session_timeout: float) -> None:
    async with aiolead.connect(hosts, session_timeout=session_timeout) as client:
        election = aiolead.Election(client, path, identity=name)
        _say("waits", session_timeout=client.session_timeout)
        async with election.leadership() as term:
            _say("leads", token=term.token)
            try:
                while True:
                    term.check()
                    _say("works")
                    await anyio.sleep(BEAT)
            finally:
                _say("stops")


async def _end_of_input() -> None:
    while True:
        await anyio.wait_readable(0)
        if not os.read(0, 4096):
            return


def main(hosts: str, path: str, name: str, session_timeout: str, backend: str) -> int:
    """The process."""

    async def run() -> int:
        code = exits.OK

        async def end_after(what: Callable[[], Awaitable[object]]) -> None:
            await what()
            tasks.cancel_scope.cancel()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(end_after, signals.next)
            tasks.start_soon(end_after, _end_of_input)
            try:
                await _contend(hosts, path, name, float(session_timeout))
            except AioleadError as error:
                print(error, flush=True)
                code = exits.exit_code(error)
            tasks.cancel_scope.cancel()
        return code

    with Signals() as signals:
        return anyio.run(run, backend=backend)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
