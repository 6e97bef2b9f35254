"""Where samples are taken: real servers, a network in front of them, and what they count."""

from __future__ import annotations

import itertools
import operator
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass, replace

import anyio

import aiolead
from aiolead.testing import BlockingEnsemble, BlockingServer
from aiolead.testing.launch import wait_until

from .forwarder import Forwarder

DELAY = 0.001
"""The delay that the network adds each way where it adds any, in seconds."""

_CALM = 0.03
"""After so many seconds without a packet, what was done has been done; see `Site.settled`."""

_PATIENCE = 30.0
"""How long the servers of an ensemble may take to agree, in seconds."""

_JVM = (
    "-Xmx1g",
    "-XX:TieredStopAtLevel=4",
    "-Dznode.container.checkIntervalMs=86400000",
)
"""A server with room and with all its compilers, unlike those of the tests, which start quickly; it
does not look for empty containers, so that nobody's are deleted while something is measured."""


@dataclass(frozen=True, slots=True)
class Setting:
    """The servers and the network of the peers.

    Attributes:
        servers: how many.
        fsync: whether writes wait for the disk.
        delay: the delay that the network adds each way, in seconds.
    """

    servers: int = 1
    fsync: bool = False
    delay: float = 0.0

    @property
    def has_bars(self) -> bool:
        """Whether bars are read here."""
        return self.servers == 1 and not self.fsync

    @property
    def name(self) -> str:
        """As on the command line."""
        words = ["standalone" if self.servers == 1 else "ensemble"]
        return "+".join(words + ["fsync"] * self.fsync + ["delay"] * bool(self.delay))

    @property
    def title(self) -> str:
        """As in tables."""
        servers = "one server" if self.servers == 1 else f"an ensemble of {self.servers}"
        fsync = "writes wait for the disk" if self.fsync else "forceSync=no"
        delay = f"{self.delay * 1000:g} ms added each way" if self.delay else "no delay added"
        return f"{servers}, {fsync}, {delay}"


ALL_SETTINGS = {
    setting.name: setting
    for setting in (
        Setting(servers, fsync, delay)
        for servers in (1, 3)
        for fsync in (False, True)
        for delay in (0.0, DELAY)
    )
}


@dataclass(frozen=True, slots=True)
class Traffic:
    """The counters of all servers together.

    Attributes:
        requests: packets that came in, pings among them.
        packets: packets that went out: answers and events.
        bytes_in: bytes that came in, with the length of each frame.
        bytes_out: bytes that went out, the same. (Servers do not count the lengths; we add them.)
    """

    requests: int = 0
    packets: int = 0
    bytes_in: int = 0
    bytes_out: int = 0

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(*map(operator.add, astuple(self), astuple(other)))

    def __sub__(self, other: Traffic) -> Traffic:
        return Traffic(*map(operator.sub, astuple(self), astuple(other)))

    def each(self, count: int) -> dict[str, float]:
        """The same for one of so many operations, as values of a sample."""
        return {
            "requests": self.requests / count,
            "packets_out": self.packets / count,
            "bytes_in": self.bytes_in / count,
            "bytes_out": self.bytes_out / count,
        }


_QUESTION = Traffic(requests=1, bytes_in=4)
"""The packets that a question itself adds to a server's counters, before the answer."""

_BUFFER = 8192
"""How many characters of such an answer go out as one packet, by the server's count."""


@dataclass(frozen=True, slots=True)
class Glance:
    """A server at a moment.

    Attributes:
        traffic: its counters until then, with the question itself.
        nodes: how many znodes it has.
        outstanding: how many requests it has not answered.
    """

    traffic: Traffic
    nodes: int
    outstanding: int


class CountersError(Exception):
    """The counters of these servers cannot be used."""


