"""`aiolead once`: run a command once per key, on one of many machines."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from .. import Client, Once
from ..errors import ConfigurationError
from ..types import Run, TenureContext
from . import exits, render
from .options import COMMON, Common, Flag, Seconds, Wait, ZnodePath, check_one_of, within
from .run import RUN_OPTIONS, ExitCode, HeldCommand, RunOptions

MAX_KEY = 256
"""Longest key, in bytes of UTF-8: that of `aiolead.Once`."""


def once(
    path: ZnodePath,
    key: str,
    /,
    *command: str,
    nonblock: Annotated[Flag, Parameter(alias=("-n", "--nb"))] = False,
    wait: Annotated[Wait | None, Parameter(alias=("-w", "--timeout"))] = None,
    conflict_exit_code: Annotated[ExitCode, Parameter(alias="-E")] = exits.NOT_ACQUIRED,
    keep: Annotated[int, within(1, 20_000)] = 1000,
    ttl: Annotated[Seconds, within(1, unit=" seconds")] = 30 * 86_400,
    shell: Annotated[Flag, Parameter(alias="-c")] = False,
    options: RunOptions = RUN_OPTIONS,
    common: Common = COMMON,
) -> int:
    """Run a command once per key, on one of many machines.

    The key, such as a date, is done when the command exits with 0. Then this exits with 0 on every
    machine, without running it; it says so, except with -q. If the command fails, or its machine
    dies, the key is not done, and the next one that waits for it, or comes later, runs the command.

    Signals and losses are as for aiolead lock. The command finds in its environment: AIOLEAD_PATH,
    AIOLEAD_NODE, AIOLEAD_ID, AIOLEAD_TOKEN (the fencing token), AIOLEAD_SESSION, AIOLEAD_CONNECT;
    credentials only with --pass-credentials.

    Exits with the command's own code (128 + n for a signal); 2 usage, 69 no server, 74 run lost, 75
    another machine runs the key, 77 not allowed, 126 and 127 if there is no such command.

    Args:
        path: The path of the job, such as /jobs/nightly. It has a znode for each key.
        key: Any text, such as "$(date +%F)".
        command: The command and its arguments, after "--". Without --shell, no shell starts it.
        nonblock: Do not wait for a machine that runs the key now.
        wait: How long to wait for it, in seconds. Default: until its run has ended.
        conflict_exit_code: The exit code if it still runs then.
        keep: How many done keys are remembered.
        ttl: How long they are remembered, in seconds. Default: 30 days.
        shell: The command is one argument, for /bin/sh.
        options: How to run it.
        common: Where to connect.
    """
    _check_key(key)
    check_one_of(nonblock=nonblock, wait=wait is not None)
    timeout = 0.0 if nonblock else wait
    shown = render.shortened(key, MAX_KEY)

    def job(client: Client) -> Once:
        return Once(client, path, keep=keep, ttl=ttl, identity=options.id)

    def acquire(client: Client) -> TenureContext[Run | None]:
        return job(client).claim(key, timeout=timeout)

    async def standing(client: Client) -> str:
        holder = await job(client).holder(key)
        return "nobody runs it now" if holder is None else f"run by {holder.identity}"

    return HeldCommand(
        path=path,
        verb="runs",
        noun=f"the key {shown} of",
        acquire=acquire,
        command=command,
        shell=shell,
        options=options,
        not_acquired=conflict_exit_code,
        is_silent=True,
        standing=standing,
        done=f"the key {shown} of {path} is done already",
    ).run(common)


def _check_key(key: str) -> None:
    try:
        size = len(key.encode())
    except UnicodeEncodeError:
        raise ConfigurationError("KEY: must be UTF-8") from None
    if not 1 <= size <= MAX_KEY:
        raise ConfigurationError(f"KEY: must have 1 to {MAX_KEY} bytes of UTF-8, not {size}")
