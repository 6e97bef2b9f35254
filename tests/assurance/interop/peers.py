"""The real Curator, kazoo and aiozk, in processes that a test controls.

See tests/assurance/interop/Peer.java and tests/assurance/interop/peer.py.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Generic, Self, TypeVar

import anyio
import anyio.to_thread
from assurance.chaos.curator import OPTIONS, compiled

import aiolead
from aiolead.testing.installation import find_installation

T = TypeVar("T")

PATIENCE = 30.0
"""How long anything is waited for, in seconds."""

LONG = 25_000
"""A wait of theirs that is not to run out, in milliseconds."""

SHORT = 150
"""A wait of theirs that is to run out, in milliseconds."""

_SOURCES = Path(__file__).parent
_MORE = (
    "curator-x-discovery",
    "jackson-core",
    "jackson-databind",
    "jackson-annotations",
    "zookeeper-recipes-lock",
)


def peer_command(library: str) -> list[str]:
    """The command of the process of a library.

    Raises:
        CuratorNotFoundError: it is Curator, and not installed, or there is no compiler.
    """
    if library != "curator":
        return [sys.executable, str(_SOURCES / "peer.py"), library]
    java = find_installation().java
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"
    path = compiled(_SOURCES / "Peer.java", *_MORE)
    return [str(java), *OPTIONS, quiet, "-cp", path, "Peer"]


class PeerError(Exception):
    """The library has thrown an exception."""


class PeerProcess:
    """One process with any number of actors. Belongs to no event loop."""

    def __init__(self, command: list[str]) -> None:
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )
        self._numbers = itertools.count(1)
        self._waiting: dict[str, Future[str]] = {}
        self._lock = threading.Lock()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(PATIENCE)
        finally:
            self._process.kill()
            self._process.wait()
            self._reader.join()
            assert self._process.stdout is not None
            self._process.stdout.close()

    def tell(self, actor: str, command: str, *arguments: object) -> Future[str]:
        """Has an actor do something, after its earlier commands."""
        assert self._process.stdin is not None
        future: Future[str] = Future()
        with self._lock:
            number = str(next(self._numbers))
            self._waiting[number] = future
            words = (number, actor, command, *map(_word, arguments))
            self._process.stdin.write("\t".join(words) + "\n")
            self._process.stdin.flush()
        return future

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            number, how, what = line.rstrip("\n").split("\t", 2)
            future = self._waiting.pop(number)
            if how == "ok":
                future.set_result(what)
            else:
                future.set_exception(PeerError(what))
        for future in self._waiting.values():
            future.set_exception(PeerError("the process has ended"))


def _word(argument: object) -> str:
    match argument:
        case bool():
            return str(argument).lower()
        case bytes():
            return argument.hex()
        case _:
            return str(argument)


class Pending(Generic[T]):
    """A call in another thread."""

    def __init__(self, future: Future[T]) -> None:
        self._future = future

    @property
    def is_done(self) -> bool:
        return self._future.done()

    async def wait(self) -> T:
        """The answer, or raises what has become of it instead: a `PeerError`, for one.

        Raises:
            TimeoutError: there is none, for very long.
        """
        return await anyio.to_thread.run_sync(self._future.result, PATIENCE)


_actors = itertools.count(1)

Connect = Callable[[], aiolead.types.Connection]
"""Makes one more client of aiolead, to be entered."""


class Peer:
    """An actor: a client of the library, and what calls it. A context manager.

    Attributes:
        session_id: of its session.
    """

    def __init__(
        self, process: PeerProcess, connect_string: str, session_timeout: float = 8.0
    ) -> None:
        self._process = process
        self._name = f"actor-{os.getpid()}-{next(_actors)}"
        self._hosts = connect_string
        self._session_timeout = session_timeout
        self._is_closed = False
        self.session_id = 0

    def begin(self, command: str, *arguments: object) -> Pending[str]:
        """Has it do something that may take long."""
        return Pending(self._process.tell(self._name, command, *arguments))

    async def __call__(self, command: str, *arguments: object) -> str:
        """Has it do something, and waits for the answer."""
        return await self.begin(command, *arguments).wait()

    async def is_so(self, command: str, *arguments: object) -> bool:
        """The same, where the answer is yes or no."""
        answer = await self(command, *arguments)
        assert answer in ("true", "false"), answer
        return answer == "true"

    async def __aenter__(self) -> Self:
        milliseconds = round(self._session_timeout * 1000)
        self.session_id = int(await self("open", self._hosts, milliseconds))
        return self

    async def close(self) -> None:
        """Closes all it has, and its session. Once is enough."""
        if not self._is_closed:
            self._is_closed = True
            await self("close")

    async def __aexit__(self, *_: object) -> None:
        with anyio.move_on_after(PATIENCE, shield=True):
            await self.close()


NewCurator = Callable[[], Peer]
"""Makes one more client of Curator, to be entered."""
