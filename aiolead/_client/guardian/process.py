"""The session guardian's program: waits until its owner has ended, then closes the session.

The client starts this file as a script (so it uses the standard library alone), in a session of its
own, with all signals blocked, and writes to the control socket what to close; see
`docs/explanation/guardian.md`. The end of the owner is what the kernel says, never a guess:

* a pidfd of the owner, readable once its last thread has ended;
* the end of the control socket, and then a file that no process has mapped any more: the owner has
  ended, or has executed another program; or, where neither is to be had,
* the end of the control socket, and then another parent process.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import struct
import sys
import threading
import time

TYPE_CHECKING = False
if TYPE_CHECKING:  # the module takes half a megabyte
    from typing import Any

HEAD_START = 0.2
"""Seconds that a server has before the next one is tried, too."""

FIRST_PAUSE, LONGEST_PAUSE = 0.02, 0.5
"""Seconds between two attempts at one server: doubling, from the first to the longest."""

REFUSED_FOR = 20.0
"""Seconds for which every server must have refused connections before the guardian gives up: no
server runs any more. One that restarts takes less time.
"""

FIRST_LOOK, LONGEST_LOOK = 0.02, 0.5
"""Seconds between two looks for the owner's end, once the control socket has ended: doubling."""

STARTED, GONE = b"+-"
"""In the pipe of child processes: one is about to start; it and all of its own are gone."""

XID_CLOSE, XID_AUTH = 1, -4
CLOSE_SESSION = struct.pack(">iii", 8, XID_CLOSE, -11)
SESSION_MOVED = -118

LONGEST_FRAME = 1 << 20

PR_SET_DUMPABLE = 4


