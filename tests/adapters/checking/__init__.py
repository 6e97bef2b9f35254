"""The promises of a client on which every recipe runs: `check_client` tries them.

The functions of the modules here are the promises. Each is tried on a `Stage` of its own.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Collection
from types import ModuleType

import anyio

from . import lease, requests, session, watches, writes
from .stage import Open, Stage

AT_ONCE = 3
"""How many promises are tried at a time. Most of the time is spent waiting."""


def _promises(*parts: ModuleType) -> dict[str, Callable[[Stage], Awaitable[None]]]:
    return {
        name: function
        for part in parts
        for name, function in vars(part).items()
        if inspect.iscoroutinefunction(function)
        and function.__module__ == part.__name__
        and not name.startswith("_")
    }


PROMISES = _promises(requests, writes, watches, session, lease)
"""The promises by their names, in the order in which they are tried."""


async def check_client(
    connect: Open, *, only: Collection[str] = PROMISES, patience: float = 10.0
) -> None:
    """Check a `CoordinationClient` against the promises of the client interface (`aiolead.abc`).

    Each promise is tried by itself, on an embedded server behind a proxy that breaks connections.
    How the client keeps it does not matter. For instance

        await check_client(lambda hosts: my_adapter.connect(hosts, session_timeout=2))

    Args:
        connect: opens the client. It is called with the address of a server, `host:port`, and gives
            an async context manager like that of `aiolead.connect`. A session timeout of 2 seconds
            is best, since some promises are about the time when it is nearly over.
        only: the names of the promises to try.
        patience: how long each may take, in seconds, before it counts as broken.

    Raises:
        ExceptionGroup: the errors of all broken promises. Their notes name the promises.

    Cancellation: ends the client and the servers.
    """
    broken: list[Exception] = []
    at_once = anyio.Semaphore(AT_ONCE)

    async def attempt(name: str) -> None:
        stage = Stage(connect)
        try:
            async with at_once:
                with anyio.fail_after(patience):
                    async with stage:
                        await PROMISES[name](stage)
        except Exception as error:
            error.add_note(f"{name}: {inspect.getdoc(PROMISES[name])}")
            if isinstance(error, TimeoutError):
                error.add_note(f"not within {patience:g} s: {stage.waits_for or 'an answer'}")
            broken.append(error)

    async with anyio.create_task_group() as tasks:
        for name in only:
            tasks.start_soon(attempt, name)
    if broken:
        raise ExceptionGroup(f"{len(broken)} of {len(PROMISES)} promises are broken", broken)
