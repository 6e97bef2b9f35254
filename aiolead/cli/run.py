"""`aiolead run`, `lock` and `once`: run a command while leadership, a lock or a key is held."""

from __future__ import annotations

import os
import signal
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, ExitStack, suppress
from dataclasses import dataclass, replace
from signal import SIGHUP, SIGTERM, SIGTSTP
from typing import Annotated, Any

import anyio
from cyclopts import Parameter

from .. import Client, Election, Held, Lock, Once, ReadWriteLock, Semaphore, SessionGuardian, Term
from .._util.contender_names import MOST_LEADERS, MOST_PRIORITY
from .._util.escaping import in_seconds
from ..errors import AcquireTimeout, AioleadError, ConfigurationError, TenureLost
from ..events import OWNERLESS
from ..types import Run, TenureContext, WriteHeld
from . import exits, render
from .child import Child, ChildExit, find_command
from .contenders import standing
from .elections import contend
from .environment import without_credentials
from .options import COMMON, Common, Flag, Positive, Seconds, Wait, ZnodePath, check_one_of, within
from .process_keeper import JOB_CONTROL, clock
from .signals import ENDING, Job, Signals, first_of

DYING = 0.1
"""Longest time for a process group to be gone after SIGKILL, in seconds; less in a short lease."""
SAID_AFTER = 0.2
"""Seconds of waiting before it is said, and by which contender it is held."""
LEAST_TERM = 1.0
"""Least time between two starts of a command, in seconds."""
MAX_KEY = 256
"""Longest key, in bytes of UTF-8: that of `aiolead.Once`."""

ExitCode = Annotated[int, within(0, 255)]
"""The system keeps the lowest eight bits: 256 would be success."""
Leaders = Annotated[int, within(1, MOST_LEADERS)]


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

    lost_exit_code: ExitCode = exits.LOST
    """The exit code if leadership or the lock was lost while the command ran."""


RUN_OPTIONS = RunOptions()


def run(
    path: ZnodePath,
    /,
    *command: str,
    leaders: Leaders = 1,
    changing_from: Leaders | None = None,
    priority: Annotated[int, within(-MOST_PRIORITY, MOST_PRIORITY)] | None = None,
    stable_for: Annotated[Seconds, within(1, unit=" seconds")] = 10.0,
    forever: Flag = False,
    shell: Flag = False,
    options: RunOptions = RUN_OPTIONS,
    common: Common = COMMON,
) -> int:
    """Run a command only while leader; without one, print each state until SIGINT, SIGTERM.

    Waits for leadership, runs the command, and resigns when it has ended. Signals are passed on to
    it. If leadership is lost, the command gets SIGTERM, and its process group SIGKILL before the
    servers can let anybody else lead.

    The command finds in its environment: AIOLEAD_PATH, AIOLEAD_NODE, AIOLEAD_ID, AIOLEAD_TOKEN (the
    fencing token), AIOLEAD_SESSION, AIOLEAD_CONNECT; credentials only with --pass-credentials.

    Exits with the command's own code (128 + n for a signal); 2 usage, 69 no server, 74 leadership
    lost, 77 not allowed, 126 and 127 if there is no such command.

    Without a command, it resigns on request (aiolead revoke), and nothing is stopped when
    leadership is lost: this is for diagnosis. With --json: time (UTC), state (following, leading,
    suspended, lost, resigned), rank (how many contenders are before this one; null if not known),
    token, node, session, id, reason (why it was lost).

    Args:
        path: The path of the election, such as /jobs/scheduler.
        command: The command and its arguments, after "--". Without --shell, no shell starts it.
        leaders: How many may lead at once; all contenders must agree on it.
        changing_from: The number of leaders that other contenders may still have.
        priority: Of the contenders that are present, the one with the highest leads. All have one,
            or none.
        stable_for: How long this contender waits, in seconds, before it asks a leader with a lower
            priority to resign: then that one's command gets SIGTERM. From 1 up.
        forever: Contend again when leadership was lost, or the command has ended.
        shell: The command is one argument, for /bin/sh.
        options: How to run it.
        common: Where to connect.
    """
    if priority is not None and (leaders > 1 or changing_from is not None):
        raise ConfigurationError("--priority: needs --leaders 1, without --changing-from")
    rules: dict[str, Any] = {
        "identity": options.id,
        "leaders": leaders,
        "changing_from": changing_from,
        "priority": priority,
        "stable_for": stable_for,
    }
    if not command and not shell:
        return contend(
            path,
            lambda client: Election(client, path, **rules),
            forever=forever,
            close_on_crash=not options.no_close_on_crash,
            common=common,
        )

    def acquire(client: Client) -> TenureContext[Term]:
        # The command gets SIGTERM instead, and leads until it has ended.
        return Election(client, path, **rules, on_revocation="ignore").leadership()

    return HeldCommand(
        path=path,
        verb="leads",
        noun="leadership of",
        acquire=acquire,
        command=command,
        shell=shell,
        options=options,
        forever=forever,
    ).run(common)


