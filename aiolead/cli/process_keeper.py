"""The process that keeps the child of `aiolead run` and `aiolead lock`.

`aiolead` starts this file as a script (so it uses the standard library alone) before it holds
anything, and sends over a socket when to start the child and until when the lease runs. Even if
`aiolead` is blocked, stopped or killed, the child gets SIGTERM when the lease runs out, and its
process group SIGKILL before any server could hand the lock on. On Linux the child also dies with
its keeper.

After a crash of `aiolead`, its session guardian closes the session only if the keeper has reported
on a pipe that the process group is gone.

Messages are JSON, one per line. To here: `start`, `lease`, `signal`, `stop`; the end of the stream
means that `aiolead` is gone. From here: `started`, `refused`, and last `failed` or `ended`.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from math import inf
from typing import Any

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36

GONE_WITHIN = 1.0
"""How long to wait for the rest of a killed process group, in seconds."""

LONGEST_SLEEP = 0.25
"""Longest sleep while a lease runs, in seconds: in suspend sleeping stops, the lease does not."""

STARTS, GONE = b"+", b"-"
"""In the guardian's pipe: the child is about to start; it and its process group are gone."""

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
        self._child: subprocess.Popen[bytes] | None = None
        self._terminal = False
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
                if ready == self._wake:
                    os.read(ready, 4096)
                elif not self._read():
                    poller.unregister(self._connection)
            self._look_after_child()

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
        self, env: dict[str, str], until: float, kill_by: float, grace: float, terminal: bool
    ) -> None:
        self._grace, self._terminal = grace, terminal
        self._on_lease(until, kill_by)
        try:
            self._report(STARTS)
        except BlockingIOError:
            # It could close the session while the command runs.
            self._tell(failed=0, why="the session guardian is stopped, and its pipe is full")
            self._over = True
            return
        try:
            # A process group of its own. `preexec_fn` is safe: there are no threads here.
            self._child = subprocess.Popen(  # noqa: S603 - to run it is what we are for
                self._command,
                env={**os.environ, **env},
                process_group=0,
                preexec_fn=self._before_exec,
            )
        except (OSError, subprocess.SubprocessError) as error:
            self._report_gone()
            number, text = getattr(error, "errno", 0), getattr(error, "strerror", "")
            self._tell(failed=number or 0, why=text or str(error))
            self._over = True
        else:
            self._tell(started=self._child.pid)

    def _before_exec(self) -> None:
        """Runs in the child, between fork and exec."""
        if self._prctl is not None:
            self._prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != self._pid:
                os._exit(1)  # the keeper had died before this took effect
        if self._terminal:
            # This would stop a process in the background.
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTTOU])
            os.tcsetpgrp(0, os.getpid())
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTTOU])

    def _on_lease(self, until: float, kill_by: float) -> None:
        if not self._stopping:
            self._until, self._kill_by = until, kill_by

    def _on_signal(self, number: int) -> None:
        self._send(number)

    def _on_stop(self) -> None:
        """Begin to stop the child: send SIGTERM, and set when it will be killed."""
        if self._child is None:
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
        if child is None or self._over:
            return
        self._reap_adopted(child.pid)
        seen = os.waitid(os.P_PID, child.pid, os.WEXITED | os.WSTOPPED | os.WNOHANG | os.WNOWAIT)
        if seen is not None and seen.si_code == os.CLD_STOPPED:
            os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WNOHANG)
            if self._terminal and seen.si_status == signal.SIGTSTP:
                # Ctrl-Z. The shell waits for `aiolead`, and would never notice.
                self._send(signal.SIGCONT, group=True)
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

    def _bury(self, child: subprocess.Popen[bytes]) -> None:
        """The child has ended: kill the rest of its process group, and report."""
        # Until it is reaped, no other process group can get its number.
        self._send(signal.SIGKILL, group=True)
        code = child.wait()
        deadline = clock() + GONE_WITHIN
        try:
            while clock() < deadline:
                if self._stopping:
                    self._kill_adopted()
                if os.waitpid(-1 if self._stopping else -child.pid, os.WNOHANG) == (0, 0):
                    time.sleep(0.002)
        except ChildProcessError:
            # Without this proof, which a process of another user can prevent, nothing is reported.
            try:
                os.killpg(child.pid, 0)
            except ProcessLookupError:
                self._report_gone()
            except PermissionError:
                pass
        self._tell(ended=code, stopped=self._stopping)
        self._over = True

    def _report(self, what: bytes) -> None:
        # A guardian that has ended closes nothing.
        with contextlib.suppress(BrokenPipeError):
            if self._guardian >= 0:
                os.write(self._guardian, what)

    def _report_gone(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._report(GONE)

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
        if self._child is None:
            return
        try:
            (os.killpg if group else os.kill)(self._child.pid, number)
        except ProcessLookupError:
            pass
        except PermissionError:
            # It has changed its user, or (on macOS) the group consists of zombies.
            self._tell(refused=number)


def main(descriptor: int, command: list[str], report: int = -1) -> None:
    wake, woken = os.pipe()
    for end in (wake, woken):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
    # An empty handler rather than SIG_IGN: the child starts with the defaults. A signal that was
    # ignored before stays so.
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        if number == signal.SIGCHLD or signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda _number, _frame: None)
    with socket.socket(fileno=descriptor) as connection:
        connection.set_inheritable(False)
        if report >= 0:
            os.set_inheritable(report, False)
        ProcessKeeper(connection, wake, command, report).run()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[3:], int(sys.argv[2]))
