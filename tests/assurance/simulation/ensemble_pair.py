"""A real ensemble and the model of one, with one interface, so that both play the same stories."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Protocol, Self

from assurance.conformance.differential import Address, Stage
from assurance.simulation.ensemble_model import Stage as Model
from kit.checks import PATIENCE

from aiolead._wire.versions import Feature, Version
from aiolead.testing import BlockingEnsemble
from aiolead.testing._server.settings import VERSION
from aiolead.testing.launch import wait_until
from aiolead.testing.servers import BlockingServer
from aiolead.testing.simulation.connection import Wire
from aiolead.testing.simulation.ensemble import Server

TICK = 0.25
SYNC_LIMIT = 12
"""In ticks: three seconds, in which a short session ends while its server is isolated."""
MAX_SESSION = PATIENCE
"""The default session timeout of the stories, in seconds: longer than a slow server takes."""

ROLES = ("leader", "follower", "other")
"""The servers of an ensemble of three, by the part that each plays when a story begins."""


class ComparedEnsemble(Protocol):
    """An ensemble of three, as stories see it. Durations are in seconds.

    Attributes:
        where: the servers' addresses, by their roles.
    """

    where: dict[str, Address]

    def assign(self) -> None:
        """Finds out who plays which part now. Every server serves."""
        ...

    def stage(self, root: str, role: str = "leader") -> Stage:
        """A stage whose actors enter at this server unless told otherwise."""
        ...

    def now(self) -> float: ...
    def wait(self, seconds: float) -> None: ...
    def isolate(self, role: str) -> None:
        """Cuts a server off from its peers, not from its clients."""
        ...

    def kill(self, role: str) -> None: ...
    def pause(self, role: str) -> None: ...
    def resume(self, role: str) -> None: ...
    def settle(self) -> None:
        """Undoes all of it; when it returns every server serves."""
        ...

    def wait_leader(self) -> str:
        """Waits until another server leads than at the beginning; returns which."""
        ...


class RealEnsemble:
    """Real servers."""

    def __init__(self, ensemble: BlockingEnsemble) -> None:
        self._ensemble = ensemble
        self._servers: dict[str, BlockingServer] = {}
        self.where: dict[str, Address] = {}

    def assign(self) -> None:
        """Finds out who plays which part now."""
        leader = self._ensemble.leader()
        others = [server for server in self._ensemble.servers if server is not leader]
        self._servers = dict(zip(ROLES, [leader, *others], strict=True))
        self.where = {role: ("127.0.0.1", s.port) for role, s in self._servers.items()}

    def stage(self, root: str, role: str = "leader") -> Stage:
        return Stage(*self.where[role], root, leader=_other(self.where, role))

    def now(self) -> float:
        return time.monotonic()

    def wait(self, seconds: float) -> None:
        time.sleep(seconds)

    def isolate(self, role: str) -> None:
        self._ensemble.isolate(self._servers[role])

    def kill(self, role: str) -> None:
        self._servers[role].kill()

    def pause(self, role: str) -> None:
        self._servers[role].pause()

    def resume(self, role: str) -> None:
        self._servers[role].resume()

    def settle(self) -> None:
        self._ensemble.ensure_serving()

    def wait_leader(self) -> str:
        others = ROLES[1:]

        def leads(role: str) -> bool:
            try:
                return "Mode: leader" in self._servers[role].four_letter("srvr", timeout=1.0)
            except OSError:
                return False

        found: list[str] = []

        def look() -> bool:
            found[:] = [role for role in others if leads(role)]
            return bool(found)

        # A vote that was lost with its connection is repeated, with pauses of up to a minute.
        assert wait_until(look, 90.0), "nobody leads"
        return found[0]


class ModelEnsemble:
    """The model, with settings as `RealEnsemble`'s ensemble has them."""

    def __init__(
        self,
        seed: int,
        version: Version = VERSION,
        backports: frozenset[Feature] = frozenset(),
    ) -> None:
        self.model = Model(
            seed,
            tick=TICK,
            init_limit=40,
            sync_limit=SYNC_LIMIT,
            max_session_timeout=MAX_SESSION,
            version=version,
            backports=backports,
        )
        self.model.start()
        self._servers: dict[str, Server] = {}
        self._isolated: list[Server] = []
        self.where: dict[str, Address] = {}

    def assign(self) -> None:
        """Finds out who plays which part now."""
        leader = self.model.settle()
        others = [server for server in self.model.ensemble.servers if server is not leader]
        self._servers = dict(zip(ROLES, [leader, *others], strict=True))
        self.where = {role: (s.host, 2181) for role, s in self._servers.items()}

    def stage(self, root: str, role: str = "leader") -> Stage:
        return Stage(*self.where[role], root, dial=self._dial, leader=_other(self.where, role))

    def now(self) -> float:
        return self.model.now

    def wait(self, seconds: float) -> None:
        self.model.run(seconds)

    def isolate(self, role: str) -> None:
        server = self._servers[role]
        self._isolated.append(server)
        self.model.cut(server)

    def kill(self, role: str) -> None:
        self._servers[role].kill()

    def pause(self, role: str) -> None:
        self._servers[role].freeze()

    def resume(self, role: str) -> None:
        self._servers[role].thaw()

    def settle(self) -> None:
        self.model.heal()
        for server in self._isolated:
            # As the proxies of the real twin do, which have lost bytes.
            for other in self.model.ensemble.servers:
                self.model.network.reset(server.host, other.host)
        self._isolated.clear()
        for server in self.model.ensemble.servers:
            server.thaw()
        self.model.ensemble.start()
        self.model.settle()

    def wait_leader(self) -> str:
        others = {self._servers[role]: role for role in ROLES[1:]}
        self.model.until(lambda: self.model.ensemble.leader() in others)
        leader = self.model.ensemble.leader()
        assert leader is not None
        return others[leader]

    def _dial(self, address: Address) -> ModelSocket:
        return ModelSocket(self.model, f"{address[0]}:{address[1]}")


def _other(where: Mapping[str, Address], role: str) -> Address | None:
    """The leader, for all that are not."""
    return None if role == "leader" else where["leader"]


class ModelSocket:
    """A blocking socket to the model. While a test waits for it, the time of the model passes."""

    def __init__(self, model: Model, address: str) -> None:
        self._model = model
        self._data = bytearray()
        self._is_over = False
        self._is_broken = False
        self._timeout = PATIENCE
        self._wire: Wire | None = None
        self._is_answered = False
        model.network.connect("127.0.0.1", address, self, self._opened)
        model.until(lambda: self._is_answered, PATIENCE)
        if self._wire is None:
            raise ConnectionRefusedError(address)

    def sendall(self, data: bytes, /) -> None:
        assert self._wire is not None
        self._wire.send(data)

    def recv(self, size: int, /) -> bytes:
        model = self._model
        deadline = model.now + self._timeout
        while not (self._data or self._is_over):
            if model.now >= deadline:
                raise TimeoutError
            model.timeline.advance(deadline)
        if self._is_broken:
            raise ConnectionResetError
        data = bytes(self._data[:size])
        del self._data[:size]
        return data

    def settimeout(self, seconds: float, /) -> None:
        self._timeout = seconds

    def close(self) -> None:
        assert self._wire is not None
        self._wire.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def received(self, data: bytes, /) -> None:
        self._data += data

    def ended(self) -> None:
        self._is_over = True

    def broken(self) -> None:
        self._is_over = self._is_broken = True

    def _opened(self, wire: Wire | None) -> None:
        self._wire = wire
        self._is_answered = True
