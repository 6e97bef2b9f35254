"""The client's side of a session guardian: settings, starting it, keeping it up to date, ending it.

The program is `process.py`. All that it knows is one description, which `describe`
returns; after any change, the whole description is sent again. Writing never blocks: a guardian
that cannot be notified is ended, and the client goes on without.
"""

from __future__ import annotations

import os
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import anyio

from ..._util.escaping import get_logger
from ...errors import ConfigurationError
from ..core import Core
from ..net.fork_safety import kept_from_children
from ..net.opener import Opener
from ..net.supervisor import Supervisor
from ..net.tls import TLS

if TYPE_CHECKING:
    import mmap


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SessionGuardian:
    """A process that closes the session after a crash of this one: `connect(close_on_crash=...)`.

    `True` has the same effect as `SessionGuardian()`; this class is for programs whose child
    processes act under their locks.

    Args:
        children: the read end of a pipe, by which child processes delay the closing. Each inherits
            the write end, writes `+` before it acts under a lock of this process, and `-` after it
            and all that it has started have stopped. After a crash, the session is closed only once
            all write ends are closed, and only if there was a `-` for each `+`. If both are
            followed by the number of a process group and a newline, the guardian kills that group
            if there was no `-` by then.

    Raises:
        ConfigurationError: `children` is no file descriptor.
    """

    children: int | None = None

    def __post_init__(self) -> None:
        if self.children is not None and (type(self.children) is not int or self.children < 0):
            raise ConfigurationError(f"children: must be a descriptor, not {self.children!r}")


def checked_close_on_crash(value: object, **obstacles: bool) -> SessionGuardian | None:
    """`obstacles` are arguments of `connect`, with whether they are what a guardian cannot use."""
    if value is None or value is False:
        return None
    if value is True:
        value = SessionGuardian()
    if not isinstance(value, SessionGuardian):
        raise ConfigurationError(
            f"close_on_crash: must be None, a bool or a SessionGuardian, not {value!r}"
        )
    for name, is_given in obstacles.items():
        if is_given:
            raise ConfigurationError(f"close_on_crash: {CANNOT[name]}")
    if not hasattr(signal, "pthread_sigmask") or not hasattr(os, "getppid"):
        raise ConfigurationError("close_on_crash: this operating system is not supported")
    if not sys.executable or getattr(sys, "frozen", False):
        raise ConfigurationError("close_on_crash: there is no Python interpreter to start it with")
    return value


CANNOT = {
    "tls": "another process cannot use an ssl.SSLContext; pass tls=aiolead.TLS(...)",
    "sasl": "the guardian cannot log in by SASL, which sasl= asks for",
    "dial": "the guardian cannot use hooks.dial: it connects by TCP",
}


def describe(
    core: Core, supervisor: Supervisor, opener: Opener, tls: TLS | ssl.SSLContext | None
) -> dict[str, Any]:
    """Describe the session to the guardian, as the control socket has it. Some of it is secret.

    The client writes one line of JSON at `CONNECTED`, before any request of the session leaves;
    when the list of servers changes; at `add_auth`; and in `detach()`. Each line replaces the one
    before.

    | field | meaning |
    |---|---|
    | `hidden` | whether other processes of the user may not read the owner's memory |
    | `session`, `password` | the session; `session` is 0 if there is nothing to close |
    | `timeout` | the session timeout in seconds, which bounds everything after the end |
    | `servers` | the present server first, with its address; then all others of the list |
    | `auth` | credentials to present before closing, as packets |
    | `tls` | the PEM files, the key's password, whether names are checked; null without TLS |
    """
    machine = core.machine
    credentials = machine.credentials
    if (
        credentials is None
        or machine.is_resuming  # it belongs to another process until a server has resumed it
        or not machine.is_own
        or credentials.session_id == core.detached
    ):
        return dict(_NOTHING)
    return {
        "hidden": _is_hidden(),
        "session": credentials.session_id,
        "password": credentials.password.hex(),
        "timeout": credentials.timeout,
        "servers": [
            [address, port, opener.certificate_name(host)]
            for address, (host, port) in supervisor.servers()
        ],
        "auth": [packet.hex() for packet in machine.login.packets],
        "tls": _describe_tls(tls) if isinstance(tls, TLS) else None,
    }


_NOTHING = {"session": 0}
"""The description of a client that has nothing to close."""


