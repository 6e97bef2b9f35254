"""Processes of the command that are ready at once: forks of one that has imported everything.

Each fork has its own signals, descriptors and exit code. Without forks, each process would spend
half a second on imports, which is most of the time of a test.

This file is also the program that forks: `python ready.py SOCKET`. It reads requests from the
socket; each comes with the new process's standard streams and with one end of a socket on which a
handle of the process (which no other process can get) comes back, and when it has ended, its exit
code. A process between the two waits for it, so that nobody else has to.
"""

from __future__ import annotations

import atexit
import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import termios
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import IO, Any


class ReadyProcess:
    """`python -m aiolead`, as a `subprocess.Popen` would have started it, as far as that is needed.

    Args:
        arguments: the command line.
        env: the environment, as the process has it in `os.environ`.
        terminal: the terminal that it is to be on; without one, its output goes into pipes.
    """

    def __init__(
        self, arguments: Sequence[str], env: dict[str, str], terminal: int | None = None
    ) -> None:
        self.args = ["aiolead", *arguments]
        self.returncode: int | None = None
        self.stdout: IO[str] | None = None
        self.stderr: IO[str] | None = None
        if terminal is not None:
            streams = [os.dup(terminal), os.dup(terminal), os.dup(terminal)]
        else:
            (out, their_out), (err, their_err) = os.pipe(), os.pipe()
            self.stdout, self.stderr = os.fdopen(out), os.fdopen(err)
            streams = [os.open(os.devnull, os.O_RDONLY), their_out, their_err]
        what = {"arguments": list(arguments), "env": env, "terminal": terminal is not None}
        request = json.dumps(what).encode()
        self._status, theirs = socket.socketpair()
        with theirs:
            size = len(request).to_bytes(4)
            socket.send_fds(_forker(), [size + request], [*streams, theirs.fileno()])
        for stream in streams:
            os.close(stream)
        pid, (self._handle,), _, _ = socket.recv_fds(self._status, 64, 1)
        self.pid = int(pid)

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._handle, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def wait(self, timeout: float) -> int:
        """The exit code, or minus the signal that it died of."""
        if self.returncode is None:
            self._status.settimeout(timeout)
            try:
                self.returncode = int(self._status.recv(64))
            except TimeoutError:
                raise subprocess.TimeoutExpired(self.args, timeout) from None
            os.close(self._handle)
            self._status.close()
        return self.returncode


@cache
def _forker() -> socket.socket:
    """The socket of the process that forks, which starts at the first call."""
    ours, theirs = socket.socketpair()
    source = Path(__file__).parent.parent.parent
    env = {name: value for name, value in os.environ.items() if not name.startswith("AIOLEAD_")}
    with theirs:
        process = subprocess.Popen(
            [sys.executable, __file__, str(theirs.fileno())],
            env={**env, "PYTHONPATH": str(source)},
            stdin=subprocess.DEVNULL,
            # Python takes note of what can be sought in: these cannot, as the pipes later on.
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=[theirs.fileno()],
        )

    def end() -> None:
        ours.close()
        process.communicate(timeout=10)

    atexit.register(end)
    return ours


# --- the program ---------------------------------------------------------------------------------


def _serve(requests: socket.socket) -> list[str]:
    """Forks at every request; gives the command line, in the new process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        size, given, _, _ = socket.recv_fds(requests, 4, 4)
        if not size:
            os._exit(0)
        request = b""
        while len(request) < int.from_bytes(size):
            request += requests.recv(65536)
        if os.fork() == 0:
            requests.close()
            return _begin(json.loads(request), *given)
        for each in given:
            os.close(each)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def _begin(request: dict[str, Any], stdin: int, out: int, err: int, status: int) -> list[str]:
    """Forks once more, in the process between, and reports the exit code of the new process."""
    pid = os.fork()
    if pid:
        for stream in (stdin, out, err):
            os.close(stream)
        with socket.socket(fileno=status) as link:
            socket.send_fds(link, [str(pid).encode()], [os.pidfd_open(pid)])
            # The test may have ended.
            with suppress(OSError):
                link.sendall(str(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])).encode())
        os._exit(0)
    for number, stream in enumerate((stdin, out, err)):
        os.dup2(stream, number)
        os.close(stream)
    os.close(status)
    if request["terminal"]:
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    else:
        os.setpgid(0, 0)  # a signal to its own group is not one to the tests
    # As at the start of Python, with nothing ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    os.environ.clear()
    os.environ.update(request["env"])
    arguments: list[str] = request["arguments"]
    return arguments


if __name__ == "__main__":
    import anyio._backends._asyncio
    import anyio._backends._trio  # noqa: F401

    import aiolead.cli
    import aiolead.cli.app

    arguments = _serve(socket.socket(fileno=int(sys.argv[1])))
    sys.argv = ["aiolead", *arguments]
    sys.exit(aiolead.cli.main())
