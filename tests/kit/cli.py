"""The command `aiolead` as a process, and the deaths of processes."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Self

from cli.preforked import ReadyProcess
from kazoo.client import KazooClient

import aiolead

Outcome = tuple[int, list[str], list[str]]
"""The exit code of a command, its lines of output, and its lines of errors."""

Run = Callable[..., Outcome]
"""The fixture `run`: runs a command line in this process, such as `run("ls /a")`."""

SOURCE = Path(aiolead.__file__).parent.parent
WITHIN = 60.0
"""How long anything may take on a machine that has other things to do, in seconds."""

NOBODY = f"digest:nobody:{'A' * 27}="
"""The identity of an ACL entry whose password nobody knows."""

NOTICE = "no server reached yet, "
"""A command prints this after a second without a server. A busy machine may take so long."""


def environment(**more: str) -> dict[str, str]:
    """The environment of the tests, without the variables that the command reads."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("AIOLEAD_")}
    return {**env, "PYTHONPATH": str(SOURCE), "XDG_CONFIG_HOME": "/nowhere", **more}


def without_notice(lines: Iterable[str]) -> list[str]:
    """The lines except those about a slow connection, which have tests of their own."""
    return [line for line in lines if NOTICE not in line]


class Lines:
    """The lines of a stream, which a thread reads at once."""

    def __init__(self, stream: IO[str]) -> None:
        self.all: list[str] = []
        self._seen = 0
        self._over = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._read, args=(stream,), daemon=True)
        self._thread.start()

    def _read(self, stream: IO[str]) -> None:
        with stream:
            for line in stream:
                with self._changed:
                    self.all.append(line.rstrip("\n"))
                    self._changed.notify_all()
        with self._changed:
            self._over = True
            self._changed.notify_all()

    def expect(self, pattern: str) -> re.Match[str]:
        """Waits for a line that matches, after those that were expected before.

        Raises:
            AssertionError: the stream ended without it, or it did not come in time.
        """
        deadline = time.monotonic() + WITHIN
        with self._changed:
            while True:
                for line in self.all[self._seen :]:
                    self._seen += 1
                    if match := re.search(pattern, line):
                        return match
                left = deadline - time.monotonic()
                if self._over or left <= 0:
                    said = "\n".join(self.all)
                    raise AssertionError(f"never said {pattern!r}, but:\n{said}")
                self._changed.wait(left)

    @property
    def has_any(self) -> bool:
        """Whether there is a line that no test has read, or the stream has ended."""
        return self._over or self._seen < len(self.all)

    def rest(self) -> list[str]:
        """Waits for the end of the stream; all its lines, except the `NOTICE`."""
        self._thread.join(WITHIN)
        return without_notice(self.all)


class Command:
    """`python -m aiolead`, running. A context manager that leaves no process behind.

    Args:
        *arguments: the command line.
        hosts: for `AIOLEAD_HOSTS`.
        env: over the environment.
        fresh: starts Python for it, rather than forks a process that has imported everything. Tests
            of the start itself need it, and tests of the process's environment.
        code: a Python program to run in place of the command. It implies `fresh`.
    """

    def __init__(
        self,
        *arguments: str,
        hosts: str = "",
        env: dict[str, str] | None = None,
        fresh: bool = False,
        code: str = "",
    ) -> None:
        more = {**(env or {}), **({"AIOLEAD_HOSTS": hosts} if hosts else {})}
        self.process: subprocess.Popen[str] | ReadyProcess
        if fresh or code:
            what = ["-c", code] if code else ["-m", "aiolead"]
            # A shell that starts the tests in the background makes them, and their children,
            # ignore SIGINT.
            self.process = subprocess.Popen(
                ["env", "--default-signal=INT,HUP", sys.executable, *what, *arguments],
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
        self.out, self.err = Lines(self.process.stdout), Lines(self.process.stderr)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _type: object, exc: BaseException | None, _traceback: object) -> None:
        # A stopped process would not die of SIGTERM. Its keeper ends its child.
        self.process.kill()
        self.process.wait(WITHIN)
        if exc is not None:
            exc.add_note(f"standard error of {self.process.args}: {self.err.rest()}")

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def finish(self, signal: int | None = None) -> int:
        """Waits for its end, after a signal if one is given; returns its status, as shells do."""
        if signal is not None:
            self.signal(signal)
        return as_in_a_shell(self.process.wait(WITHIN))


def as_in_a_shell(code: int) -> int:
    """The exit code of a process as shells show it: 128 + n if signal n has ended it."""
    return 128 - code if code < 0 else code


