"""The command that `aiolead run` and `aiolead lock` run, as seen from the holding process.

The command itself is a child of a keeper, a separate process: see `process_keeper.py`.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import anyio

from .._util import parsing
from .._util.parsing import MalformedError
from . import exits
from . import process_keeper as keeper
from .exits import CommandError
from .process_keeper import clock
from .signals import Job

_KEEPER_ENDS_WITHIN = 2.0
"""Longest time for the keeper to end after its child, in seconds."""

_LOOK_EVERY = 0.1
"""How often to look whether a child that wants the terminal may have it, in seconds."""

_TO_THE_GROUP = (signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP)
"""A terminal would have sent these to the whole process group."""


@dataclass(frozen=True, slots=True)
class ChildExit:
    """How the command ended.

    `code` is that of `exits.by_signal` if a signal ended it; `was_stopped` if the keeper stopped it
    as the lease ran out.
    """

    code: exits.Exit
    was_stopped: bool


def find_command(command: str) -> str:
    """The path of a program. Raises `CommandError` if it does not exist, or may not be executed."""
    if found := shutil.which(command):
        return found
    path = Path(command)
    if os.sep in command and path.exists():
        raise _cannot_execute(command, "is a directory" if path.is_dir() else "not executable")
    raise _not_found(command)


class Child:
    """A context manager: a command that a keeper holds ready, and runs once at most.

    Entering starts the keeper, so that the command starts without delay. Neither has any other
    environment than `environ`; both have the descriptors that this process was started with.
    `report` is the pipe to the session guardian; -1 if there is none. `interrupted` is called with
    a signal that the terminal has sent to the command alone.
    """

    def __init__(
        self,
        command: tuple[str, ...],
        environ: Mapping[str, str],
        report: int = -1,
        interrupted: Callable[[int], object] = int,
    ) -> None:
        self._command = command
        self._environ = environ
        self._report = report
        self._interrupted = interrupted
        self._job = Job()
        self._wants_terminal = False
        self._pid = 0
        self._kill_by = 0.0
        self._after_lease = 0.0
        self._unread = b""
        self._exit: ChildExit | None = None

    def __enter__(self) -> Self:
        self._socket, theirs = socket.socketpair()
        self._socket.setblocking(False)
        with theirs:
            script = [sys.executable, "-I", "-S", str(Path(keeper.__file__).resolve())]
            for each in (theirs.fileno(), self._report):
                if each >= 0:
                    os.set_inheritable(each, True)
            # From the main thread, in a process group that no terminal sends its signals to.
            self._keeper = subprocess.Popen(  # noqa: S603 - the arguments are not for a shell
                [*script, str(theirs.fileno()), str(self._report), *self._command],
                env=self._environ,
                close_fds=False,
                process_group=0,
            )
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()
        try:
            self._keeper.wait(_KEEPER_ENDS_WITHIN)
        except subprocess.TimeoutExpired:
            self._keeper.kill()
            self._keeper.wait()
        was_killed = self._exit is None or self._exit.was_stopped or self._exit.code.number
        self._job.take_terminal(with_modes=bool(was_killed))

    @property
    def is_running(self) -> bool:
        """Whether it runs, as far as this process knows."""
        return self._kill_by > 0.0 and self._exit is None

    def send_signal(self, number: int) -> None:
        """Pass a signal on to it; no effect if it has ended."""
        self._send("signal", number=number, group=number in _TO_THE_GROUP)

    def suspend(self) -> None:
        """Stop it and this process, as Ctrl-Z does, until this process is continued."""
        had_terminal = self._job.has_given_terminal
        if not had_terminal:
            self.send_signal(signal.SIGTSTP)
        self._job.suspend()
        if had_terminal and self._job.give_terminal():
            self._send("terminal")
        else:
            self._send("signal", number=signal.SIGCONT, group=True)

    async def run(
        self,
        remaining: Callable[[], float],
        env: Mapping[str, str],
        *,
        grace: float,
        after_lease: float,
        renew_every: float,
        warn: Callable[[str], object],
    ) -> ChildExit:
        """Run it until it ends; `warn` is called with problems on the way.

        The keeper gets the end of the lease, by `remaining()`, every `renew_every` seconds. SIGKILL
        comes at most `grace` seconds after SIGTERM, and at most `after_lease` seconds after the end
        of the lease: its grace period, less the time that it takes to die. `env` overrides what it
        inherits.

        Raises `CommandError` if it could not be started, or its keeper was killed; it does not run.
        Cancellation stops it, and waits until it is dead, within these times.
        """
        self._after_lease = after_lease
        start = {"program": find_command(self._command[0]), "env": dict(env), "grace": grace}
        try:
            self._send("start", **start, **self._lease(remaining))
            while self._exit is None:
                patience = _LOOK_EVERY if self._wants_terminal else renew_every
                with anyio.move_on_after(min(patience, renew_every)):
                    await self._receive(warn)
                    continue
                self._offer_terminal()
                if remaining() > 0.0:
                    self._send("lease", **self._lease(remaining))
        finally:
            if self._exit is None:
                await self._stop(warn)
        assert self._exit is not None
        return self._exit

    def _offer_terminal(self) -> None:
        """Give it the terminal that it waits for, if this process's job is in the foreground."""
        if self._wants_terminal and self._job.give_terminal():
            self._wants_terminal = False
            self._send("terminal")

    def _lease(self, remaining: Callable[[], float]) -> dict[str, float]:
        # In this order, the time between the two calls shortens the lease.
        now = clock()
        until = now + remaining()
        self._kill_by = until + self._after_lease
        return {"until": until, "kill_by": self._kill_by}

    async def _stop(self, warn: Callable[[str], object]) -> None:
        self._send("stop")
        warn("not held any more: told the command to end")
        with anyio.move_on_after(max(0.0, self._kill_by - clock()), shield=True):
            while self._exit is None:
                await self._receive(warn)
        if self._exit is None:
            self._read(warn)  # whether it was started at all
        if self._exit is None:
            # The keeper should have killed it by now; the lease leaves no time to ask.
            self._kill_group()
            self._keeper.kill()

    async def _receive(self, warn: Callable[[str], object]) -> None:
        """Wait for messages of the keeper, and process them."""
        await anyio.wait_readable(self._socket)
        if not self._read(warn):
            await self._keeper_lost()

    def _read(self, warn: Callable[[str], object]) -> bool:
        """Process the keeper's messages that have arrived; False at their end."""
        try:
            data = self._socket.recv(65536)
        except BlockingIOError:
            return True
        except ConnectionError:
            data = b""
        *lines, self._unread = (self._unread + data).split(b"\n")
        for line in lines:
            try:
                message = parsing.json_object(line)
            except MalformedError:
                return False  # no keeper writes that
            self._on_message(message, warn)
        return bool(data)

    def _on_message(self, message: dict[str, Any], warn: Callable[[str], object]) -> None:
        match message:
            case {"started": pid}:
                self._pid = pid
            case {"ended": code, "stopped": stopped}:
                self._exit = ChildExit(exits.of_process(code), stopped)
            case {"stopped": signal.SIGTSTP}:
                if self._job.has_given_terminal:
                    self.suspend()
            case {"stopped": _}:
                # It reads the terminal, or sets its modes. A shell would show a job that waits for
                # `fg` as stopped; but this process has to renew the lease meanwhile.
                self._wants_terminal = True
                self._offer_terminal()
            case {"typed": number}:
                self._job.relay(number)
                self._interrupted(number)
            case {"failed": code, "why": why}:
                self._exit = ChildExit(exits.Exit(exits.CANNOT_EXECUTE), was_stopped=False)
                if code == 2:
                    raise _not_found(self._command[0])
                raise _cannot_execute(self._command[0], why)
            case {"refused": number}:
                name = signal.Signals(number).name
                warn(f"{name} could not be sent to the command: it belongs to another user")

    async def _keeper_lost(self) -> None:
        """The keeper was killed: kill the child, which nothing else would stop in time."""
        self._exit = ChildExit(exits.by_signal(signal.SIGKILL), was_stopped=True)
        with anyio.move_on_after(max(0.0, self._kill_by - clock()), shield=True):
            while True:
                if not self._kill_group():
                    break
                await anyio.sleep(0.005)
        raise CommandError("the process that looks after the command was killed", exits.FAILED)

    def _kill_group(self) -> bool:
        """Kill the command's process group; False if there is none, as far as is known."""
        if not self._pid:
            return False  # 0 would be our own process group
        try:
            os.killpg(self._pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            return False
        return True

    def _send(self, do: str, **details: Any) -> None:
        # A keeper that is gone, or hangs, is noticed by `_receive` and `_stop`.
        with suppress(OSError):
            self._socket.sendall(json.dumps({"do": do, **details}).encode() + b"\n")


def _not_found(command: str) -> CommandError:
    return CommandError(f"{command}: command not found", exits.NOT_FOUND)


def _cannot_execute(command: str, why: str) -> CommandError:
    return CommandError(f"{command}: cannot be executed: {why}", exits.CANNOT_EXECUTE)
