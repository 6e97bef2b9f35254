"""The command `aiolead` as a process, and the deaths of processes."""

from __future__ import annotations

import json
import os
import pty
import queue
import re
import select
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from cli.preforked import ReadyProcess
from kazoo.client import KazooClient

import aiolead

Run = Callable[..., tuple[int, list[str], list[str]]]
"""What runs a command in this process: exit code, lines of output, lines of errors."""

SOURCE = Path(aiolead.__file__).parent.parent
WITHIN = 60.0
"""How long anything may take on a machine that has other things to do, in seconds."""

NOTICE = "no server reached yet, "
"""What a command says after a second without a server, which a busy machine may take to connect."""


def environment(**more: str) -> dict[str, str]:
    """That of the tests, without what would decide where the command connects."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("AIOLEAD_")}
    return {**env, "PYTHONPATH": str(SOURCE), "XDG_CONFIG_HOME": "/nowhere", **more}


def without_notice(lines: Iterable[str]) -> list[str]:
    """The lines but those that tell of a slow connection: only tests of them ask for them."""
    return [line for line in lines if NOTICE not in line]


class Lines:
    """The lines of a stream, as they come."""

    def __init__(self, stream: IO[str]) -> None:
        self.all: list[str] = []
        self._new: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._read, args=(stream,), daemon=True)
        self._thread.start()

    def _read(self, stream: IO[str]) -> None:
        with stream:
            for line in stream:
                self._new.put(line.rstrip("\n"))
        self._new.put(None)

    def expect(self, pattern: str) -> re.Match[str]:
        """The next line that matches; those before it are passed over."""
        deadline = time.monotonic() + WITHIN
        while True:
            try:
                line = self._new.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise AssertionError(f"no {pattern!r} in time, but {self.all}") from None
            assert line is not None, f"no {pattern!r} until the end, but {self.all}"
            self.all.append(line)
            if match := re.search(pattern, line):
                return match

    @property
    def has_any(self) -> bool:
        """Whether there is a line that was not asked for yet, or the stream has ended."""
        return not self._new.empty()

    def rest(self) -> list[str]:
        """All lines there were but the `NOTICE`, once the stream has ended."""
        self._thread.join(WITHIN)
        with suppress(queue.Empty):
            while (line := self._new.get_nowait()) is not None:
                self.all.append(line)
        return without_notice(self.all)


class Command:
    """`python -m aiolead`, running. A context manager that leaves no process behind.

    Args:
        *arguments: the command line.
        hosts: for `AIOLEAD_HOSTS`.
        env: over the environment.
        fresh: start Python for it, rather than fork a process that has imported everything; where
            the start itself is tested, or what the system knows of the process's environment.
    """

    def __init__(
        self,
        *arguments: str,
        hosts: str = "",
        env: dict[str, str] | None = None,
        fresh: bool = False,
    ) -> None:
        more = dict(env or {})
        if hosts:
            more["AIOLEAD_HOSTS"] = hosts
        self.process: subprocess.Popen[str] | ReadyProcess
        if fresh:
            # Who runs the tests in the background may have SIGINT ignored, which is inherited.
            self.process = subprocess.Popen(
                ["env", "--default-signal=INT,HUP", sys.executable, "-m", "aiolead", *arguments],
                env=environment(**more),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                process_group=0,
            )
        else:
            self.process = ReadyProcess(arguments, environment(**more))
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self.out = Lines(self.process.stdout)
        self.err = Lines(self.process.stderr)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # A stopped one would not even die of SIGTERM; its child is its keeper's business.
        self.process.kill()
        self.process.wait(WITHIN)
        if exc is not None:
            exc.add_note(f"standard error of {self.process.args}: {self.err.rest()}")

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def finish(self) -> int:
        """Waits for its end; returns the exit code."""
        return self.process.wait(WITHIN)


def outcome(*arguments: str, hosts: str = "") -> tuple[int, list[str], list[str]]:
    """Runs a command that ends by itself: exit code, lines of output, lines of errors."""
    with Command(*arguments, hosts=hosts) as command:
        code = command.finish()
        return code, command.out.rest(), command.err.rest()


def objects(lines: list[str]) -> list[dict[str, Any]]:
    """What lines of JSON say."""
    return [json.loads(line) for line in lines]


@contextmanager
def somebody(hosts: str) -> Iterator[KazooClient]:
    """Another client, whose session lives however long a test takes; makes the chroot."""
    servers, slash, chroot = hosts.partition("/")
    client = KazooClient(servers, timeout=10)
    client.start(timeout=WITHIN)
    try:
        client.ensure_path(slash + chroot)
        client.chroot = slash + chroot
        yield client
    finally:
        client.stop()
        client.close()


class Process:
    """Any process, watched from the outside through a handle that no other process can get."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._handle = os.pidfd_open(pid)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._handle, signal.SIGKILL)
        os.close(self._handle)

    @property
    def is_running(self) -> bool:
        return not select.select([self._handle], [], [], 0)[0]

    def death(self) -> float:
        """Waits until it is dead; returns the time on the monotonic clock."""
        assert select.select([self._handle], [], [], WITHIN)[0], f"{self.pid} lives on"
        return time.monotonic()


class OnTerminal:
    """The command on a terminal of its own, 80 columns wide. A context manager.

    Args:
        *arguments: the command line.
        hosts: for `AIOLEAD_HOSTS`.
        fresh: as for a `Command`.
    """

    def __init__(self, *arguments: str, hosts: str = "", fresh: bool = False) -> None:
        self.mark = uuid.uuid4().hex
        """What its environment, and that of its children, has as `MARK`."""
        env = environment(TERM="xterm", COLUMNS="80", LINES="24", MARK=self.mark, NO_COLOR="")
        if hosts:
            env["AIOLEAD_HOSTS"] = hosts
        self._master, slave = pty.openpty()
        self.process: subprocess.Popen[bytes] | ReadyProcess
        if fresh:
            self.process = subprocess.Popen(
                ["setsid", "--ctty", sys.executable, "-m", "aiolead", *arguments],
                env=env,
                stdin=slave,
                stdout=slave,
                stderr=slave,
            )
        else:
            self.process = ReadyProcess(arguments, env, slave)
        os.close(slave)
        self._shown = b""
        self._news = threading.Condition()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.process.kill()
        self.finish()
        os.close(self._master)

    def _read(self) -> None:
        # All the time: a terminal that nobody reads stops whoever writes to it.
        with suppress(OSError):  # the other end is closed
            while data := os.read(self._master, 65536):
                with self._news:
                    self._shown += data
                    self._news.notify()

    @property
    def shown(self) -> str:
        return self._shown.decode(errors="replace")

    def type(self, text: str) -> None:
        """Types, control characters included."""
        os.write(self._master, text.encode())

    def wait_for(self, text: str) -> None:
        """Waits until it has shown a text."""
        with self._news:
            assert self._news.wait_for(lambda: text in self.shown, WITHIN), self.shown

    def finish(self) -> int:
        """Waits for its end; returns the exit code."""
        code = self.process.wait(WITHIN)
        self._reader.join(WITHIN)
        return code


def processes_with(text: str) -> Iterable[int]:
    """The processes that have a text in their command line or their environment."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            with suppress(OSError):
                known = (folder / "cmdline").read_bytes() + (folder / "environ").read_bytes()
                if text.encode() in known:
                    yield int(folder.name)