def _describe_tls(tls: TLS) -> dict[str, Any]:
    def absolute(name: str) -> str | None:
        path = getattr(tls, name)
        return None if path is None else os.path.abspath(os.fspath(path))  # noqa: PTH100 - no pathlib

    return {
        **{name: absolute(name) for name in ("ca", "cert", "key")},
        "password": tls.password,
        "check_hostname": tls.check_hostname,
    }


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
    """Starts a guardian of this process, keeps it up to date, and ends it: a `Companion`.

    `describe` returns what the guardian has to know.
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
        self._memory: mmap.mmap | None = None

    def start(self) -> None:
        """Start it, without waiting for it to run; failures are logged."""
        self._owner = os.getpid()
        _reap_those_before()
        if self._owner == 1:
            logger.warning(
                "close_on_crash has no effect in process 1 of a container: the guardian ends with "
                "it. Start an init process, such as tini, as process 1"
            )
        try:
            with ExitStack() as stack:
                ours, theirs = map(stack.enter_context, socket.socketpair())
                pidfd = _own_pidfd()
                memory, self._memory = _own_memory()
                for descriptor in (pidfd, memory):
                    if descriptor >= 0:
                        stack.callback(os.close, descriptor)
                self._process = spawn(theirs.fileno(), pidfd, self._settings.children, memory)
                self._socket = ours.dup()
        except (OSError, subprocess.SubprocessError) as error:
            logger.warning("the session guardian could not be started: %s", error)
            return
        self._open.enter_context(self._socket)
        self._socket.setblocking(False)
        self._open.enter_context(kept_from_children(self._socket))

    def on_session_changed(self) -> None:
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
        try:
            process.kill()
        except PermissionError:  # this process has dropped its privileges
            self._dismiss()
        with suppress(subprocess.TimeoutExpired):
            process.wait(ENDS_WITHIN)

    def _dismiss(self) -> None:
        """Have it end by itself: there is nothing to close, and nothing more will be sent."""
        import json

        with suppress(OSError):  # it is gone, or does not read
            self._socket.send(json.dumps(_NOTHING).encode() + b"\n")
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Give up the socket, after the client's tasks have ended."""
        self.end()
        self._open.close()
        memory, self._memory = self._memory, None
        if memory is not None and self._owner == os.getpid():
            memory.close()

    def _give_up(self, why: str) -> None:
        if self._process is not None:
            self.end()
            logger.warning(
                "there is no session guardian any more (%s): after a crash of this process, its "
                "session will time out",
                why,
            )


def _reap_those_before() -> None:
    """Reap the guardians of programs that this process was before it executed another one."""
    from pathlib import Path

    from .process import NAME

    with suppress(OSError):  # there is no /proc
        for task in Path("/proc/self/task").iterdir():
            for child in (task / "children").read_text().split():
                if f"({NAME}) Z " in Path(f"/proc/{child}/stat").read_text():
                    os.waitpid(int(child), os.WNOHANG)


def _own_pidfd() -> int:
    """A pidfd of this process; -1 where there are none."""
    with suppress(AttributeError, OSError):
        return os.pidfd_open(os.getpid())
    return -1


def _own_memory() -> tuple[int, mmap.mmap | None]:
    """A file, and this process's mapping of it; -1 and None where that is not to be had.

    No other process has it mapped, not even a forked one. So once the kernel counts no mapping any
    more, this process has ended, or has executed another program. Closing descriptors does not
    unmap it.
    """
    with suppress(ImportError, AttributeError, OSError):
        import ctypes
        import mmap

        with ExitStack() as stack:
            file = os.memfd_create("aiolead-guardian", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
            stack.callback(os.close, file)
            os.ftruncate(file, mmap.PAGESIZE)
            memory = mmap.mmap(file, mmap.PAGESIZE)
            # Only `close` unmaps it. Deleting the object would: while the interpreter shuts down,
            # with threads still at work; or in a forked process, which has something else there.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(memory))
            memory.madvise(mmap.MADV_DONTFORK)
            stack.pop_all()
            return file, memory
    return -1, None


_PR_GET_DUMPABLE = 3


def _is_hidden() -> bool:
    """Whether other processes of this user may not read this one's memory (`PR_SET_DUMPABLE`)."""
    with suppress(ImportError, AttributeError, OSError):
        import ctypes

        dumpable: int = ctypes.CDLL(None).prctl(_PR_GET_DUMPABLE, 0, 0, 0, 0)
        return dumpable in (0, 2)  # -1 where there is no such call
    return False


def spawn(
    control: int, pidfd: int, children: int | None, memory: int = -1
) -> subprocess.Popen[bytes]:
    """Start the program, with these descriptors; -1 for what is not to be had."""
    descriptors = (control, pidfd, memory, children)
    passed = [each for each in descriptors if each is not None and each >= 0]
    from pathlib import Path

    program = Path(__file__).resolve().with_name("process.py")
    numbers = (
        *(control, os.getpid(), pidfd, memory),
        *(-1 if children is None else children, 1 if _is_hidden() else 0),
    )
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
