"""What `aiolead run` and `aiolead lock` share: a command that runs while something is held."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from signal import SIGHUP, SIGINT, SIGTERM

import anyio

from .. import Client, Held, Term
from ..errors import AcquireTimeout, AioleadError, ConfigurationError, TenureLost
from ..paths import validate
from ..types import TenureContext, WriteHeld
from . import exits, shown
from .child import Child, CommandError, Ended, Patience, find_command
from .environment import without_credentials
from .options import Common
from .process_keeper import clock
from .signals import Signals

__all__ = ["Job", "keep"]

DYING = 0.1
"""What a process group may need to be gone after SIGKILL, in seconds; less where there is less."""

LEAST_TERM = 1.0
"""Least time between two starts of a command, in seconds, if it is started again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What is to be held, and what is to be run meanwhile.

    Attributes:
        path: what is contended for.
        verb: what having it is called: "leads", "holds".
        noun: what is had: "leadership of", "lock".
        hold: makes what waits for our turn and holds it.
        command: the command and its arguments.
        shell: whether it is one argument, for a shell.
        pass_credentials: whether it finds our credentials in its environment.
        grace: how long after SIGTERM the command is killed if what was held is lost, in seconds.
        forever: whether to contend again after that, and after the command has ended.
        not_acquired: what to exit with when it cannot be had in time.
        lost: what to exit with when it is lost.
    """

    path: str
    verb: str
    noun: str
    hold: Callable[[Client], TenureContext[Term] | TenureContext[Held] | TenureContext[WriteHeld]]
    command: tuple[str, ...]
    shell: bool = False
    pass_credentials: bool = False
    grace: float | None = None
    forever: bool = False
    not_acquired: int = exits.NOT_ACQUIRED
    lost: int = exits.LOST


def keep(job: Job, common: Common) -> int:
    """Does a job; returns the exit code.

    Raises:
        ConfigurationError: the options make no sense together.
        CommandError: there is no such command.
    """
    validate(job.path)
    timeout = common.wanted_session_timeout
    if not job.command:
        raise ConfigurationError("no command was given; it goes last, after --")
    for option, code in (
        ("--conflict-exit-code", job.not_acquired),
        ("--lost-exit-code", job.lost),
    ):
        # The system would keep the lowest eight bits: 256 would be success.
        if not 0 <= code <= 255:
            raise ConfigurationError(f"{option}: must be 0 to 255, not {code}")
    if job.grace is not None and not 0 <= job.grace <= timeout / 4:
        raise ConfigurationError(
            f"--grace: must be 0 to {timeout / 4:g} seconds, a quarter of the session timeout "
            f"(--session-timeout is {timeout:g}), not {job.grace:g}"
        )
    if job.shell:
        if len(job.command) != 1:
            raise ConfigurationError("--shell: give the command as one argument, in quotes")
        job = replace(job, command=("/bin/sh", "-c", job.command[0]))
    find_command(job.command[0])
    with Signals(passed_on=True) as signals:
        return common.run(lambda: Holding(job, common, signals).run())


class Holding:
    """One run of a job, from contending to the exit code."""

    def __init__(self, job: Job, common: Common, signals: Signals) -> None:
        self._job = job
        self._common = common
        self._signals = signals
        self._reporter = common.reporter
        self._scope = anyio.CancelScope()  # ended by a signal, unless the command runs
        self._environ = (
            dict(os.environ) if job.pass_credentials else without_credentials(os.environ)
        )
        self._grace_period: float | None = None
        if job.grace is not None:
            self._grace_period = min(job.grace + DYING, common.wanted_session_timeout / 4)
        self._child: Child | None = None
        self._asked = 0  # the signal that asked us to end
        self._code: int | None = None

    async def run(self) -> int:
        """Runs it; returns the exit code."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._listen)
            try:
                with self._scope:
                    await self._contend()
            except CommandError as error:
                self._reporter.error(str(error))
                self._code = error.code
            except AioleadError as error:
                self._reporter.failure(error)
                self._code = exits.exit_code(error)
            tasks.cancel_scope.cancel()
        if self._code is None:
            return exits.by_signal(self._asked or self._signals.first or SIGTERM)
        return self._code

    async def _listen(self) -> None:
        while True:
            number = await self._signals.next()
            if self._child is not None and self._child.is_running:
                self._child.send_signal(number)
                if number != SIGHUP:  # to many a daemon, SIGHUP means to read its files again
                    self._asked = number
            else:
                self._asked = number
                self._scope.cancel()

    async def _contend(self) -> None:
        async with self._common.connect(grace_period=self._grace_period) as client:
            while True:
                earliest = clock() + LEAST_TERM
                await self._one_tenure(client)
                if self._asked or not self._job.forever:
                    return
                self._code = None
                await anyio.sleep(max(0.0, earliest - clock()))

    async def _one_tenure(self, client: Client) -> None:
        """Waits for our turn and runs the command; sets the exit code, if it came to that."""
        job = self._job
        with Child(job.command, self._environ) as child:
            self._reporter.state(f"waits for {job.noun} {job.path}", event="waiting", path=job.path)
            try:
                async with job.hold(client) as held:
                    if self._asked or self._signals.pending:
                        return
                    self._reporter.state(
                        f"{job.verb} {job.path} (token {held.token})",
                        event="held",
                        path=job.path,
                        token=held.token,
                        node=held.path,
                        session=shown.hexadecimal(held.session_id),
                    )
                    self._child = child
                    ended = await self._keep(child, client, held)
                    self._code = job.lost if ended.stopped else ended.code
                    if ended.code in self._quitting(child):
                        self._asked = ended.code - exits.by_signal(0)
            except AcquireTimeout:
                self._reporter.error(
                    f"did not get {job.noun} {job.path}: somebody else has it",
                    event="not acquired",
                    path=job.path,
                )
                self._code = job.not_acquired
            except TenureLost as lost:
                self._reporter.error(str(lost), event="lost", path=job.path, token=lost.token)
                self._code = job.lost
            else:
                self._tell_end(ended)
            finally:
                self._child = None

    async def _keep(self, child: Child, client: Client, held: Term | Held) -> Ended:
        """Runs the command while it is held."""
        timeout, grace = client.session_timeout, self._job.grace
        grace_period = min(
            timeout / 10 if self._grace_period is None else self._grace_period, timeout / 4
        )
        longest = grace_period - min(DYING, grace_period / 4)
        if grace is not None and grace > timeout / 4:
            self._reporter.error(
                f"the servers granted a session timeout of {timeout:g} seconds only, so that "
                f"--grace is {longest:g} seconds at most"
            )
        env = {
            "AIOLEAD_PATH": self._job.path,
            "AIOLEAD_NODE": held.path,
            "AIOLEAD_ID": held.identity,
            "AIOLEAD_TOKEN": str(held.token),
            "AIOLEAD_SESSION": shown.hexadecimal(held.session_id),
            "AIOLEAD_CONNECT": self._common.hosts or "",
        }
        return await child.run(
            held,
            env,
            Patience(grace=longest if grace is None else grace, after_lease=longest),
            renew_every=timeout / 8,
            warn=self._reporter.error,
        )

    def _quitting(self, child: Child) -> list[int]:
        """The exit codes of a command that a terminal has ended: by hanging up, or with Ctrl-C."""
        quitting = [exits.by_signal(SIGHUP)]
        if child.is_on_terminal:
            quitting.append(exits.by_signal(SIGINT))
        return quitting

    def _tell_end(self, ended: Ended) -> None:
        if ended.stopped:
            self._reporter.error(
                f"the lease ran out while this process did not run: {self._job.path} was lost",
                event="lost",
                path=self._job.path,
            )
        else:
            self._reporter.state(
                f"gave up {self._job.path}: the command ended ({ended.code})",
                event="released",
                path=self._job.path,
                code=ended.code,
            )
