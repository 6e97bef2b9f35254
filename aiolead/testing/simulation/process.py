"""A program on a host of its own, with its own clock: it can be killed, stopped and continued."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from contextvars import copy_context
from typing import Any

import anyio
from anyio.abc import TaskGroup

from ... import connect
from ..._client.connect import Connection
from ..._client.connect_options import Hooks
from .network import Network
from .parking import PROCESS
from .seeds import derived
from .stream import SimulatedStream, dial
from .timeline import Timeline

GRAIN = 1e-9
"""Seconds by which a process's clock rises from one look at it to the next, if no time passes.

No real clock stands still while a program looks at it again and again, waiting for it to rise.
"""

Program = Callable[["Process"], Awaitable[object]]
"""The program of a process."""


class Process:
    """A program that runs as tasks of its own.

    Attributes:
        name: its name.
        host: its address.
        rng: random numbers of its own.
        is_alive: whether it has begun, and has neither ended nor been killed.
        failure: the exception of the program, if any.

    Args:
        name: its name; the names of a run differ, since what its processes draw at random
            follows from them.
        host: its address, such as `10.0.1.1`.
        servers: the connect string of the ensemble, with literal addresses.
        timeline: the world's time.
        network: how it reaches the servers.
        tasks: where its tasks run.
        seed: of the run.
        rate: how fast its clock runs, of the world's rate.
    """

    def __init__(
        self,
        name: str,
        host: str,
        servers: str,
        *,
        timeline: Timeline,
        network: Network,
        tasks: TaskGroup,
        seed: int,
        rate: float = 1.0,
    ) -> None:
        self.name = name
        self.host = host
        self.rng: random.Random = derived(seed, f"process {name}")
        self.is_alive: bool = False
        self.failure: Exception | None = None
        self._servers = servers
        self._timeline = timeline
        self._network = network
        self._tasks = tasks
        self._seed = seed
        self._rate = rate
        # Clocks of different machines have nothing to do with each other.
        self._origin = self.rng.uniform(1.0, 1e5)
        self._reading = 0.0
        self._scope = anyio.CancelScope()
        self._ended = anyio.Event()
        self._streams: dict[SimulatedStream, None] = {}
        self._clients = 0
        self._was_killed = False

    def __repr__(self) -> str:
        return f"<Process {self.name}>"

    # --- its life ------------------------------------------------------------------------------

    def start(self, program: Program) -> None:
        """Runs `program(process)`; once.

        Its exception is kept as `failure`, and ends the run.
        """
        self.is_alive = True
        context = copy_context()
        context.run(PROCESS.set, self)
        context.run(self._tasks.start_soon, self._run, program)

    async def _run(self, program: Program) -> None:
        try:
            with self._scope:
                await program(self)
        except Exception as error:
            if not self._was_killed:
                self.failure = error
                self._timeline.fail(error)
        finally:
            self.is_alive = False
            self._hang_up()
            self._ended.set()

    async def wait(self) -> None:
        """Waits until the program has ended, and all that it does on its way out."""
        await self._ended.wait()

    def kill(self) -> None:
        """Kills it, as SIGKILL does: nothing that it does from now on counts.

        Its connections break; the peers get to know as far as the network lets them. Its tasks are
        cancelled, and so their `finally` blocks run, which those of a killed process would not: but
        they reach nobody any more, and what they report is to be ignored, as `is_alive` is false.
        """
        if self.is_alive:
            self.is_alive = False
            self._was_killed = True
            self._hang_up()
            self.resume()
            self._scope.cancel()

    def stop(self, *, after: int = 0) -> None:
        """Stops it, as SIGSTOP does: none of its tasks runs until `resume`. Time goes on.

        Args:
            after: how many more times one of its tasks may be woken before, so that it is also
                caught in the middle of what it does at one instant.
        """
        if self.is_alive and self._timeline.parking is not None:
            self._timeline.parking.stop(self, after=after)

    def resume(self) -> None:
        """Continues it, as SIGCONT does; without effect if it is not stopped."""
        if self._timeline.parking is not None:
            self._timeline.parking.resume(self)

    @property
    def is_stopped(self) -> bool:
        parking = self._timeline.parking
        return parking is not None and parking.is_stopped(self)

    # --- for its program -----------------------------------------------------------------------

    def clock(self) -> float:
        """Its own monotonic clock, in seconds from some instant in the past."""
        reading = self._origin + self._timeline.now * self._rate
        if reading <= self._reading:
            reading = self._reading + GRAIN
        self._reading = reading
        return reading

    def connect(self, hosts: str | None = None, /, **options: Any) -> Connection:
        """A connection to the ensemble over the simulated network, by this process's clock.

        Args:
            hosts: a connect string of literal addresses, such as `10.0.0.1:2181/app`; defaults to
                all servers of the ensemble.
            options: see `aiolead.connect`.
        """
        self._clients += 1
        return connect(
            hosts or self._servers,
            hooks=Hooks(
                dial=self.dial,
                clock=self.clock,
                rng=derived(self._seed, f"client {self._clients} of {self.name}"),
            ),
            **options,
        )

    async def dial(self, address: str, port: int) -> SimulatedStream:
        """Opens a byte stream to an address and port of the simulated network.

        Raises:
            ConnectionRefusedError: nobody listens there.
            ConnectionResetError: this process was killed.

        Cancellation: gives the attempt up.
        """
        if not self.is_alive:
            raise ConnectionResetError(f"{self.name} was killed")
        stream = await dial(self._network, self.host, f"{address}:{port}")
        if not self.is_alive:
            stream.abort()
            raise ConnectionResetError(f"{self.name} was killed")
        self._streams = {old: None for old in self._streams if old.is_open}
        self._streams[stream] = None
        return stream

    def _hang_up(self) -> None:
        for stream in self._streams:
            stream.abort()
        self._streams.clear()