class Guardian:
    """One owner, and its session; `pidfd`, `memory` and `children` are -1 if there are none."""

    def __init__(
        self, control: socket.socket, owner: int, pidfd: int, memory: int, children: int
    ) -> None:
        self._control = control
        self._owner = owner
        self._pidfd = pidfd
        self._memory = memory
        self._children = children
        self._balance = 0
        self._groups: set[int] = set()
        self._said = GONE
        self._number = 0
        self._unread = b""
        self._context: Any = None
        self._loaded: Any = None
        self._refused_since: dict[int, float] = {}
        """Since when nothing has listened at each server, by the id of its description."""
        self.description: dict[str, Any] = {"session": 0}
        self._poller = select.poll()
        for descriptor in (control.fileno(), pidfd, children):
            if descriptor >= 0:
                self._poller.register(descriptor, select.POLLIN)

    def wait_for_end(self) -> None:
        """Return once the owner's program has ended, with all that it had written.

        Returns at once if the client has said that there is nothing to close, and has left.
        """
        is_open, has_ended = True, False
        look = FIRST_LOOK
        while not has_ended:
            wait = None if is_open else look * 1000
            for descriptor, _ in self._poller.poll(wait):
                if descriptor == self._control.fileno():
                    is_open = self._read_control()
                elif descriptor == self._pidfd:
                    has_ended = True
                else:
                    self._read_children()
            if not is_open:
                # The stream also ends if the owner closes its descriptors, and goes on.
                with contextlib.suppress(KeyError):
                    self._poller.unregister(self._control)
                has_ended = has_ended or not self.description["session"] or self._is_gone()
                look = min(2 * look, LONGEST_LOOK)
        self._read_control()

    def _is_gone(self) -> bool:
        """Whether the owner has ended, or has executed another program."""
        if self._memory >= 0:
            import fcntl

            # Refused as long as a process has it mapped. A mapping outlives all descriptors, and
            # ends with the program.
            with contextlib.suppress(OSError):
                fcntl.fcntl(self._memory, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE)
                return True
        return self._pidfd < 0 and os.getppid() != self._owner

    def _read_control(self) -> bool:
        """Take what was written; False at the end of the stream."""
        try:
            while data := self._control.recv(65536, socket.MSG_DONTWAIT):
                *lines, self._unread = (self._unread + data).split(b"\n")
                if lines:
                    self.description = json.loads(lines[-1])
                    hide_memory(is_hidden=self.description.get("hidden", False))
                    self._load_tls()
        except BlockingIOError:
            return True
        except ConnectionError:
            pass
        return False

    def _read_children(self) -> bool:
        """Take what the keepers of child processes have said; False at the end."""
        data = os.read(self._children, 65536)
        for byte in data:
            if byte in (STARTED, GONE):
                self._balance += 1 if byte == STARTED else -1
                self._said, self._number = byte, 0
            elif byte != ord("\n"):
                self._number = 10 * self._number + byte - ord("0")
            elif self._said == STARTED:
                self._groups.add(self._number)
            else:
                self._groups.discard(self._number)
        if not data:
            self._poller.unregister(self._children)
            self._children = -1
        return bool(data)

    def children_are_gone(self, deadline: float) -> bool:
        """Wait for child processes that act for the owner; False if their end is not proven."""
        if self._children >= 0:
            waiting = select.poll()
            waiting.register(self._children, select.POLLIN)
            while (left := deadline - time.monotonic()) > 0:
                if waiting.poll(left * 1000) and not self._read_children():
                    break
        if self._children < 0:
            self._kill_groups()
        return self._children < 0 and self._balance == 0

    def _kill_groups(self) -> None:
        """Kill the process groups of children whose keepers have ended without a report.

        That proves nothing about processes which have left their group, so the session times out.
        """
        for group in self._groups:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(group, signal.SIGKILL)

    # --- TLS -----------------------------------------------------------------------------------

    def _load_tls(self) -> None:
        """Read the TLS files if they have changed; unusable ones leave what there is."""
        tls = self.description.get("tls")
        if tls is None:
            return
        stamp = [tls, [_stamp(tls[name]) for name in ("ca", "cert", "key")]]
        if stamp == self._loaded:
            return
        import ssl  # takes memory, and most do without

        with contextlib.suppress(OSError, ValueError):
            context = ssl.create_default_context(cafile=tls["ca"])
            context.minimum_version = max(context.minimum_version, ssl.TLSVersion.TLSv1_2)
            context.hostname_checks_common_name = False
            context.check_hostname = tls["check_hostname"]
            if tls["cert"] is not None:
                # Without a callback, OpenSSL would ask on the terminal.
                context.load_cert_chain(tls["cert"], tls["key"], lambda: tls["password"] or "")
            self._context, self._loaded = context, stamp

    # --- closing -------------------------------------------------------------------------------

    def close_session(self, deadline: float) -> None:
        """Try all servers until one has closed the session, or says that it is over.

        Gives up at the deadline, or if no server has listened for `REFUSED_FOR`.
        """
        self._load_tls()
        over = threading.Event()
        first, *others = self.description["servers"]
        others.sort(key=lambda _: os.urandom(4))
        for server in (first, *others):
            failed = threading.Event()
            arguments = (server, deadline, over, failed)
            threading.Thread(target=self._keep_trying, args=arguments, daemon=True).start()
            if failed.wait(HEAD_START) and over.is_set():
                return
        over.wait(max(0.0, deadline - time.monotonic()))

    def _keep_trying(
        self, server: list[Any], deadline: float, over: threading.Event, answered: threading.Event
    ) -> None:
        pause = FIRST_PAUSE
        while not over.is_set() and time.monotonic() < deadline:
            if self._attempt(server, deadline) or self._nobody_listens():
                over.set()
            answered.set()
            over.wait(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    def _attempt(self, server: list[Any], deadline: float) -> bool:
        """As `_try`, but False after any failure of the resolver, the network or the server."""
        refused_at = None
        try:
            return self._try(server, deadline)
        except ConnectionRefusedError:
            refused_at = time.monotonic()
        except Exception:  # noqa: S110 - it is tried again
            pass
        if refused_at is None:
            self._refused_since.pop(id(server), None)
        else:
            self._refused_since.setdefault(id(server), refused_at)
        return False

    def _nobody_listens(self) -> bool:
        """Whether every server has refused all connections for `REFUSED_FOR`."""
        since = list(self._refused_since.values())  # a copy: other threads change it
        is_all = len(since) == len(self.description["servers"])
        return is_all and time.monotonic() - max(since) >= REFUSED_FOR

    def _try(self, server: list[Any], deadline: float) -> bool:
        """Whether there is nothing left to do: the session is over, or may not be closed."""
        address, port, certificate_name = server
        told = self.description
        patience = max(0.01, min(deadline - time.monotonic(), told["timeout"] / 3))
        with socket.create_connection((address, port), patience) as plain:
            if told["tls"] is None:
                return self._ask(plain)
            with self._context.wrap_socket(plain, server_hostname=certificate_name) as secure:
                return self._ask(secure)

    def _ask(self, sock: socket.socket) -> bool:
        told = self.description
        # One segment: no server takes the session up without being asked to close it.
        sock.sendall(
            handshake(told["session"], bytes.fromhex(told["password"]))
            + b"".join(map(bytes.fromhex, told["auth"]))
            + CLOSE_SESSION
        )
        _, timeout, session = struct.unpack_from(">iiq", read_frame(sock))
        if timeout <= 0 or session == 0:
            return True  # it has expired, or was closed
        while True:
            xid, _, error = struct.unpack_from(">iqi", read_frame(sock))
            if xid == XID_CLOSE:
                # Any other error is the server's last word, such as that a login is missing.
                return bool(error != SESSION_MOVED)
            if xid == XID_AUTH and error:
                return True


def handshake(session: int, password: bytes) -> bytes:
    """A request to resume a session, framed.

    The zxid 0 lets every server take the session up. The timeout, rounded up by the servers, is the
    shortest that they grant: all that the session gets if this process is killed before it closes.
    """
    size = struct.pack(">i", len(password))
    body = struct.pack(">iqiq", 0, 0, 1, session) + size + password + b"\0"
    return struct.pack(">i", len(body)) + body


def read_frame(sock: socket.socket) -> bytes:
    (length,) = struct.unpack(">i", _read(sock, 4))
    if not 0 <= length <= LONGEST_FRAME:
        raise ValueError("no frame")
    return _read(sock, length)


def _read(sock: socket.socket, length: int) -> bytes:
    data = b""
    while len(data) < length:
        more = sock.recv(length - len(data))
        if not more:
            raise EOFError
        data += more
    return data


def _stamp(path: str | None) -> list[int] | None:
    """Time, size and inode of a file: they show that it was changed or replaced."""
    with contextlib.suppress(OSError, TypeError):
        found = os.stat(path)  # type: ignore[arg-type]  # noqa: PTH116 - no pathlib
        return [found.st_mtime_ns, found.st_size, found.st_ino]
    return None


def never_dump_core() -> None:
    """The memory has the session's password."""
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource  # not on every system

        # 1 rather than 0: on Linux, 0 does not stop dumps that go to a program.
        resource.setrlimit(resource.RLIMIT_CORE, (1, 1))


def hide_memory(*, is_hidden: bool) -> None:
    """Make this process as unreadable to others of its user as its owner is."""
    if is_hidden:
        with contextlib.suppress(ImportError, AttributeError, OSError):
            import ctypes  # takes memory, and most do without

            ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)


NAME = "aiolead-guard"
"""The process's name, by which a later program of its owner's process finds what to reap."""


def set_name() -> None:
    with contextlib.suppress(OSError), open("/proc/self/comm", "w") as name:  # noqa: PTH123
        name.write(NAME)


def main(control: int, owner: int, pidfd: int, memory: int, children: int, hidden: int) -> None:
    set_name()
    never_dump_core()
    hide_memory(is_hidden=bool(hidden))
    with socket.socket(fileno=control) as sock:
        guardian = Guardian(sock, owner, pidfd, memory, children)
        guardian.wait_for_end()
        told = guardian.description
        if told["session"]:
            deadline = time.monotonic() + told["timeout"]
            if guardian.children_are_gone(deadline):
                guardian.close_session(deadline)


if __name__ == "__main__":
    try:
        main(*map(int, sys.argv[1:]))
    finally:
        os._exit(0)  # without waiting for threads
