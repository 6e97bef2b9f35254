"""The command that `aiolead run` and `aiolead lock` run: as `aiolead` sees it.

The process itself is in the hands of a keeper; see `keeper.py`.
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
from types import TracebackType
from typing import Any, Protocol, Self

import anyio

from .. import _parsing
from .._parsing import MalformedError
from . import exits
from . import process_keeper as keeper
from .process_keeper import clock

__all__ = ["Child", "CommandError", "Ended", "Patience", "Tenancy", "find_command"]

_KEEPER_ENDS_WITHIN = 2.0
"""In seconds. It has no more to do then than to exit."""


class CommandError(Exception):
    """The command could not be run, or kept.

    Attributes:
        code: what to exit with.
    """

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class Tenancy(Protocol):
    """What a child needs to know of a term or a held lock."""

    def remaining(self) -> float: ...


@dataclass(frozen=True, slots=True)
class Ended:
    """How the command has ended.

    Attributes:
        code: its exit code, or 128 + the signal that it died of.
        signal: that signal; 0 if none.
        stopped: whether it was told to end since the lease ran out.
    """

    code: int
    signal: int
    stopped: bool


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a child may go on after it was told to end.

    Attributes:
        grace: how long after SIGTERM it is killed, in seconds, at the latest.
        after_lease: how long after the end of the lease it is killed at the latest; the lease's
            grace period, less what it takes to die.
    """

    grace: float
    after_lease: float


def find_command(command: str) -> None:
    """Returns if there is such a command.

    Raises:
        CommandError: there is none, or it may not be executed.
    """
    if shutil.which(command) is None:
        path = Path(command)
        if os.sep in command and path.exists():
            raise _cannot_execute(command, "is a directory" if path.is_dir() else "not executable")
        raise _not_found(command)


