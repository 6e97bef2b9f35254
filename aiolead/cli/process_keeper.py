"""The process that keeps the child of `aiolead run` and `aiolead lock`.

`aiolead` starts this file as a script (so it uses the standard library alone) before it holds
anything, and sends over a socket when to start the child and until when the lease runs. Even if
`aiolead` is blocked, stopped or killed, the child gets SIGTERM when the lease runs out, and its
process group SIGKILL before any server could hand the lock on. On Linux the child also dies with
its keeper.

After a crash of `aiolead`, its session guardian closes the session only if the keeper has reported
on a pipe that the process group is gone.

While the child has the terminal, the keeper is in its process group, and so gets what the terminal
sends to it.

Messages are JSON, one per line. To here: `start`, `lease`, `signal`, `terminal`, `stop`; the end of
the stream means that `aiolead` is gone. From here: `started`, `refused`, `stopped` (the child was,
by job control), `typed` (a signal of the terminal), and last `failed` or `ended`.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from errno import ENOEXEC
from math import inf
from typing import Any

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36

GONE_WITHIN = 1.0
"""How long to wait for the rest of a killed process group, in seconds."""

LONGEST_SLEEP = 0.25
"""Longest sleep while a lease runs, in seconds: in suspend sleeping stops, the lease does not."""

STARTS, GONE = b"+%d\n", b"-%d\n"
"""In the guardian's pipe: a process group is about to start; it is gone."""

FAULTS = {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT}
CATCHABLE = signal.valid_signals() - FAULTS - {signal.SIGKILL, signal.SIGSTOP}
IGNORED_BY_PYTHON = {signal.SIGPIPE, signal.SIGXFSZ}

ENDING = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT}
"""Signals that are followed by SIGCONT, since a stopped child could not obey."""
TYPED = {signal.SIGINT, signal.SIGQUIT, signal.SIGHUP}
"""Signals of a terminal that end the processes in its foreground."""
JOB_CONTROL = {signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU}
"""Signals that stop a child until `aiolead` continues it."""

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def clock() -> float:
    """Seconds, the same for all processes; includes suspend where the system can count it."""
    return time.clock_gettime(_CLOCK)


