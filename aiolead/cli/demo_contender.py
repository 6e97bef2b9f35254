"""One of the processes of `aiolead demo`: it contends, and works while it leads.

It is a plain user of the library. It reports on standard output, one JSON object per line, with the
time of a clock that all processes of the machine share. It ends on SIGTERM, after resigning, and
when its standard input ends because its parent is gone.
"""

from __future__ import annotations

import json
import os
from functools import partial

import anyio

import aiolead

from ..errors import AioleadError
from . import exits
from .process_keeper import clock
from .signals import Signals, first_of

BEAT = 0.05
"""How often a leader works, in seconds."""


def _report(event: str, **details: object) -> None:
    print(json.dumps({"event": event, "at": clock(), **details}), flush=True)


async def _contend(hosts: str, path: str, name: str, session_timeout: float, guard: bool) -> None:
    async with aiolead.connect(
        hosts, session_timeout=session_timeout, close_on_crash=guard
    ) as client:
        election = aiolead.Election(client, path, identity=name)
        _report("waits", session_timeout=client.session_timeout)
        async with election.leadership() as term:
            _report("leads", token=term.token)
            try:
                while True:
                    term.check()
                    _report("works")
                    await anyio.sleep(BEAT)
            finally:
                _report("stops")


async def _end_of_input() -> None:
    while True:
        await anyio.wait_readable(0)
        if not os.read(0, 4096):
            return


def main(
    hosts: str, path: str, name: str, session_timeout: str, backend: str, guardian: str
) -> int:
    async def run() -> int:
        guard = guardian == "guardian"
        contend = partial(_contend, hosts, path, name, float(session_timeout), guard)
        try:
            await first_of(signals.next, _end_of_input, contend)
        except AioleadError as error:
            print(error, flush=True)
            return exits.exit_code(error)
        return exits.OK

    with Signals() as signals:
        return anyio.run(run, backend=backend)
