"""Processes whose sessions have a guardian, and what may happen to them.

`Owner` starts one and follows it. This file is also the program: `python guarded.py SETTINGS`, with
JSON. It connects, acquires a lock, works in threads, and then takes orders from standard input, one
a line. It answers with one JSON object a line. All times are those of one clock, `time.monotonic`.
"""

from __future__ import annotations

import ctypes
import itertools
import json
import mmap
import multiprocessing
import os
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, Self

TIMEOUT = 200.0
"""The session timeout, in seconds: longer than any test may take, however often it waits, so that
what ends within a test was closed.
"""

SLOTS = 16


ENTER_CGROUP = ["sh", "-c", 'echo $$ > "$0"/cgroup.procs && exec "$@"']

EXECUTE = "import os, sys; os.execv(sys.argv[1], sys.argv[1:])"

MAY_NOT_TRACE = [
    *(sys.executable, "-c"),
    # PR_CAPBSET_DROP, CAP_SYS_PTRACE
    "import ctypes, os; ctypes.CDLL(None).prctl(24, 19, 0, 0, 0)\n" + EXECUTE,
]
"""Starts a command that cannot read the memory of processes just because it is root's."""


def guardian_of(pid: int) -> int:
    """The guardian that a process has started; 0 if there is none."""
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in map(int, (task / "children").read_text().split()):
                command = Path(f"/proc/{child}/cmdline")
                while not command.read_bytes() and is_running(child):
                    pass  # in the middle of its exec
                if b"guardian/process.py" in command.read_bytes():
                    return child
    return 0


def exists(pid: int) -> bool:
    """Whether there is such a process, if only as a zombie."""
    return Path(f"/proc/{pid}").exists()


def is_running(pid: int) -> bool:
    """Whether there is such a process, and it is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class Owner:
    """A process with a client; a context manager that leaves no process behind.

    Args:
        hosts: where it connects.
        folder: where it may put a file: its signs of life.
        settings: further settings of `main`.
    """

    def __init__(self, hosts: str, folder: Path, **settings: Any) -> None:
        self.life = folder / f"life-{os.urandom(4).hex()}"
        self.life.write_bytes(bytes(8 * SLOTS))
        self._timeout = settings.get("timeout", TIMEOUT)
        given = {"hosts": hosts, "life": str(self.life), "timeout": TIMEOUT, **settings}
        source = Path(__file__).parent.parent.parent
        entering = [*ENTER_CGROUP, settings["cgroup"]] if "cgroup" in settings else []
        tracing = [] if settings.get("may_trace", True) else MAY_NOT_TRACE
        self.process = subprocess.Popen(
            [*tracing, *entering, sys.executable, __file__, json.dumps(given)],
            env={
                **os.environ,
                "AIOLEAD_AUTH": "digest:app:hunter2",
                "PYTHONPATH": f"{source}:{source / 'tests'}",
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.pid = self.process.pid
        self.guardian = 0
        self._others: list[int] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        for pid in (self.guardian, *self._others):
            if pid:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.stdout.close()

    def expect(self, event: str) -> dict[str, Any]:
        """The next message, which has to be this one."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"it has ended instead of {event!r}"
        message: dict[str, Any] = json.loads(line)
        assert message["event"] == event, message
        if event == "connected":
            assert message["timeout"] == self._timeout, "a session that may end by itself"
            self.guardian = guardian_of(self.pid)
        self._others += [message["pid"]] if "pid" in message else []
        return message

    def holds(self) -> dict[str, Any]:
        """Wait until it holds; the session, the time and the znode."""
        return self.expect("connected") | self.expect("holds")

    def order(self, what: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(what + "\n")
        self.process.stdin.flush()

    def do(self, what: str) -> dict[str, Any]:
        """Give an order, and wait until it is done."""
        self.order(what)
        return self.expect(what)

    def kill(self) -> None:
        """Kill it, and wait until it is dead."""
        self.process.kill()
        self.process.wait()

    @property
    def last_sign_of_life(self) -> float:
        return max(struct.unpack(f"{SLOTS}d", self.life.read_bytes()))


# --- the program ---------------------------------------------------------------------------------


def say(event: str, **details: Any) -> None:
    # In one write: several threads may.
    os.write(1, json.dumps({"event": event, "at": time.monotonic(), **details}).encode() + b"\n")


def show_life(life: str, slot: int, has_begun: threading.Event) -> NoReturn:
    with Path(life).open("r+b") as file, mmap.mmap(file.fileno(), 8 * SLOTS) as memory:
        while True:
            struct.pack_into("d", memory, 8 * slot, time.monotonic())
            has_begun.set()
            time.sleep(0.0005)


def forked(job: Callable[[], object]) -> int:
    pid = os.fork()
    if pid == 0:
        try:
            job()
        finally:
            os._exit(0)
    return pid


def multiprocess() -> None:
    child = multiprocessing.get_context("fork").Process(target=int)
    child.start()
    child.join()


def daemon() -> int:
    """Leaves a daemon behind, made as daemons are: two forks, and all descriptors closed."""
    source, sink = os.pipe()

    def between() -> None:
        os.setsid()
        os.write(sink, str(forked(become_daemon)).encode())

    def become_daemon() -> None:
        os.closerange(0, 4096)
        time.sleep(1000)

    os.waitpid(forked(between), 0)
    return int(os.read(source, 64))


def hide() -> None:
    """As programs that have secrets do: no other process of the user may read the memory."""
    ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)  # PR_SET_DUMPABLE