class Site:
    """Servers that run. Its counters do not count what it asks them itself.

    Attributes:
        setting: which this is.
        servers: the servers.
        direct: their connect string.
        hosts: where the peers connect: the network in front of them, if there is one.
        forwarder: that network; None if there is none.
        trees: the tops of large trees that were made, by how many znodes are in each.
    """

    def __init__(
        self,
        setting: Setting,
        servers: Sequence[BlockingServer],
        forwarder: Forwarder | None = None,
    ) -> None:
        self.setting = setting
        self.servers = tuple(servers)
        self.direct = connect_string(servers)
        self.hosts = self.direct if forwarder is None else forwarder.hosts
        self.forwarder = forwarder
        self.trees: dict[int, str] = {}
        self._asked = Traffic()
        self._paths = itertools.count(1)
        self._name = uuid.uuid4().hex[:6]

    def make(self, *below: str, data: bytes = b"") -> str:
        """A znode that nobody has used, with znodes below it; its path.

        They are there before the peers come, so that nobody's creating of parents is measured.
        """
        path = f"/bench-{self._name}-{next(self._paths):04d}"

        async def create() -> None:
            async with aiolead.connect(self.direct) as client:
                await client.create(path, data)
                for reply in [client.create(f"{path}/{name}", data) for name in below]:
                    await reply

        anyio.run(create)
        if len(self.servers) > 1:
            wait_until(lambda: len({_srvr(each)["Zxid"] for each in self.servers}) == 1, _PATIENCE)
        return path

    def traffic(self) -> Traffic:
        """The counters of the servers so far."""
        total, owed = Traffic(), Traffic()
        for server in self.servers:
            answer = server.four_letter("mntr")
            said = dict(line.split("\t", 1) for line in answer.splitlines() if "\t" in line)
            self._asked += _QUESTION
            total += Traffic(
                int(said["zk_packets_received"]),
                int(said["zk_packets_sent"]),
                int(said["zk_bytes_received_count"]),
                int(said["zk_response_bytes"]) + int(said["zk_watch_bytes"]),
            )
            # The answer itself is counted afterwards, and only in packets.
            owed += Traffic(packets=-(-len(answer) // _BUFFER))
        total -= self._asked
        self._asked += owed
        return replace(total, bytes_out=total.bytes_out + 4 * total.packets)

    def check_counters(self) -> None:
        """Raises: CountersError: nobody is there, and still they count."""
        before = self.traffic()
        if self.traffic() != before:
            raise CountersError(
                "the counters change with every question: either somebody else uses the servers, "
                "or this version counts its answers in another way than the known ones"
            )

    def settled(self) -> Traffic:
        """The same, once nothing has moved for a moment: events may still be on their way."""
        deadline = time.monotonic() + _PATIENCE
        calm = max(_CALM, 4 * self.setting.delay)
        now, before = self.traffic(), None
        while now != before and time.monotonic() < deadline:
            time.sleep(calm)
            now, before = self.traffic(), now
        return now

    def glance(self) -> Glance:
        """The same at little cost, with what else there is; of the first server."""
        said = _srvr(self.servers[0])
        self._asked += _QUESTION
        traffic = Traffic(
            requests=int(said["Received"]) - self._asked.requests,
            packets=int(said["Sent"]) - self._asked.packets,
        )
        self._asked += Traffic(packets=1)
        return Glance(traffic, int(said["Node count"]), int(said["Outstanding"]))

    def cleared(self, patience: float) -> bool:
        """Waits until no session is left of a peer that has failed; whether that was in time.

        Until then its znodes vanish one after the other, and its watches fire.
        """
        return wait_until(
            lambda: all(server.mntr()["global_sessions"] == "0" for server in self.servers),
            patience,
        )

    def version(self) -> str:
        """The version of the servers."""
        return _srvr(self.servers[0])["Zookeeper version"].partition("-")[0]


def connect_string(servers: Sequence[BlockingServer]) -> str:
    """All servers, those that follow first: where each client has one server, most have such."""
    said = [(_srvr(server)["Mode"] == "leader", server.connect_string) for server in servers]
    return ",".join(where for _, where in sorted(said))


def _srvr(server: BlockingServer) -> dict[str, str]:
    """The answer of a server to `srvr`, by name."""
    lines = (line.partition(": ") for line in server.four_letter("srvr").splitlines())
    return {name: value for name, _, value in lines}


@contextmanager
def serving(servers: int, fsync: bool) -> Iterator[Sequence[BlockingServer]]:
    """Servers with nothing in them."""
    options = {
        "tick_time": 2.0,
        "sync_limit": 10,
        "force_sync": fsync,
        "java_options": _JVM,
        "extra": {"maxSessionTimeout": 120_000},
    }
    if servers == 1:
        with BlockingServer(**options) as server:  # type: ignore[arg-type]
            yield [server]
    else:
        with BlockingEnsemble(servers, **options) as ensemble:  # type: ignore[arg-type]
            yield ensemble.servers


@contextmanager
def network(setting: Setting, servers: Sequence[BlockingServer]) -> Iterator[Site]:
    """The site of a setting in front of servers that run."""
    if not setting.delay:
        yield Site(setting, servers)
        return
    with Forwarder(connect_string(servers)) as forwarder:
        forwarder.tell(f"delay {setting.delay}")
        yield Site(setting, servers, forwarder)
