"""The promises of a client on which every recipe runs, and whether a client keeps them."""

from __future__ import annotations

from collections.abc import Collection

import anyio

from aiolead.errors import ConfigurationError

from . import lease, requests, session, watches, writes
from .stage import PROMISES, BrokenPromises, Open, Stage, shown

__all__ = ["BrokenPromises", "check_client"]

AT_ONCE = 3
"""How many promises are tried at a time: most of the time is spent waiting."""

_PARTS = (requests, writes, watches, session, lease)  # importing them fills PROMISES


async def check_client(
    connect: Open, *, only: Collection[str] = (), patience: float = 10.0
) -> tuple[str, ...]:
    """Checks a `CoordinationClient` against the promises of the client interface (`aiolead.abc`).

    Each promise is tried by itself, on an embedded server behind a proxy that breaks links, from
    the outside alone: it does not matter how the client does what it does. For instance

        await check_client(lambda hosts: my_adapter.connect(hosts, session_timeout=2))

    Args:
        connect: opens the client: called with the address of a server, `host:port`, it gives an
            async context manager like that of `aiolead.connect`. A session timeout of 2 seconds is
            best: some promises are about what happens when it is nearly over.
        only: the names of the promises to try; all of them by default.
        patience: how long each may take, in seconds, before it counts as broken.

    Returns:
        The names of the promises that were tried, and kept.

    Raises:
        BrokenPromises: with every promise that is broken, by its name.
        ConfigurationError: there is no promise of such a name.

    Cancellation: ends the client and the servers.
    """
    if isinstance(only, str) or not set(only) <= set(PROMISES):
        raise ConfigurationError(f"only: must be some of {', '.join(PROMISES)}, not {only!r}")
    names = [name for name in PROMISES if not only or name in only]
    found: dict[str, Exception] = {}
    at_once = anyio.Semaphore(AT_ONCE)

    async def attempt(name: str) -> None:
        async with at_once:
            error = await _broken(name, connect, patience)
        if error is not None:
            found[name] = error

    async with anyio.create_task_group() as tasks:
        for name in names:
            tasks.start_soon(attempt, name)
    if found:
        raise BrokenPromises({name: found[name] for name in names if name in found})
    return tuple(names)


async def _broken(name: str, connect: Open, patience: float) -> Exception | None:
    """Why a promise is broken; None if it is kept."""
    stage = Stage(connect)
    try:
        with anyio.fail_after(patience):
            async with stage:
                await PROMISES[name](stage)
    except TimeoutError:
        return TimeoutError(f"not within {patience:g} s: {stage.waits_for or 'an answer'}")
    except Exception as error:
        return error
    return None


def promises() -> dict[str, str]:
    """The promises, and what each of them says."""
    return {name: shown(promise) for name, promise in PROMISES.items()}
