"""The requests that every peer serves: a dozen verbs, each of which times its own work.

A peer runs in a process of its own (`host.py`; the Java one is `Curator.java`) and obeys one line
at a time. A timed section is the peer's own code, as its users write it: no common layer
is in between. So a workload is written once, in terms of these verbs, for all peers.

Times are in seconds; moments are nanoseconds of the machine's monotonic clock, which all processes
share. `cpu` is the processor time of the peer's whole process, all threads and the kernel's share
included. The server's side is counted by whoever sends the lines.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Protocol, Self

Answer = dict[str, Any]
Kind = Literal["lock", "election", "latch"]
"""Which recipe: a lock, an election, and where a peer has two of these, the other one."""

RETRY_AFTER = 0.0005
"""After a failed attempt to use a broken connection, the next one follows this much later."""

LOOK_AFTER = 0.001
"""How often it is looked whether a gate is open, in seconds: see `Peer.turns`."""


class Peer(Protocol):
    """One library. All methods may be coroutine functions instead; see `host.py`."""

    def version(self) -> str:
        """Of the library."""
        ...

    def open(self, hosts: str, sessions: int, timeout: float) -> None:
        """So many more clients, each with a session and a connection of its own.

        Args:
            hosts: a connect string. Each client is given one server of it, in turn, so that no peer
                is luckier than another.
            sessions: how many.
            timeout: of each session.
        """
        ...

    def close(self) -> None:
        """Closes them all, and whatever still waits in them."""
        ...

    # --- on the first client -------------------------------------------------------------------

    def gets(self, path: str, count: int) -> Answer:
        """Reads a znode so often, one after the other: `seconds`, `cpu`."""
        ...

    def pipeline(self, op: str, path: str, count: int, size: int) -> Answer:
        """So many requests outstanding at once, until all are answered: `seconds`, `cpu`.

        Args:
            op: "create", "set", "get" or "delete"; of `path/n-0` and so on.
            size: bytes of data that are written to each.
        """
        ...

    def cycles(self, path: str, count: int) -> Answer:
        """Acquires and releases a lock, with nobody else there: `seconds`, `cpu`."""
        ...

    def together(self, path: str, locks: int, each: int) -> Answer:
        """The same for locks at `path/0` and so on, all at the same time: `seconds`, `cpu`."""
        ...

    def threads(self, op: str, path: str, threads: int, each: int) -> Answer:
        """Reads ("gets"), or locks at `path/0` and so on ("locks"), in threads: `seconds`, `cpu`.

        Only for peers that have threads.
        """
        ...

    def watch(self, path: str, count: int) -> Answer:
        """Sets a watch on each of so many znodes that do not exist, and keeps it: `seconds`, `cpu`.

        Only for peers that take part in the curves; the answer of the others is empty.
        """
        ...

    def hold(self, path: str, count: int) -> Answer:
        """Acquires locks at `path/0` and so on, and keeps them all: `seconds`, `cpu`."""
        ...

    def let_go(self) -> Answer:
        """Releases these: `seconds`, `cpu`."""
        ...

    def tree(self, path: str, count: int) -> Answer:
        """Copies a tree of so many znodes, as its cache does: `seconds`, `cpu`."""
        ...

    def observers(self, path: str, count: int) -> Answer:
        """So many observers of one election: until all know who leads (`first`), and until all know
        of the next leader (`next`).
        """
        ...

    def items(self, path: str, count: int) -> Answer:
        """Puts so many items into a queue (`put`), and takes them all (`take`), in seconds."""
        ...

    def recover(self, within: float) -> Answer:
        """Uses the client until a request is answered, one attempt after the other.

        Args:
            within: when it is given up, in seconds.

        It is called right after the connection was cut: `usable`, the moment of the answer;
        `attempts`, with those that failed.
        """
        ...

    # --- on all clients ------------------------------------------------------------------------

    def turns(self, kind: Kind, path: str, each: int, hold: float, gate: str) -> Answer:
        """Every client is a contender for the same thing, and has it so often, for so long.

        Args:
            gate: nobody gives it back while there is a file of this name.

        Returns:
            `turns`: pairs of moments, from when it was had until it began to be given back; `cpu`.
        """
        ...

    def queue(self, kind: Kind, path: str, contenders: int, hold: int) -> Answer:
        """Begins to contend, so many at once, dealt out to the clients; returns without waiting.

        Args:
            hold: whether the first client holds it before, so that all have to wait.

        Returns:
            `began`: the moment before the first contender, but after the holder.
        """
        ...

    def drain(self) -> Answer:
        """The holder gives it back, and so does every contender as soon as it has it: `seconds`."""
        ...

    # --- others --------------------------------------------------------------------------------

    def connects(self, hosts: str, count: int, timeout: float) -> Answer:
        """Connects, and waits for the answer to a first request, so often: `samples`."""
        ...


class Stopwatch:
    """Times what it is put around, for an answer."""

    def __enter__(self) -> Self:
        self._cpu = time.process_time()
        self._start = time.perf_counter()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.seconds = time.perf_counter() - self._start
        self.cpu = time.process_time() - self._cpu

    def so_far(self) -> float:
        """The seconds until now, within its block."""
        return time.perf_counter() - self._start

    def answer(self) -> Answer:
        return {"seconds": self.seconds, "cpu": self.cpu}


def is_shut(gate: str) -> bool:
    return Path(gate).exists()


async def until_open(gate: str, sleep: Callable[[float], Awaitable[None]]) -> None:
    """Waits until there is no file of that name."""
    while is_shut(gate):
        await sleep(LOOK_AFTER)


def batched(numbers: range, size: int) -> Iterator[range]:
    """Consecutive parts of at most that size."""
    return (numbers[i : i + size] for i in range(0, len(numbers), size))


now = time.monotonic_ns
