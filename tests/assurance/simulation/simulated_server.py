"""The embedded server's core on a simulated network: one server, that nothing happens to."""

from __future__ import annotations

import random
from typing import Any

from aiolead.testing._server.connection import Closing, Connection
from aiolead.testing._server.core import Core
from aiolead.testing._server.settings import Settings
from aiolead.testing.simulation.connection import Wire
from aiolead.testing.simulation.network import Network
from aiolead.testing.simulation.timeline import Timeline, Timer


class SimulatedServer:
    """A ZooKeeper server at an address.

    Args:
        timeline: the world's time.
        network: where it listens.
        address: its host and port.
    """

    def __init__(self, timeline: Timeline, network: Network, address: str) -> None:
        self.core = Core(Settings(), random.Random(1))
        self._timeline = timeline
        self._ends: dict[Connection, _End] = {}
        self._timer: Timer | None = None
        network.listen(address, self._accept)

    def _accept(self, wire: Wire, host: str) -> _End | None:
        connection = self.core.connect(host)
        if connection is None:
            return None
        end = self._ends[connection] = _End(self, connection, wire)
        return end

    def received(self, connection: Connection, data: bytes) -> None:
        self.core.receive(connection, data, self._timeline.now)
        self._deliver()

    def lost(self, connection: Connection) -> None:
        del self._ends[connection]
        self.core.lost(connection)

    def _tick(self) -> None:
        self._timer = None
        self.core.tick(self._timeline.now)
        self._deliver()

    def _deliver(self) -> None:
        for connection in self.core.take_woken():
            end = self._ends.get(connection)
            if end is None:
                continue
            if data := connection.take():
                end.wire.send(data)
            if connection.closing is not Closing.NO:
                end.wire.close()
                self.lost(connection)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        deadline = self.core.next_deadline(self._timeline.now)
        if deadline is not None:
            self._timer = self._timeline.at(deadline, self._tick)


class _End:
    def __init__(self, server: SimulatedServer, connection: Connection, wire: Wire) -> None:
        self.wire = wire
        self._server = server
        self._connection = connection

    def received(self, data: Any) -> None:
        self._server.received(self._connection, data)

    def ended(self) -> None:
        self.wire.close()
        self._server.lost(self._connection)

    def broken(self) -> None:
        self._server.lost(self._connection)
