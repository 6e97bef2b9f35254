"""Run a command while a lock or leadership is held: shared by `aiolead run` and `aiolead lock`."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass, replace
from signal import SIGHUP, SIGINT, SIGTERM

import anyio
from cyclopts import Parameter

from .. import Client, Held, SessionGuardian, Term
from .._escaping import in_seconds
from ..errors import AcquireTimeout, ConfigurationError, TenureLost
from ..paths import validate
from ..types import TenureContext, WriteHeld
from . import exits, render
from .child import Child, ChildExit, find_command
from .environment import without_credentials
from .first_of import first_of
from .options import Common, Flag, Seconds, check_range
from .process_keeper import clock
from .signals import Signals

DYING = 0.1
"""Longest time for a process group to be gone after SIGKILL, in seconds; less in a short lease."""
LEAST_TERM = 1.0
"""Least time between two starts of a command, in seconds."""


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Options of `run` and `lock`."""

    id: str | None = None
    """The name that others see for the leader or holder. Default: host name and process id."""

    pass_credentials: Flag = False
    """The command finds the credentials in its environment, as this command has them."""

    grace: Seconds | None = None
    """How long the command has after SIGTERM when leadership or the lock is lost, in seconds: a
    quarter of the session timeout at most. Default: a tenth."""

    no_close_on_crash: Flag = False
    """After a crash of this process, let its session time out. By default, a session guardian
    closes it as soon as the command is gone."""

    lost_exit_code: int = exits.LOST
    """The exit code if leadership or the lock was lost while the command ran."""


RUN_OPTIONS = RunOptions()


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldCommand:
    """A command, and the hold while it runs.

    Attributes:
        verb: "leads" or "holds".
        noun: "leadership of" or "the lock".
        acquire: makes the context manager that acquires and releases.
        shell: whether the command is one argument, for a shell.
        forever: whether to contend again after a loss, and after the command has ended.
        not_acquired: the exit code if it cannot be acquired in time.
    """

    path: str
    verb: str
    noun: str
    acquire: Callable[
        [Client], TenureContext[Term] | TenureContext[Held] | TenureContext[WriteHeld]
    ]
    command: tuple[str, ...]
    shell: bool
    options: RunOptions
    forever: bool = False
    not_acquired: int = exits.NOT_ACQUIRED

    def run(self, common: Common) -> int:
        """Run it; return the exit code. Raises `ConfigurationError`, `CommandError`."""
        validate(self.path)
        timeout, grace = common.wanted_session_timeout, self.options.grace
        if not self.command:
            raise ConfigurationError("no command was given; it goes last, after --")
        # The system keeps the lowest eight bits: 256 would be success.
        check_range(0, 255, conflict_exit_code=self.not_acquired)
        check_range(0, 255, lost_exit_code=self.options.lost_exit_code)
        if grace is not None and not 0 <= grace <= timeout / 4:
            raise ConfigurationError(
                f"--grace: must be 0 to {in_seconds(timeout / 4)}, a quarter of the session "
                f"timeout (--session-timeout is {timeout:g}), not {grace:g}"
            )
        command = self.command
        if self.shell:
            if len(command) != 1:
                raise ConfigurationError("--shell: give the command as one argument, in quotes")
            command = ("/bin/sh", "-c", command[0])
        find_command(command[0])
        with Signals(passed_on=True) as signals:
            job = replace(self, command=command)
            return common.run(lambda: _Execution(job, common, signals).run())


