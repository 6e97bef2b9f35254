"""Does the faults of a schedule to real servers, links and processes, and undoes them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from aiolead.testing import BlockingEnsemble, BlockingServer, LaunchError

from .actors import Seat
from .diary import Chronicle
from .schedule import HOLDER, Fault, Kind, Schedule

Undo = Callable[[], object]

_GLANCE = 0.02

_ROLL = 5.0
"""How long a server that is restarted has, before the next one is, in seconds."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a fault is done.

    Attributes:
        name: in the history.
        occupies: where no other fault may be done meanwhile.
        server: which, if it is one.
        seat: which, if it is one.
    """

    name: str
    occupies: set[str]
    server: BlockingServer | None = None
    seat: Seat | None = None


class Nemesis:
    """Does faults, and undoes them.

    Args:
        ensemble: the servers; partitionable.
        seats: the contenders.
        chronicle: where it is written down.
    """

    def __init__(
        self, ensemble: BlockingEnsemble, seats: Sequence[Seat], chronicle: Chronicle
    ) -> None:
        self._ensemble = ensemble
        self._seats = seats
        self._chronicle = chronicle
        self._errors: list[Exception] = []
        self._lock = threading.Lock()
        self._busy: set[str] = set()

    def rage(self, schedule: Schedule) -> None:
        """Does all faults at their times; returns when the last one has ended.

        Raises:
            ExceptionGroup: some could not be done.
        """
        start = time.monotonic()
        threads = [
            threading.Thread(target=self._do, args=(fault, start), daemon=True)
            for fault in schedule.faults
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self._errors:
            raise ExceptionGroup("faults that could not be done", self._errors)
        time.sleep(max(0.0, start + schedule.seconds - time.monotonic()))

    def heal(self) -> None:
        """Brings back everything and everybody; returns when all servers serve."""
        for seat in self._seats:
            seat.heal_links()
            if not seat.actor.is_running:
                seat.fill()
            seat.actor.go_on()
        self._ensemble.ensure_serving()
        self._chronicle.healed()

    def _do(self, fault: Fault, start: float) -> None:
        try:
            time.sleep(max(0.0, start + fault.start - time.monotonic()))
            end = start + fault.end
            place = self._take(fault, end + fault.patience)
            if place is None:
                return
            if (now := time.monotonic()) > end:
                end = now + fault.duration
            self._chronicle.fault_began(fault.kind.value, place.name)
            undo = self._begin(fault, place)
            time.sleep(max(0.0, end - time.monotonic()))
            undo()
            self._chronicle.fault_ended(fault.kind.value, place.name)
            with self._lock:
                self._busy -= place.occupies
        except Exception as error:
            # `rage` raises it.
            self._errors.append(error)

    def _take(self, fault: Fault, deadline: float) -> Place | None:
        """Waits until a fault can be done: somebody holds, and nothing else is being done there."""
        while True:
            place = self._place(fault)
            if place is not None and self._occupy(place):
                return place
            if time.monotonic() >= deadline:
                return None
            time.sleep(_GLANCE)

    def _occupy(self, place: Place) -> bool:
        with self._lock:
            is_free = not self._busy & place.occupies
            if is_free:
                self._busy |= place.occupies
        return is_free

    # --- where -----------------------------------------------------------------------------------

    def _place(self, fault: Fault) -> Place | None:
        """Where a fault is to be done, as things are now."""
        servers, number = self._ensemble.servers, fault.target
        holder = self._holder()
        match fault.kind.scope:
            case "contender" | "link" as scope:
                seat = holder if number == HOLDER else self._seats[number]
                if seat is None:
                    return None
                return Place(seat.name, {f"{scope} {seat.name}"}, seat=seat)
            case "servers":
                return Place("all servers", {f"server {server.port}" for server in servers})
            case "server":
                server = _server_of(holder, servers) if number == HOLDER else servers[number]
            case _:
                server = self._member(fault, _server_of(holder, servers))
        occupies = {"network" if fault.kind.scope == "network" else f"server {server.port}"}
        return Place(server.connect_string, occupies, server=server)

    def _holder(self) -> Seat | None:
        """The seat that entered last, of those that have not left. A stopped one counts."""
        since = [(seat.actor.holds_since(), number) for number, seat in enumerate(self._seats)]
        holding = [(at, number) for at, number in since if at is not None]
        return self._seats[max(holding)[1]] if holding else None

    def _member(self, fault: Fault, used: BlockingServer) -> BlockingServer:
        """The leader, or a follower: that of the holder, if the fault aims at the holder."""
        try:
            leader = self._ensemble.leader(timeout=1.0)
        except LaunchError:
            return used
        if fault.kind is Kind.LEADER_ISOLATED:
            return leader
        followers = [server for server in self._ensemble.servers if server is not leader]
        if fault.target == HOLDER and used in followers:
            return used
        return followers[0]

    # --- what ------------------------------------------------------------------------------------

    def _begin(self, fault: Fault, place: Place) -> Undo:
        match fault.kind.scope:
            case "server" if place.server:
                return self._to_server(fault.kind, place.server)
            case "network" if place.server:
                self._ensemble.isolate(place.server)
                return self._ensemble.heal
            case "link" if place.seat:
                return self._to_link(fault, place.seat)
            case "contender" if place.seat:
                return self._to_contender(fault.kind, place.seat)
            case _:
                return self._roll

    def _to_server(self, kind: Kind, server: BlockingServer) -> Undo:
        if kind is Kind.SERVER_STOPPED:
            server.pause()
            return server.resume
        if kind is Kind.SERVER_KILLED:
            server.kill()
        else:
            server.stop()
        return server.launch

    def _roll(self) -> None:
        for server in self._ensemble.servers:
            server.stop()
            server.launch()
            # Without the others it serves late, or not before they are back.
            with suppress(LaunchError):
                server.wait_serving(_ROLL)

    def _to_link(self, fault: Fault, seat: Seat) -> Undo:
        for link in seat.links:
            match fault.kind:
                case Kind.LINK_RESET:
                    link.reset()
                case Kind.LINK_REFUSED:
                    link.refuse()
                    link.reset()
                case Kind.LINK_SILENT:
                    link.blackhole()
                case Kind.LINK_SILENT_TO_SERVER:
                    link.blackhole("to_server")
                case Kind.LINK_SILENT_TO_CLIENT:
                    link.blackhole("to_client")
                case Kind.LINK_STALLED:
                    link.stall()
                case _:
                    link.delay(fault.duration / 20, jitter=fault.duration / 10)
        return seat.heal_links

    def _to_contender(self, kind: Kind, seat: Seat) -> Undo:
        actor = seat.actor
        if kind is Kind.CONTENDER_KILLED:
            actor.kill()
            self._chronicle.killed(actor.name)
            return seat.fill
        actor.stop()
        self._chronicle.stopped(actor.name)

        def go_on() -> None:
            self._chronicle.continued(actor.name)
            actor.go_on()

        return go_on


def _server_of(seat: Seat | None, servers: Sequence[BlockingServer]) -> BlockingServer:
    """The server that somebody is connected to; any, if it is not known."""
    for link, server in zip(seat.links if seat else (), servers, strict=False):
        if link.open_connections:
            return server
    return servers[0]