def sleep(*, after: str = "") -> None:
    if after:
        say(after)
    time.sleep(1000)


def execute(*program: str) -> None:
    os.execv(program[0], program)


ENDS: dict[str, Callable[[], object]] = {
    "os._exit": lambda: os._exit(0),
    "abort": os.abort,
    "segfault": lambda: ctypes.string_at(0),
    "out-of-memory": lambda: [bytearray(b"\xff" * (1 << 20)) for _ in itertools.count()],
    "exec": lambda: execute("/bin/sleep", "1000"),
    "close-and-exec": lambda: (os.closerange(3, 4096), execute("/bin/sleep", "1000")),
    "again": lambda: execute(sys.executable, *sys.argv),
    "close-descriptors": lambda: (os.closerange(3, 4096), sleep(after="close-descriptors")),
    # The system call `exit` ends this thread alone.
    "end-main-thread": lambda: (say("end-main-thread"), ctypes.CDLL(None).syscall(60, 0)),
}
"""Orders that nobody returns from."""

ACTS: dict[str, Callable[[], object]] = {
    "fork": lambda: os.waitpid(forked(lambda: None), 0),
    "fork-that-lives": lambda: forked(sleep),
    "fork-and-exec": lambda: [
        subprocess.run(["true"], check=True, close_fds=closes) for closes in (True, False)
    ],
    "multiprocess": multiprocess,
    "daemon": daemon,
    "drop-privileges": lambda: (os.setgid(65534), os.setuid(65534)),
    "hide": hide,
}
"""Orders that may return the id of a process."""


async def obey(client: Any) -> None:
    """Takes orders until it is to leave."""
    import anyio

    while True:
        line = await anyio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True)
        order = line.strip()
        if order in ("leave", ""):
            return
        if order in ENDS:
            ENDS[order]()
        elif order == "detach":
            credentials = client.detach()
            say(order, session=credentials.session_id, password=credentials.password.hex())
        elif order.startswith("hosts "):
            client.update_hosts(order.removeprefix("hosts "))
            say(order)
        elif order == "session":
            await client.ready()
            say(order, session=client.session_id, password=client.credentials.password.hex())
        else:
            result = ACTS[order]()
            say(order, **({"pid": result} if isinstance(result, int) else {}))


async def hold(settings: dict[str, Any]) -> None:
    import aiolead

    more = dict(settings.get("connect", {}))
    if "tls" in more:
        more["tls"] = aiolead.TLS(**more["tls"])
    if "auth" in more:
        more["auth"] = [aiolead.Auth.digest(*more["auth"])]
    if "resume" in more:
        session, password = more["resume"]
        more["resume"] = aiolead.model.SessionCredentials(
            session, bytes.fromhex(password), settings["timeout"], is_detached=True
        )
    more.setdefault("close_on_crash", True)
    async with aiolead.connect(
        settings["hosts"], session_timeout=settings["timeout"], **more
    ) as client:
        say("connected", session=client.session_id, timeout=client.session_timeout)
        if settings.get("lock", True):
            lock = aiolead.Lock(client, "/lock").acquire()
            if settings.get("election"):
                lock = aiolead.Election(client, "/election").leadership()
            async with lock as held:
                entered = time.monotonic()
                live(settings)
                say("holds", node=held.path, at=entered)
                await obey(client)
        else:
            live(settings)
            await obey(client)
    say("left")


def hold_in_a_thread(settings: dict[str, Any]) -> None:
    from aiolead import blocking

    with blocking.connect(
        settings["hosts"],
        session_timeout=settings["timeout"],
        close_on_crash=True,
        backend=settings.get("backend", "asyncio"),
    ) as client:
        say("connected", session=client.session_id, timeout=client.session_timeout)
        with blocking.Lock(client, "/lock") as held:
            entered = time.monotonic()
            live(settings)
            say("holds", node=held.path, at=entered)
            order = sys.stdin.readline().strip()
            if order != "leave":
                ENDS[order]()
    say("left")


def live(settings: dict[str, Any]) -> None:
    """Starts the threads; returns when each has given a sign of life."""
    begun = [threading.Event() for _ in range(settings.get("threads", 1))]
    for slot, has_begun in enumerate(begun):
        target = partial(show_life, settings["life"], slot, has_begun)
        threading.Thread(target=target, daemon=True).start()
    for has_begun in begun:
        has_begun.wait()
    if settings.get("threads", 1) > 1:
        # In a system call, forever.
        threading.Thread(target=os.read, args=(os.pipe()[0], 1), daemon=True).start()


def main(settings: dict[str, Any]) -> None:
    import anyio

    if not settings.get("pidfd", True) and hasattr(os, "pidfd_open"):
        del os.pidfd_open
    if settings.get("hidden"):
        hide()
    if settings.get("daemonise"):
        # As one should: before anything is opened.
        if os.fork():
            os._exit(0)
        os.setsid()
        if os.fork():
            os._exit(0)
        os.chdir("/")
        say("daemonised", pid=os.getpid())
    if settings.get("blocking"):
        hold_in_a_thread(settings)
    else:
        anyio.run(hold, settings, backend=settings.get("backend", "asyncio"))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