class _Execution:
    """One execution of a held command, from contending to the exit code."""

    def __init__(self, job: HeldCommand, common: Common, signals: Signals) -> None:
        self._job = job
        self._common = common
        self._signals = signals
        self._reporter = common.reporter
        self._environ = (
            dict(os.environ) if job.options.pass_credentials else without_credentials(os.environ)
        )
        grace = job.options.grace
        self._grace_period = (
            None if grace is None else min(grace + DYING, common.wanted_session_timeout / 4)
        )
        self._child: Child | None = None
        self._report = -1  # the pipe from keepers to the session guardian
        self._asked = 0  # the signal that asks this process to end
        self._code: int | None = None

    async def run(self) -> int:
        await first_of(self._pass_on_signals, self._contend)
        if self._code is None:
            return exits.by_signal(self._asked or self._signals.first or SIGTERM)
        return self._code

    async def _pass_on_signals(self) -> None:
        """Pass signals on to the command; return for one that comes while it does not run."""
        while True:
            number = await self._signals.next()
            if self._child is None or not self._child.is_running:
                self._asked = number
                return
            self._child.send_signal(number)
            if number != SIGHUP:  # many daemons reload their files on SIGHUP
                self._asked = number

    async def _contend(self) -> None:
        async with AsyncExitStack() as stack:
            with ExitStack() as until_connected:
                guardian = None
                if not self._job.options.no_close_on_crash:
                    source, self._report = os.pipe()
                    # Open in the guardian alone, so that keepers notice its end.
                    until_connected.callback(os.close, source)
                    stack.callback(os.close, self._report)
                    os.set_blocking(self._report, False)
                    guardian = SessionGuardian(children=source)
                client = await stack.enter_async_context(
                    self._common.connected(grace_period=self._grace_period, close_on_crash=guardian)
                )
            while True:
                earliest = clock() + LEAST_TERM
                await self._hold_once(client)
                if self._asked or not self._job.forever:
                    return
                self._code = None
                await anyio.sleep(max(0.0, earliest - clock()))

    async def _hold_once(self, client: Client) -> None:
        """Acquire, run the command and release; set the exit code, if there is one."""
        job, path = self._job, self._job.path
        lost_code = job.options.lost_exit_code
        with Child(job.command, self._environ, self._report) as child:
            self._reporter.state(f"waits for {job.noun} {path}", event="waiting", path=path)
            try:
                async with job.acquire(client) as held:
                    if self._asked or self._signals.pending:
                        return
                    self._reporter.state(
                        f"{job.verb} {path} (token {held.token})",
                        event="held",
                        path=path,
                        token=held.token,
                        node=held.path,
                        session=render.hexadecimal(held.session_id),
                    )
                    self._child = child
                    ended = await self._run_child(child, client, held)
                    self._code = lost_code if ended.was_stopped else ended.code
                    # A terminal has ended it: by hanging up, or by Ctrl-C.
                    quitting = [SIGHUP, SIGINT] if child.is_on_terminal else [SIGHUP]
                    if ended.code in map(exits.by_signal, quitting):
                        self._asked = ended.code - exits.by_signal(0)
            except AcquireTimeout:
                self._reporter.error(
                    f"did not get {job.noun} {path}: somebody else has it",
                    event="not acquired",
                    path=path,
                )
                self._code = job.not_acquired
            except TenureLost as lost:
                self._reporter.error(str(lost), event="lost", path=path, token=lost.token)
                self._code = lost_code
            else:
                self._report_end(ended)
            finally:
                self._child = None

    async def _run_child(self, child: Child, client: Client, held: Term | Held) -> ChildExit:
        timeout, grace = client.session_timeout, self._job.options.grace
        grace_period = min(
            timeout / 10 if self._grace_period is None else self._grace_period, timeout / 4
        )
        longest = grace_period - min(DYING, grace_period / 4)
        if grace is not None and grace > timeout / 4:
            self._reporter.error(
                f"the servers granted a session timeout of {in_seconds(timeout)} only, so that "
                f"--grace is {in_seconds(longest)} at most"
            )
        env = {
            "AIOLEAD_PATH": self._job.path,
            "AIOLEAD_NODE": held.path,
            "AIOLEAD_ID": held.identity,
            "AIOLEAD_TOKEN": str(held.token),
            "AIOLEAD_SESSION": render.hexadecimal(held.session_id),
            "AIOLEAD_CONNECT": self._common.hosts or "",
        }
        return await child.run(
            held.remaining,
            env,
            grace=longest if grace is None else grace,
            after_lease=longest,
            renew_every=timeout / 8,
            warn=self._reporter.error,
        )

    def _report_end(self, ended: ChildExit) -> None:
        path = self._job.path
        if ended.was_stopped:
            self._reporter.error(
                f"the lease ran out while this process did not run: {path} was lost",
                event="lost",
                path=path,
            )
        else:
            self._reporter.state(
                f"gave up {path}: the command ended ({ended.code})",
                event="released",
                path=path,
                code=ended.code,
            )