class Child:
    """A command that a keeper holds ready, and runs once at most. A context manager.

    The keeper is a process that is started here, so that the child itself starts without delay.

    Args:
        command: the command and its arguments.
        environ: what it inherits. The keeper has no other environment, either.
    """

    def __init__(self, command: tuple[str, ...], environ: Mapping[str, str]) -> None:
        self._command = command
        self._environ = environ
        self._pid = 0
        self._kill_by = 0.0
        self._unread = b""
        self._ended: Ended | None = None
        self._on_terminal = False

    def __enter__(self) -> Self:
        self._socket, theirs = socket.socketpair()
        self._socket.setblocking(False)
        with theirs:
            script = [sys.executable, "-I", "-S", str(Path(keeper.__file__).resolve())]
            # From the main thread, in a process group that no terminal sends its signals to.
            self._keeper = subprocess.Popen(  # noqa: S603 - the arguments are not for a shell
                [*script, str(theirs.fileno()), *self._command],
                env=self._environ,
                pass_fds=[theirs.fileno()],
                process_group=0,
            )
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._socket.close()
        try:
            self._keeper.wait(_KEEPER_ENDS_WITHIN)
        except subprocess.TimeoutExpired:
            self._keeper.kill()
            self._keeper.wait()
        if self._on_terminal:
            _give_terminal_to(os.getpgrp())

    @property
    def is_running(self) -> bool:
        """Whether it was started and has not ended, as far as we know."""
        return self._kill_by > 0.0 and self._ended is None

    @property
    def is_on_terminal(self) -> bool:
        """Whether the terminal's own signals (Ctrl-C) go to it, rather than to us."""
        return self._on_terminal

    def send_signal(self, number: int) -> None:
        """Passes a signal on to it; nothing happens if it has ended."""
        self._tell("signal", number=number)

    async def run(
        self,
        tenancy: Tenancy,
        env: Mapping[str, str],
        patience: Patience,
        *,
        renew_every: float,
        warn: Callable[[str], object],
    ) -> Ended:
        """Runs it until it ends.

        Args:
            tenancy: under what it runs; the keeper is told how long that lasts.
            env: set over what it inherits.
            patience: how it is stopped.
            renew_every: how often the keeper is told, in seconds.
            warn: called with what went wrong on the way.

        Raises:
            CommandError: it could not be started, or its keeper was killed; it does not run.

        Cancellation: stops the child, and waits until it is dead, for as long as `patience` has it.
        """
        self._on_terminal = _has_terminal()
        start = {"env": dict(env), "grace": patience.grace, "terminal": self._on_terminal}
        try:
            self._tell("start", **start, **self._lease(tenancy, patience))
            while self._ended is None:
                with anyio.move_on_after(renew_every):
                    await self._receive(warn)
                    continue
                if tenancy.remaining() > 0.0:
                    self._tell("lease", **self._lease(tenancy, patience))
        finally:
            if self._ended is None:
                await self._stop(warn)
        assert self._ended is not None
        return self._ended

    def _lease(self, tenancy: Tenancy, patience: Patience) -> dict[str, float]:
        # In this order: the time between the two calls is not counted twice.
        now = clock()
        until = now + tenancy.remaining()
        self._kill_by = until + patience.after_lease
        return {"until": until, "kill_by": self._kill_by}

    async def _stop(self, warn: Callable[[str], object]) -> None:
        self._tell("stop")
        warn("not held any more: told the command to end")
        with anyio.move_on_after(max(0.0, self._kill_by - clock()), shield=True):
            while self._ended is None:
                await self._receive(warn)
        if self._ended is None:
            # The keeper should have killed it by now; the lease does not allow to ask why.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._pid, signal.SIGKILL)
            self._keeper.kill()

    async def _receive(self, warn: Callable[[str], object]) -> None:
        """Takes in what the keeper says next."""
        await anyio.wait_readable(self._socket)
        try:
            data = self._socket.recv(65536)
        except BlockingIOError:
            return
        except ConnectionError:
            data = b""
        if not data:
            await self._keeper_lost()
        *lines, self._unread = (self._unread + data).split(b"\n")
        for line in lines:
            try:
                message = _parsing.json_object(line)
            except MalformedError:
                await self._keeper_lost()  # whoever says that is no keeper
            else:
                self._on_message(message, warn)

    def _on_message(self, message: dict[str, Any], warn: Callable[[str], object]) -> None:
        match message:
            case {"started": pid}:
                self._pid = pid
            case {"ended": code, "stopped": stopped}:
                number = max(0, -code)
                self._ended = Ended(exits.by_signal(number) if number else code, number, stopped)
            case {"failed": code, "why": why}:
                self._ended = Ended(exits.CANNOT_EXECUTE, 0, stopped=False)
                if code == 2:
                    raise _not_found(self._command[0])
                raise _cannot_execute(self._command[0], why)
            case {"refused": number}:
                name = signal.Signals(number).name
                warn(f"{name} could not be sent to the command: it belongs to another user")

    async def _keeper_lost(self) -> None:
        """The keeper was killed. So is the child: nobody would stop it in time."""
        self._ended = Ended(exits.by_signal(signal.SIGKILL), signal.SIGKILL, stopped=True)
        with anyio.move_on_after(max(0.0, self._kill_by - clock()), shield=True):
            with suppress(ProcessLookupError, PermissionError):
                while self._pid:
                    os.killpg(self._pid, signal.SIGKILL)
                    await anyio.sleep(0.005)
        raise CommandError("the process that looks after the command was killed", exits.FAILED)

    def _tell(self, do: str, **details: Any) -> None:
        # A keeper that is gone, or does not listen, is noticed where it is listened to.
        with suppress(OSError):
            self._socket.sendall(json.dumps({"do": do, **details}).encode() + b"\n")


def _not_found(command: str) -> CommandError:
    return CommandError(f"{command}: command not found", exits.NOT_FOUND)


def _cannot_execute(command: str, why: str) -> CommandError:
    return CommandError(f"{command}: cannot be executed: {why}", exits.CANNOT_EXECUTE)


def _has_terminal() -> bool:
    """Whether our standard input is a terminal, and its input is for us."""
    try:
        return os.isatty(0) and os.tcgetpgrp(0) == os.getpgrp()
    except OSError:
        return False


def _give_terminal_to(group: int) -> None:
    # Who is not in the foreground would be stopped by doing this.
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTTOU])
    try:
        with suppress(OSError):
            os.tcsetpgrp(0, group)
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTTOU])