def lock(
    path: ZnodePath,
    /,
    *command: str,
    nonblock: Annotated[Flag, Parameter(alias=("-n", "--nb"))] = False,
    wait: Annotated[Wait | None, Parameter(alias=("-w", "--timeout"))] = None,
    conflict_exit_code: Annotated[ExitCode, Parameter(alias="-E")] = exits.NOT_ACQUIRED,
    shared: Annotated[Flag, Parameter(alias="-s")] = False,
    exclusive: Annotated[Flag, Parameter(alias=("-x", "-e"))] = False,
    slots: Positive | None = None,
    shell: Annotated[Flag, Parameter(alias="-c")] = False,
    options: RunOptions = RUN_OPTIONS,
    common: Common = COMMON,
) -> int:
    """Run a command while holding a lock.

    As flock(1), for many machines: it prints nothing, except that it waits, on a terminal. Signals
    are passed on to the command. If the lock is lost, the command gets SIGTERM, and its process
    group SIGKILL before the servers can let anybody else have the lock.

    The command finds in its environment: AIOLEAD_PATH, AIOLEAD_NODE, AIOLEAD_ID, AIOLEAD_TOKEN (the
    fencing token), AIOLEAD_SESSION, AIOLEAD_CONNECT; credentials only with --pass-credentials.

    Exits with the command's own code (128 + n for a signal); 2 usage, 69 no server, 74 lock lost,
    75 not acquired in time, 77 not allowed, 126 and 127 if there is no such command.

    Args:
        path: The lock, such as /locks/migrate.
        command: The command and its arguments, after "--". Without --shell, no shell starts it.
        nonblock: Do not wait for the lock.
        wait: How long to wait for the lock, in seconds. Default: forever.
        conflict_exit_code: The exit code if the lock was not acquired in time.
        shared: Share a read/write lock with all others that do; --exclusive locks them out.
        exclusive: Take the write lock of a read/write lock, which excludes --shared.
        slots: How many may hold it at once: one of so many permits of a semaphore.
        shell: The command is one argument, for /bin/sh.
        options: How to run it.
        common: Where to connect.
    """
    check_one_of(nonblock=nonblock, wait=wait is not None)
    check_one_of(shared=shared, exclusive=exclusive, slots=slots is not None)
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
        is_silent=True,
    ).run(common)


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
        is_silent: whether to report nothing to a person, except that it waits, on a terminal.
        standing: names the holder, for messages; by default the contenders at the path.
        done: the message if it gives no hold, since there is nothing to do any more.
    """

    path: str
    verb: str
    noun: str
    acquire: Callable[
        [Client],
        TenureContext[Term]
        | TenureContext[Held]
        | TenureContext[WriteHeld]
        | TenureContext[Run | None],
    ]
    command: tuple[str, ...]
    shell: bool
    options: RunOptions
    forever: bool = False
    not_acquired: int = exits.NOT_ACQUIRED
    is_silent: bool = False
    standing: Callable[[Client], Awaitable[str]] | None = None
    done: str = ""

    def run(self, common: Common) -> int:
        timeout, grace = common.wanted_session_timeout, self.options.grace
        if not self.command:
            raise ConfigurationError("no command was given; it goes last, after --")
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
        leave_process_1()
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
        self._code: exits.Exit | None = None
        self._waits = False
        self._attempts, self._new_attempts = anyio.create_memory_object_stream[Client](1)

    async def run(self) -> int:
        await first_of(self._pass_on_signals, self._contend, self._report_waiting)
        if self._code is None:
            return exits.by_signal(self._asked or self._signals.first or SIGTERM)
        return self._code

    async def _pass_on_signals(self) -> None:
        """Pass signals on to the command; return for one that comes while it does not run."""
        while True:
            number = await self._signals.next()
            child = self._child if self._child is not None and self._child.is_running else None
            if number == SIGTSTP:
                (child or Job()).suspend()
            elif child is not None:
                child.send_signal(number)
                self._interrupted(number)
            elif number in ENDING:
                self._asked = number
                self._signals.end_soon(self._code)
                return

    def _interrupted(self, number: int) -> None:
        """The command got a signal, from this process or from its terminal."""
        if number in ENDING and number != SIGHUP:  # many daemons reload their files on SIGHUP
            self._asked = number

    async def _report_waiting(self) -> None:
        job = self._job
        async with self._new_attempts:
            async for client in self._new_attempts:
                await anyio.sleep(SAID_AFTER)
                reports = self._is_reporting or self._reporter.is_on_terminal
                if not self._waits or not reports:
                    continue
                text = f"waits for {job.noun} {job.path}"
                with anyio.move_on_after(client.session_timeout), suppress(AioleadError):
                    text += f": {await self._standing(client)}"
                if self._waits:
                    self._reporter.state(text, event="waiting", path=job.path)

    async def _standing(self, client: Client) -> str:
        job = self._job
        return await (standing(client, job.path) if job.standing is None else job.standing(client))

    @property
    def _is_reporting(self) -> bool:
        """Whether to report what happens while all goes well."""
        return not self._job.is_silent or self._reporter.as_json

    async def _contend(self) -> None:
        async with AsyncExitStack() as stack:
            stack.enter_context(self._attempts)
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
                    self._common.connected(
                        grace_period=self._grace_period,
                        close_on_crash=guardian,
                        reports_outages=True,
                    )
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
        lost_code = exits.Exit(job.options.lost_exit_code)
        with Child(job.command, self._environ, self._report, self._interrupted) as child:
            self._waits = True
            with suppress(anyio.WouldBlock):
                self._attempts.send_nowait(client)
            try:
                async with job.acquire(client) as held:
                    self._waits = False
                    if held is None:
                        self._code = exits.Exit(exits.OK)
                        self._reporter.state(job.done, event="done already", path=path)
                        return
                    if self._asked or self._signals.pending:
                        await _leave_undone(held)
                        return
                    if self._is_reporting:
                        self._reporter.state(
                            f"{job.verb} {path} (token {held.token})",
                            event="held",
                            path=path,
                            token=held.token,
                            node=held.path,
                            session=render.hexadecimal(held.session_id),
                        )
                    self._child = child
                    ended = await self._run_until_revoked(child, client, held)
                    self._code = lost_code if ended.was_stopped else ended.code
                    if self._code:
                        await _leave_undone(held)
                    if ended.code.number == SIGHUP:  # its terminal has hung up
                        self._asked = SIGHUP
                    if self._asked:
                        self._signals.end_soon(self._code)
            except AcquireTimeout as late:
                self._waits = False
                if not self._reporter.quiet:
                    # Nobody holds it, and nobody ever will: the error names the znode in front.
                    is_blocked = str(late).endswith(OWNERLESS)
                    why = str(late) if is_blocked else await self._standing(client)
                    self._reporter.error(
                        f"did not get {job.noun} {path}: {why}",
                        event="not acquired",
                        path=path,
                    )
                self._code = exits.Exit(job.not_acquired)
            except TenureLost as lost:
                self._reporter.error(str(lost), event="lost", path=path, token=lost.token)
                self._code = lost_code
            else:
                self._report_end(ended)
            finally:
                self._waits = False
                self._child = None

    async def _run_until_revoked(
        self, child: Child, client: Client, held: Term | Held | Run
    ) -> ChildExit:
        """Run the command; send it SIGTERM when an operator asks for a release."""
        ended: list[ChildExit] = []

        async def work() -> None:
            ended.append(await self._run_child(child, client, held))

        async def heed() -> None:
            await held.revocation_requested()
            what = f"{self._job.noun} {self._job.path}"
            self._reporter.error(f"asked to release {what}: told the command to end")
            child.send_signal(SIGTERM)
            await anyio.sleep_forever()

        await first_of(work, heed)
        return ended[0]

    async def _run_child(self, child: Child, client: Client, held: Term | Held | Run) -> ChildExit:
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
            "AIOLEAD_CONNECT": self._common.wanted_hosts,
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
        elif self._is_reporting:
            self._reporter.state(
                f"released {path}: the command ended ({ended.code})",
                event="released",
                path=path,
                code=ended.code,
            )


async def _leave_undone(held: Term | Held | Run) -> None:
    """Have the key of a run not count as done, although its body ends without an exception."""
    if isinstance(held, Run):
        await held.release()


# --- process 1 of a container --------------------------------------------------------------------

_FROM_KERNEL = 128
"""`si_code` of signals of the terminal, which the other processes get from it, too."""
_FAULTS = {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL}


def leave_process_1() -> None:
    """Return in a child if this is process 1, which then passes signals on, and reaps orphans.

    Process 1 exits with the child's code, or 128 + n if signal n ended the child.
    """
    if os.getpid() != 1:
        return
    handled = signal.valid_signals() - _FAULTS
    before = signal.pthread_sigmask(signal.SIG_BLOCK, handled)
    child = os.fork()
    if child == 0:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        # The sockets that podman passes are for one process alone.
        if os.environ.get("LISTEN_PID") == "1":
            os.environ["LISTEN_PID"] = str(os.getpid())
        return
    while True:
        came = signal.sigwaitinfo(handled)
        if came.si_signo != signal.SIGCHLD:
            if came.si_code != _FROM_KERNEL and came.si_signo not in JOB_CONTROL:
                with suppress(ProcessLookupError):
                    os.kill(child, came.si_signo)
            continue
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                if ended[0] == child:
                    os._exit(exits.of_process(os.waitstatus_to_exitcode(ended[1])))
