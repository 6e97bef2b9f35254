"""Child processes on loopback that cannot outlive us: ports, logs, signals. No event loop."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

from ..errors import TransportError, UsageError

__all__ = ["ChildProcess", "LaunchError", "free_ports", "wait_until"]

LOOPBACK = "127.0.0.1"

_POLL = 0.02
"""How often `wait_until` looks, in seconds."""

_RESERVATIONS = 128
"""How many ports a process reserves at a time, each with a file descriptor: those given last."""

_given: deque[int] = deque(maxlen=4096)
_reservations: deque[int] = deque()
_giving = threading.Lock()
"""For the ports that this process was given last."""


class LaunchError(TransportError):
    """A server did not start, or did not carry out a command in time. Shows the log's tail."""


def free_ports(count: int) -> list[int]:
    """Ports of the loopback interface that nobody listens on.

    They lie below the range from which systems choose the ports of outgoing connections, so that
    none is taken while its server is down for a restart. None is given out again for long, nor by
    another process for a while: its user may listen on it only later, as the servers of an ensemble
    do once all have their ports.
    """
    chosen: list[int] = []
    source = random.SystemRandom()
    with _giving:
        while len(chosen) < count:
            port = source.randrange(12_000, 30_000)
            if port in _given or not _reserve(port):
                continue
            _given.append(port)
            chosen.append(port)
    return chosen


def _reserve(port: int) -> bool:
    """Keeps other processes from taking a port; False if one has it, or listens on it."""
    with (
        # The UDP port stands for the TCP port: none of the servers uses it.
        socket.socket(type=socket.SOCK_DGRAM) as reservation,
        socket.socket() as probe,
    ):
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            reservation.bind((LOOPBACK, port))
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
        _reservations.append(reservation.detach())
    if len(_reservations) > _RESERVATIONS:
        os.close(_reservations.popleft())
    return True


def wait_until(condition: Callable[[], bool], timeout: float) -> bool:
    """Polls a condition; whether it came true within `timeout` seconds (monotonic clock)."""
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(_POLL)
    return True


class ChildProcess:
    """A running program; its output goes to a file.

    A guard, a shell that waits on a pipe from us, kills the program when we are gone, however we
    went: the kernel closes the pipe also after a SIGKILL. (Linux' parent-death signal would not
    do: it fires when the *thread* that started the program ends.)

    Args:
        command: the program and its arguments.
        log: the file that its output is appended to.
    """

    def __init__(self, command: Sequence[str], log: Path) -> None:
        # A session of its own, so that a terminal's Ctrl-C reaches only the test run: the program
        # must live until that has cleaned up.
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._guard = subprocess.Popen(
            ["/bin/sh", "-c", 'read -r _; kill -9 "$1"', "guard", str(self.pid)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._owner = os.getpid()

    def is_inherited(self) -> bool:
        """Whether this process was forked from the one that has started the program."""
        return os.getpid() != self._owner

    def check_owner(self) -> None:
        """Raises `UsageError` in a forked child, where the system knows no such child."""
        if self.is_inherited():
            raise UsageError(
                f"the server belongs to process {self._owner}, of which this one, {os.getpid()}, "
                "was forked: use it there, or start another one in this process"
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def exit_status(self) -> int | None:
        """None while it runs; as in `subprocess.Popen.returncode` afterwards."""
        return self._process.poll()

    def pause(self) -> None:
        """Stops it where it stands (SIGSTOP); returns when it has stopped."""
        self._process.send_signal(signal.SIGSTOP)
        # SIGSTOP can be neither caught nor delayed, so this returns at once. WNOWAIT leaves an
        # exit for `exit_status` to find.
        os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def resume(self) -> None:
        """Lets it go on (SIGCONT)."""
        self._process.send_signal(signal.SIGCONT)

    def terminate(self, timeout: float) -> None:
        """Asks it to end (SIGTERM), kills it if it has not within `timeout` seconds."""
        self._process.terminate()
        self.resume()
        try:
            self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self.reap()

    def kill(self) -> None:
        """Ends it (SIGKILL); returns when it is gone."""
        self._process.kill()
        self.reap()

    def signal_kill(self) -> None:
        """Sends SIGKILL and returns at once; `reap` is to follow."""
        self._process.kill()

    def reap(self) -> None:
        """Waits for the end of a process that was killed, and dismisses the guard."""
        # The guard goes first: it names a pid, which is ours only until the process is reaped.
        self._guard.kill()
        self._guard.wait()
        if self._guard.stdin is not None:
            self._guard.stdin.close()
        self._process.wait()
