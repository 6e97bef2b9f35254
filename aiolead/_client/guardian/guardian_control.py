"""The client's side of a session guardian: starts it, keeps it up to date, ends it.

The program is `guardian_process.py`. All that it knows is one description, which `describe`
returns; after any change, the whole description is sent again. Writing never blocks: a guardian
that cannot be notified is ended, and the client goes on without.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from typing import Any, final

import anyio

from ..._logging import get_logger
from ..loop_affinity import kept_from_children
from .close_on_crash import SessionGuardian

logger = get_logger("aiolead.client")

ENVIRONMENT = (
    *("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SSL_CERT_FILE", "SSL_CERT_DIR", "OPENSSL_CONF"),
    *("RES_OPTIONS", "LOCALDOMAIN", "HOSTALIASES"),
)
"""The variables that the guardian inherits: where libraries, authorities and names are."""

ENDS_WITHIN = 0.5
"""How long the end of a killed guardian may take, in seconds."""


@final
class GuardianControl:
    """Starts a guardian of this process, keeps it up to date, and ends it.

    `describe` returns what it has to know; see `docs/explanation/guardian.md`.
    """

    def __init__(
        self, settings: SessionGuardian, describe: Callable[[], Mapping[str, Any]]
    ) -> None:
        self._settings = settings
        self._describe = describe
        self._owner = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._told = b""
        self._open = ExitStack()
        self._socket: socket.socket

    def start(self) -> None:
        """Start it, without waiting for it to run; failures are logged."""
        self._owner = os.getpid()
        if self._owner == 1:
            logger.warning(
                "close_on_crash has no effect in process 1 of a container: the guardian ends with "
                "it. Start an init process, such as tini, as process 1"
            )
        try:
            with ExitStack() as stack:
                ours, theirs = map(stack.enter_context, socket.socketpair())
                pidfd = _own_pidfd()
                if pidfd >= 0:
                    stack.callback(os.close, pidfd)
                self._process = spawn(theirs.fileno(), pidfd, self._settings.children)
                self._socket = ours.dup()
        except (OSError, subprocess.SubprocessError) as error:
            logger.warning("the session guardian could not be started: %s", error)
            return
        self._open.enter_context(self._socket)
        self._socket.setblocking(False)
        self._open.enter_context(kept_from_children(self._socket))

    def notify(self) -> None:
        """Send the description if it has changed."""
        if self._process is None or self._owner != os.getpid():
            return
        import json  # most clients have no guardian

        line = json.dumps(self._describe()).encode() + b"\n"
        if line == self._told:
            return
        self._told = line
        try:
            if self._socket.send(line) == len(line):
                return
            why = "it does not read"
        except BlockingIOError:
            why = "it does not read"
        except OSError:
            why = "it was ended"
        self._give_up(why)

    async def watch(self) -> None:
        """Report a guardian that ends before the client."""
        if self._process is not None:
            await anyio.wait_readable(self._socket)
            self._give_up("it was ended")

    def end(self) -> None:
        """End it, whatever it does. In a forked child, nothing: it belongs to the parent."""
        process, self._process = self._process, None
        if process is None or self._owner != os.getpid():
            return
        process.kill()
        with suppress(subprocess.TimeoutExpired):
            process.wait(ENDS_WITHIN)

    def close(self) -> None:
        """Give up the socket, after the client's tasks have ended."""
        self.end()
        self._open.close()

    def _give_up(self, why: str) -> None:
        if self._process is not None:
            self.end()
            logger.warning(
                "there is no session guardian any more (%s): after a crash of this process, its "
                "session will time out",
                why,
            )


def _own_pidfd() -> int:
    """A pidfd of this process; -1 where there are none."""
    with suppress(AttributeError, OSError):
        return os.pidfd_open(os.getpid())
    return -1


def spawn(control: int, pidfd: int, children: int | None) -> subprocess.Popen[bytes]:
    """Start the program, with these descriptors; `pidfd` is -1 where there are none."""
    passed = [each for each in (control, pidfd, children) if each is not None and each >= 0]
    from pathlib import Path

    program = Path(__file__).resolve().with_name("guardian_process.py")
    numbers = (control, os.getpid(), pidfd, -1 if children is None else children)
    # Inherited over the start of a program, as handlers are not: no signal ends it, or stops it.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        return subprocess.Popen(  # noqa: S603 - no shell, and nothing of anybody else's
            [sys.executable, "-I", "-S", str(program), *map(str, numbers)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={name: os.environ[name] for name in ENVIRONMENT if name in os.environ},
            pass_fds=passed,
            start_new_session=True,
        )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