def outcome(*arguments: str, hosts: str = "") -> Outcome:
    """Runs a command that ends by itself: exit code, lines of output, lines of errors."""
    with Command(*arguments, hosts=hosts) as command:
        code = command.finish()
        return code, command.out.rest(), command.err.rest()


def prints(*lines: str, err: str = "") -> Outcome:
    """The outcome of a command that succeeds."""
    return 0, list(lines), [f"aiolead: {err}"] if err else []


def fails(why: str, *, code: int = 1) -> Outcome:
    """The outcome of a command that only prints an error."""
    return code, [], [f"aiolead: {why}"]


def objects(lines: list[str]) -> list[dict[str, Any]]:
    """The objects in lines of JSON."""
    return [json.loads(line) for line in lines]


def shown(run: Run, *arguments: str, hosts: str = "", code: int = 0) -> list[str]:
    """Runs a command that must print no error, and exit with a code; its lines of output."""
    got, out, err = run(*arguments, hosts=hosts)
    assert (got, err) == (code, [])
    return out


def report(run: Run, *arguments: str, hosts: str = "", code: int = 0) -> list[dict[str, Any]]:
    """The same with `--json`; the objects."""
    return objects(shown(run, *arguments, "--json", hosts=hosts, code=code))


@contextmanager
def kazoo_client(hosts: str, znodes: Mapping[str, bytes] | None = None) -> Iterator[KazooClient]:
    """A kazoo client, whose session lives as long as a test takes. Creates the chroot.

    Args:
        hosts: a connect string.
        znodes: the znodes that it creates, with all parents. A path that ends in "-" is that of a
            contender, which is ephemeral and sequential.
    """
    servers, slash, chroot = hosts.partition("/")
    client = KazooClient(servers, timeout=10)
    client.start(timeout=WITHIN)
    try:
        client.ensure_path(slash + chroot)
        client.chroot = slash + chroot
        for path, data in (znodes or {}).items():
            contends = path.endswith("-")
            client.ensure_path(path.rpartition("/")[0] or "/")
            client.create(path, data, ephemeral=contends, sequence=contends)
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

    def __exit__(self, *_: object) -> None:
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
        program: another program to run in place of the command. It implies `fresh`.
        env: over the environment.
    """

    def __init__(
        self,
        *arguments: str,
        hosts: str = "",
        fresh: bool = False,
        program: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.mark = uuid.uuid4().hex
        """The value of `MARK` in its environment, and in that of its children."""
        terminal = {"TERM": "xterm", "COLUMNS": "80", "LINES": "24"}
        variables = environment(**terminal, MARK=self.mark, NO_COLOR="")
        if hosts:
            variables["AIOLEAD_HOSTS"] = hosts
        variables |= env or {}
        self._master, slave = pty.openpty()
        self.process: subprocess.Popen[bytes] | ReadyProcess
        if fresh or program:
            what = program or [sys.executable, "-m", "aiolead"]
            self.process = subprocess.Popen(
                ["setsid", "--ctty", *what, *arguments],
                env=variables,
                stdin=slave,
                stdout=slave,
                stderr=slave,
            )
        else:
            self.process = ReadyProcess(arguments, variables, slave)
        os.close(slave)
        self._shown = b""
        self._news = threading.Condition()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.finish()
        os.close(self._master)

    def _read(self) -> None:
        # Reads all the time, since a full terminal stops the process that writes to it.
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

    def wait_for(self, text: str, times: int = 1) -> None:
        """Waits until it has shown a text so many times."""
        with self._news:
            assert self._news.wait_for(lambda: self.shown.count(text) >= times, WITHIN), self.shown

    def wait_stopped(self, prompt: str) -> None:
        """Waits until a shell has reported a stopped job, and has drawn its prompt behind that.

        Before, it changes the mode of the terminal, and may lose what is typed.
        """
        with self._news:

            def is_ready() -> bool:
                _, stopped, behind = self.shown.rpartition("Stopped")
                return bool(stopped) and prompt in behind

            assert self._news.wait_for(is_ready, WITHIN), self.shown

    def finish(self) -> int:
        """Waits for its end; returns its status, as shells do."""
        code = self.process.wait(WITHIN)
        self._reader.join(WITHIN)
        return as_in_a_shell(code)


def processes_with(text: str) -> Iterable[int]:
    """The processes that have a text in their command line or their environment."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            with suppress(OSError):
                known = (folder / "cmdline").read_bytes() + (folder / "environ").read_bytes()
                if text.encode() in known:
                    yield int(folder.name)
