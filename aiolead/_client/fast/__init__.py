"""The code that knows the internals of an event loop, each piece beside its plain version.

`plain` and `carrier` do the same by anyio alone. The environment variable `AIOLEAD_PLAIN=1` selects
them, for tests: what is wrong with the fast versions alone is wrong here. Processor time saved,
least of five runs in turns, 29 November 2026:

| piece | plain version | saves on asyncio | on trio |
|---|---|---|---|
| `*_carrier` | `StreamCarrier` | 59 % of a read, 41 % of a lock cycle | 30 %, 18 % |
| `ReplyFuture` | an event | 17 % of a read, 8 % of a lock cycle | 4 % of a read |
| `check_cancelled` | a look for each reply | 11 % of a pipelined read | a quarter microsecond |
| `current_task_id`, `wait_shielded` | `TaskInfo`, a scope | 6 % of a lock cycle | 7 % |
| `Wakeup` | `anyio.Event` | 1.4 kB of a waiter's 4.9 kB | 1.0 of 4.0 kB |

Tasks that belong to no task of the program are in `_util.host_tasks`: anyio has none.

waiting           waking and checking a task
asyncio_carrier   TCP in the callbacks of asyncio and uvloop
trio_carrier      TCP on trio's socket
plain, carrier    the plain versions
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ..._util.tasks import trio_here
from .carrier import Carrier, dial_stream

IS_PLAIN = os.environ.get("AIOLEAD_PLAIN") == "1"

if TYPE_CHECKING or not IS_PLAIN:
    from .waiting import Wakeup, check_cancelled, current_task_id, reply_future, wait_shielded
else:
    from .plain import Wakeup, check_cancelled, current_task_id, reply_future, wait_shielded

__all__ = [
    "Wakeup",
    "check_cancelled",
    "current_task_id",
    "dial",
    "reply_future",
    "wait_shielded",
]


async def dial(address: str, port: int) -> Carrier:
    """Connect by TCP, without TLS."""
    # Each of the two modules needs its event loop, which a program on the other one may lack.
    if IS_PLAIN:
        return await dial_stream(address, port)
    if trio_here() is not None:
        from .trio_carrier import dial_trio

        return await dial_trio(address, port)
    from .asyncio_carrier import dial_loop

    return await dial_loop(address, port)
