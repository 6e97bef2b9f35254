"""`aiolead lock`."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from .. import Client, Held, Lock, ReadWriteLock, Semaphore
from ..types import TenureContext, WriteHeld
from . import exits
from .options import COMMON, Common, Flag, Seconds, check_one_of, check_range
from .run_while_held import RUN_OPTIONS, HeldCommand, RunOptions


def lock(
    path: str,
    /,
    *command: str,
    nonblock: Annotated[Flag, Parameter(alias=("-n", "--nb"))] = False,
    wait: Annotated[Seconds | None, Parameter(alias=("-w", "--timeout"))] = None,
    conflict_exit_code: Annotated[int, Parameter(alias="-E")] = exits.NOT_ACQUIRED,
    shared: Annotated[Flag, Parameter(alias="-s")] = False,
    exclusive: Annotated[Flag, Parameter(alias=("-x", "-e"))] = False,
    slots: int | None = None,
    shell: Annotated[Flag, Parameter(alias="-c")] = False,
    options: RunOptions = RUN_OPTIONS,
    common: Common = COMMON,
) -> int:
    """Run a command while holding a lock.

    As flock(1), for many machines. SIGTERM, SIGINT and SIGHUP are passed on to the command. If the
    lock is lost, the command gets SIGTERM, and its process group SIGKILL before the servers can let
    anybody else have the lock.

    The command finds in its environment: AIOLEAD_PATH, AIOLEAD_NODE, AIOLEAD_ID, AIOLEAD_TOKEN (the
    fencing token), AIOLEAD_SESSION, AIOLEAD_CONNECT. It does not find the variables that hold
    credentials (AIOLEAD_AUTH, AIOLEAD_SASL, AIOLEAD_TLS_KEY_PASSWORD, AIOLEAD_DASHBOARD_TOKEN),
    but for --pass-credentials.

    Exits with the command's own code (128 + n for a signal); 2 usage, 69 no server, 74 lock lost,
    75 not acquired in time, 77 not allowed, 126 and 127 if there is no such command.

    Args:
        path: The lock, such as /locks/migrate.
        command: The command and its arguments, after "--". No shell is involved, but for --shell.
        nonblock: Do not wait for the lock.
        wait: How long to wait for the lock, in seconds. Default: forever.
        conflict_exit_code: The exit code if the lock was not acquired in time.
        shared: Share a read/write lock with all others that do; --exclusive locks them out.
        exclusive: Have a read/write lock alone, as opposed to those with --shared.
        slots: How many may hold it at once: one of so many permits of a semaphore.
        shell: The command is one argument, for /bin/sh.
        options: How to run it.
        common: Where to connect.
    """
    check_one_of(nonblock=nonblock, wait=wait is not None)
    check_range(0, unit=" seconds", wait=wait)
    check_one_of(shared=shared, exclusive=exclusive, slots=slots is not None)
    check_range(1, slots=slots)
    identity, timeout = options.id, 0.0 if nonblock else wait

    def acquire(client: Client) -> TenureContext[Held] | TenureContext[WriteHeld]:
        if slots is not None:
            return Semaphore(client, path, slots, identity=identity).acquire(timeout=timeout)
        if shared:
            return ReadWriteLock(client, path, identity=identity).read.acquire(timeout=timeout)
        if exclusive:
            return ReadWriteLock(client, path, identity=identity).write.acquire(timeout=timeout)
        return Lock(client, path, identity=identity).acquire(timeout=timeout)

    return HeldCommand(
        path=path,
        verb="holds",
        noun="a slot of" if slots is not None else "the lock",
        acquire=acquire,
        command=command,
        shell=shell,
        options=options,
        not_acquired=conflict_exit_code,
    ).run(common)