class ProcessKeeper:
    """Runs the command as a child, and stops it in time; signals write to the pipe `wake`.

    `report` is the pipe to the session guardian; -1 if there is none.
    """

    def __init__(
        self, connection: socket.socket, wake: int, command: list[str], report: int = -1
    ) -> None:
        self._connection = connection
        self._wake = wake
        self._guardian = report
        self._command = command
        self._pid = os.getpid()
        self._unread = b""
        self._orphaned = False
        self._over = False
        self._owner = os.getppid()
        self._child = 0
        self._has_joined = False
        self._grace = 0.0
        self._until = inf
        self._kill_by = inf
        self._kill_at = inf
        self._stopping = False
        # Prepared here, since little is allowed between fork and exec.
        self._prctl: Callable[..., int] | None = None
        if sys.platform == "linux":
            self._prctl = ctypes.CDLL(None).prctl
            # Orphans of the child become ours, so that their end can be waited for.
            self._prctl(PR_SET_CHILD_SUBREAPER, 1)

    def run(self) -> None:
        """Run until the child is gone, or `aiolead` is gone and there is no child."""
        poller = select.poll()
        poller.register(self._connection, select.POLLIN)
        poller.register(self._wake, select.POLLIN)
        while not self._over:
            for ready, _ in poller.poll(self._patience()):
                if ready != self._wake and not self._read():
                    poller.unregister(self._connection)
            self._report_typed()
            self._look_after_child()

    def _report_typed(self) -> None:
        numbers: set[int] = set()
        with contextlib.suppress(BlockingIOError):
            while True:
                numbers |= {*os.read(self._wake, 4096)}
        for number in numbers & TYPED if self._has_joined else ():
            self._tell(typed=number)

    def _patience(self) -> int | None:
        due = self._kill_at if self._stopping else self._until
        return None if due == inf else max(0, int(min(due - clock(), LONGEST_SLEEP) * 1000) + 1)

    # --- messages ------------------------------------------------------------------------------

    def _read(self) -> bool:
        """Process messages; False at the end of the stream."""
        try:
            data = self._connection.recv(65536)
        except ConnectionError:
            data = b""
        *lines, self._unread = (self._unread + data).split(b"\n")
        for line in lines:
            message = json.loads(line)
            getattr(self, "_on_" + message.pop("do"))(**message)
        if not data:
            self._orphaned = True
            self._on_stop()
        return bool(data)

    def _tell(self, **message: Any) -> None:
        with contextlib.suppress(OSError):
            self._connection.sendall(json.dumps(message).encode() + b"\n")

    def _on_start(
        self, program: str, env: dict[str, str], until: float, kill_by: float, grace: float
    ) -> None:
        self._grace = grace
        self._on_lease(until, kill_by)
        source, sink = os.pipe()
        # A signal between fork and exec is for the child, not for the handlers of this process.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, CATCHABLE)
        child = os.fork()
        if child == 0:
            self._become_child(program, env, sink, before)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        os.close(sink)
        with open(source, "rb") as file:  # noqa: PTH123 - no pathlib
            failure = file.read()
        if failure:
            os.waitpid(child, 0)
            self._report_gone(child)
            self._tell(**json.loads(failure))
            self._over = True
        else:
            self._child = child
            self._tell(started=child)

    def _become_child(
        self, program: str, env: dict[str, str], sink: int, mask: Iterable[int]
    ) -> None:
        """Become the child, after fork; or write to `sink` why not, and exit."""
        try:
            os.setpgid(0, 0)
            if self._prctl is not None:
                self._prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
                if os.getppid() != self._pid:
                    os._exit(1)  # the keeper had died before this took effect
            environ = {**os.environ, **env}
            if environ.get("LISTEN_PID") == str(self._owner):
                # The sockets that systemd passes are for one process alone.
                environ["LISTEN_PID"] = str(os.getpid())
            self._report(STARTS % os.getpid())
            for number in CATCHABLE:
                if number in IGNORED_BY_PYTHON or signal.getsignal(number) is not signal.SIG_IGN:
                    signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            try:
                os.execve(program, self._command, environ)  # noqa: S606 - no shell is wanted
            except OSError as error:
                if error.errno != ENOEXEC:
                    raise
                # A script that does not say what runs it, as execvp(3) does.
                script = ["/bin/sh", program, *self._command[1:]]
                os.execve(script[0], script, environ)  # noqa: S606
        except BlockingIOError:
            # It could close the session while the command runs.
            why = {"failed": 0, "why": "the session guardian is stopped, and its pipe is full"}
        except (OSError, ValueError) as error:
            code, text = getattr(error, "errno", 0), getattr(error, "strerror", "")
            why = {"failed": code or 0, "why": text or str(error)}
        os.write(sink, json.dumps(why).encode())
        os._exit(1)

    def _on_lease(self, until: float, kill_by: float) -> None:
        if not self._stopping:
            self._until, self._kill_by = until, kill_by

    def _on_signal(self, number: int, *, group: bool) -> None:
        self._send(number, group=group)
        if number in ENDING:
            self._send(signal.SIGCONT, group=group)

    def _on_terminal(self) -> None:
        """Give the terminal to the child's process group, join that, and continue the child."""
        with contextlib.suppress(OSError):  # the group or the terminal is gone
            os.setpgid(0, self._child)
            self._has_joined = True
            terminal = os.open("/dev/tty", os.O_RDWR | os.O_CLOEXEC)
            # Otherwise this would stop a process in the background.
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTTOU])
            try:
                os.tcsetpgrp(terminal, self._child)
            finally:
                signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTTOU])
                os.close(terminal)
        self._send(signal.SIGCONT, group=True)

    def _on_stop(self) -> None:
        """Begin to stop the child: send SIGTERM, and set when it will be killed."""
        if not self._child:
            self._over = self._orphaned
        elif not self._stopping:
            self._stopping = True
            now = clock()
            self._kill_at = max(now, min(now + self._grace, self._kill_by))
            self._send(signal.SIGTERM)
            self._send(signal.SIGCONT)  # a stopped child could not obey

    # --- the child -----------------------------------------------------------------------------

    def _look_after_child(self) -> None:
        child = self._child
        if not child or self._over:
            return
        self._reap_adopted(child)
        seen = os.waitid(os.P_PID, child, os.WEXITED | os.WSTOPPED | os.WNOHANG | os.WNOWAIT)
        if seen is not None and seen.si_code == os.CLD_STOPPED:
            os.waitid(os.P_PID, child, os.WSTOPPED | os.WNOHANG)
            if seen.si_status in JOB_CONTROL:
                self._tell(stopped=seen.si_status)
        elif seen is not None:
            self._bury(child)
            return
        now = clock()
        if not self._stopping and now >= self._until:
            self._on_stop()
        if self._stopping and now >= self._kill_at:
            self._kill_at = inf
            self._send(signal.SIGKILL, group=True)

    def _reap_adopted(self, child: int) -> None:
        """Reap orphans of the child, but not the child itself."""
        with contextlib.suppress(ChildProcessError):
            while True:
                seen = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
                if seen is None or seen.si_pid == child:
                    return
                os.waitpid(seen.si_pid, 0)

    def _bury(self, child: int) -> None:
        """The child has ended: kill the rest of its process group, and report."""
        # Its end may be due to a signal of the terminal, which this process has got by now, too.
        self._report_typed()
        # Until it is reaped, no other process group can get its number.
        self._send(signal.SIGKILL, group=True)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        deadline = clock() + GONE_WITHIN
        try:
            while clock() < deadline:
                if self._stopping:
                    self._kill_adopted()
                if os.waitpid(-1 if self._stopping else -child, os.WNOHANG) == (0, 0):
                    time.sleep(0.002)
        except ChildProcessError:
            # Without this proof, which a process of another user can prevent, nothing is reported.
            try:
                os.killpg(child, 0)
            except ProcessLookupError:
                self._report_gone(child)
            except PermissionError:
                pass
        self._tell(ended=code, stopped=self._stopping)
        self._over = True

    def _report(self, what: bytes) -> None:
        # A guardian that has ended closes nothing.
        with contextlib.suppress(BrokenPipeError):
            if self._guardian >= 0:
                os.write(self._guardian, what)

    def _report_gone(self, group: int) -> None:
        with contextlib.suppress(BlockingIOError):
            self._report(GONE % group)

    def _kill_adopted(self) -> None:
        """Kill what has left the process group, such as the child of an `aiolead` in our child.

        A daemon survives the child's own end, but not the lease's. Orphans have become ours; where
        the system does not list them, they are out of reach.
        """
        try:
            with open(f"/proc/self/task/{self._pid}/children") as file:  # noqa: PTH123 - no pathlib
                adopted = [int(pid) for pid in file.read().split()]
        except OSError:
            return
        for pid in adopted:
            # Not reaped yet, so the number is its own; it may have changed its user.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)

    def _send(self, number: int, *, group: bool = False) -> None:
        """Signal the child, which is not reaped yet, or its process group."""
        if not self._child:
            return
        try:
            if group:
                with self._outside(for_good=number == signal.SIGKILL):
                    os.killpg(self._child, number)
            else:
                os.kill(self._child, number)
        except ProcessLookupError:
            pass
        except PermissionError:
            # It has changed its user, or (on macOS) the group consists of zombies.
            self._tell(refused=number)

    @contextlib.contextmanager
    def _outside(self, *, for_good: bool) -> Iterator[None]:
        """Leave the child's process group, if this process has joined it."""
        joins_again = self._has_joined and not for_good
        if self._has_joined:
            os.setpgid(0, 0)
            self._has_joined = False
        try:
            yield
        finally:
            if joins_again:
                with contextlib.suppress(OSError):  # the group is gone
                    os.setpgid(0, self._child)
                    self._has_joined = True


def main(descriptor: int, command: list[str], report: int = -1) -> None:
    wake, woken = os.pipe()
    for end in (wake, woken):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
    # An empty handler rather than SIG_IGN, which the child would inherit. A signal that was ignored
    # before stays so.
    for number in CATCHABLE:
        if number == signal.SIGCHLD or signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda _number, _frame: None)
    with socket.socket(fileno=descriptor) as connection:
        connection.set_inheritable(False)
        if report >= 0:
            os.set_inheritable(report, False)
        ProcessKeeper(connection, wake, command, report).run()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[3:], int(sys.argv[2]))
