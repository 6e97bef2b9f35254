"""`aiolead lock`."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from .. import Client, Held, Lock, ReadWriteLock, Semaphore
from ..errors import ConfigurationError
from ..types import TenureContext, WriteHeld
from . import exits
from .options import COMMON, Common, Flag, Seconds
from .run_while_held import Job, keep

__all__ = ["lock"]


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
    pass_credentials: Flag = False,
    id: str | None = None,  # noqa: A002 - the name of the option
    grace: Seconds | None = None,
    lost_exit_code: int = exits.LOST,
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
    75 not had in time, 77 not allowed, 126 and 127 if there is no such command.

    Args:
        path: The lock, such as /locks/migrate.
        command: The command and its arguments, after "--". No shell is involved, but for --shell.
        nonblock: Do not wait for the lock.
        wait: How long to wait for the lock, in seconds. Default: for ever.
        conflict_exit_code: What to exit with if the lock was not had in time.
        shared: Share a read/write lock with all others that do; --exclusive locks them out.
        exclusive: Have a read/write lock alone, as opposed to those with --shared.
        slots: How many may hold it at once: one of so many permits of a semaphore.
        shell: The command is one argument, for /bin/sh.
        pass_credentials: The command finds the credentials in its environment, as we have them.
        id: What others see as the holder. Default: host name and process id.
        grace: How long the command has after SIGTERM when the lock is lost, in seconds: a quarter
            of the session timeout at most. Default: a tenth.
        lost_exit_code: What to exit with when the lock was lost while the command ran.
        common: Where to connect.
    """
    if nonblock and wait is not None:
        raise ConfigurationError("--nonblock, --wait: one or the other")
    if wait is not None and not wait >= 0:
        raise ConfigurationError(f"--wait: must be 0 seconds or more, not {wait:g}")
    if shared + exclusive + (slots is not None) > 1:
        raise ConfigurationError("--shared, --exclusive, --slots: one of them")
    if slots is not None and slots < 1:
        raise ConfigurationError(f"--slots: must be 1 or more, not {slots}")
    patience = 0.0 if nonblock else wait

    def hold(client: Client) -> TenureContext[Held] | TenureContext[WriteHeld]:
        if slots is not None:
            return Semaphore(client, path, slots, identity=id).acquire(timeout=patience)
        if shared:
            return ReadWriteLock(client, path, identity=id).read.acquire(timeout=patience)
        if exclusive:
            return ReadWriteLock(client, path, identity=id).write.acquire(timeout=patience)
        return Lock(client, path, identity=id).acquire(timeout=patience)

    job = Job(
        path=path,
        verb="holds",
        noun="a slot of" if slots is not None else "the lock",
        hold=hold,
        command=command,
        shell=shell,
        pass_credentials=pass_credentials,
        grace=grace,
        not_acquired=conflict_exit_code,
        lost=lost_exit_code,
    )
    return keep(job, common)
