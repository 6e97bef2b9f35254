"""The controls that faults use. A part that two faults disturb recovers when both have ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING

from ..._wire.codes import OpCode
from .ensemble import Omission
from .faults import Undo
from .network import Network, Path

if TYPE_CHECKING:
    from .process import Process
    from .schedule import Schedule
    from .timeline import Timeline
    from .world import World


class Levers:
    """The ways in which a world can be harmed.

    Args:
        world: which.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.schedule: Schedule = world.schedule
        self.timeline: Timeline = world.timeline
        self.network: Network = world.network
        self._ensemble = world.ensemble
        self._pressed: Counter[Hashable] = Counter()
        self._blocks: Counter[Process] = Counter()

    def _press(self, key: Hashable, do: Callable[[], object], undo: Callable[[], object]) -> Undo:
        """Does something unless it is done already; gives what undoes it, once nobody wants it."""
        self._pressed[key] += 1
        if self._pressed[key] == 1:
            do()
        released = False

        def release() -> None:
            nonlocal released
            if not released:
                released = True
                self._pressed[key] -= 1
                if not self._pressed[key]:
                    undo()

        return release

    # --- aiming ----------------------------------------------------------------------------------

    def aimed_processes(self, target: str) -> list[Process]:
        """The living processes that a target of `Target.PROCESS` means now."""
        world = self.world
        if target == "all":
            return list(world.alive())
        if target in ("holder", "waiter"):
            process = world.playing(target)
            return [process] if process is not None else []
        names = world.names
        process = world.process(names[int(target[1:]) % len(names)]) if names else None
        return [process] if process is not None and process.is_alive else []

    def aimed_servers(self, target: str) -> list[int]:
        """The servers that a target of `Target.SERVER` means now."""
        leader = self.leader
        if target == "leader":
            return [leader] if leader is not None else []
        if target == "follower":
            others = [sid for sid in self.voters if sid != leader]
            return others[:1]
        if target in ("of-holder", "of-waiter"):
            process = self.world.playing(target.removeprefix("of-"))
            sid = self.server_of(process) if process is not None else None
            return [sid] if sid is not None else []
        return [self.sids[int(target[1:]) % len(self.sids)]]

    def server_of(self, process: Process) -> int | None:
        """The last server that a process was connected to."""
        hosts = [c.server.host for c in self.network.connections() if c.client.host == process.host]
        return next((s.id for s in self._ensemble.servers if hosts and s.host == hosts[-1]), None)

    @property
    def sids(self) -> list[int]:
        """All servers, by their ids."""
        return [server.id for server in self._ensemble.servers]

    @property
    def voters(self) -> list[int]:
        """Those that vote."""
        return [server.id for server in self._ensemble.servers if server.is_voter]

    @property
    def leader(self) -> int | None:
        """The current leader; None if nobody does."""
        leader = self._ensemble.leader()
        return None if leader is None else leader.id

    @property
    def hosts(self) -> list[str]:
        """The hosts of all servers."""
        return [server.host for server in self._ensemble.servers]

    def host(self, sid: int) -> str:
        """The host of a server."""
        return self._ensemble.server(sid).host

    # --- paths -----------------------------------------------------------------------------------

    def silence(self, path: Path, *, keep: bool) -> Undo:
        """Has nothing arrive; later, what was held back does, unless `keep` is false."""
        return self._press(("silent", path), path.silence, lambda: path.heal(keep=keep))

    def slow_down(self, path: Path, most: float) -> Undo:
        """Has packets take up to so many seconds."""
        before = path.range

        def slow() -> None:
            path.range = (before[0], most)

        def fast() -> None:
            path.range = self.world.delays(path)

        return self._press(("slow", path), slow, fast)

    def refuse(self, path: Path) -> Undo:
        """Has connections be refused."""

        def set_(refuses: bool) -> None:
            path.refuses = refuses

        return self._press(("refused", path), lambda: set_(True), lambda: set_(False))

    def drip(self, path: Path, pause: float) -> Undo:
        """Has three bytes arrive at a time, and a pause of so many seconds follow."""

        def set_(drip: tuple[int, float] | None) -> None:
            path.drip = drip

        return self._press(("drip", path), lambda: set_((3, pause)), lambda: set_(None))

    # --- servers ---------------------------------------------------------------------------------

    def kill_server(self, sid: int) -> Undo:
        """Kills a server; starts it again."""
        server = self._ensemble.server(sid)
        return self._press(("killed", sid), server.kill, server.start)

    def freeze_server(self, sid: int) -> Undo:
        """Stops a server; lets it go on."""
        server = self._ensemble.server(sid)
        return self._press(("frozen", sid), server.freeze, server.thaw)

    def slow_disk(self, sid: int, seconds: float) -> Undo:
        """Has a server's log take so many seconds to be written."""
        server = self._ensemble.server(sid)

        def set_(delay: float) -> None:
            server.disk_delay = delay

        return self._press(("disk", sid), lambda: set_(seconds), lambda: set_(0.0))

    def slow_replies(self, sid: int, seconds: float) -> Undo:
        """Has all that a server sends to clients be late by so many seconds."""
        server = self._ensemble.server(sid)

        def set_(delay: float) -> None:
            server.reply_delay = delay

        return self._press(("replies", sid), lambda: set_(seconds), lambda: set_(0.0))

    def apply_late(self, seconds: float) -> Undo:
        """Delay the leader's application of committed entries by so many seconds."""

        def set_(delay: float) -> None:
            for server in self._ensemble.servers:
                server.apply_delay = delay

        return self._press("apply", lambda: set_(seconds), lambda: set_(0.0))

    def lose(self, op: OpCode, times: int, *, applied: bool) -> Undo:
        """Has the next requests of a kind, or their answers, be lost with their connections.

        Args:
            op: which kind.
            times: how many, at each server.
            applied: whether it is the answer that is lost.
        """

        def set_(count: int) -> None:
            for server in self._ensemble.servers:
                if server.is_running:
                    clients = server.clients
                    lost = clients.dropped_replies if applied else clients.dropped_requests
                    lost[op] = count

        return self._press(("lost", op, applied), lambda: set_(times), lambda: set_(0))

    def omit(self, omission: Omission) -> Undo:
        """Has one request be taken and never answered, at whichever server it arrives."""
        servers = self._ensemble.servers
        for server in servers:
            server.omissions.append(omission)

        def undo() -> None:
            omission.is_over = True
            for server in servers:
                server.omissions.remove(omission)

        return undo

    # --- processes and clients -------------------------------------------------------------------

    def stop_process(self, process: Process, after: int) -> Undo:
        """Stops a process; lets it go on.

        Args:
            process: which.
            after: how often one of its tasks is woken before.
        """
        history = self.world.history

        def stop() -> None:
            history.stopped(process.name)
            process.stop(after=after)

        def resume() -> None:
            if process.is_alive:
                history.continued(process.name)
                process.resume()

        return self._press(("stopped", process), stop, resume)

    def block_process(self, process: Process, after: int) -> Undo:
        """Stops the event loop of a process, but not its threads; lets it go on."""
        self._blocks[process] += 1
        resume = self.stop_process(process, after)

        def end() -> None:
            self._blocks[process] -= 1
            resume()

        return end

    def is_stopped(self, process: Process) -> bool:
        """Whether all of a process is stopped, and not its event loop alone."""
        return self._pressed["stopped", process] > self._blocks[process]

    def kill_process(self, process: Process) -> Undo:
        """Kills a process; starts another one in its place."""
        self.world.kill(process)
        return lambda: self.world.restart(process)

    def cancel_task(self, process: Process, which: float, *, twice: bool = False) -> None:
        """Cancels one of the tasks that a program offers for that."""
        self.world.cancel(process, which, twice=twice)

    def close_client(self, process: Process) -> None:
        """Has a program close its client, and go on with a new one."""
        self.world.ask_to_close(process)

    # --- an operator -----------------------------------------------------------------------------

    def end_session(self, process: Process) -> None:
        """Ends the session of a process, as somebody can who knows its password."""
        session_id = self.world.sessions.get(process.name, 0)
        if session_id and self.leader is not None:
            for each in self._with_session(session_id):
                self.world.revoke(each)
            self._ensemble.expire(session_id)

    def delete_znode(self, process: Process, amount: float) -> None:
        """Deletes one of a process's znodes."""
        session_id = self.world.sessions.get(process.name, 0)
        paths = self.world.witness.owned(session_id)
        if paths and self.leader is not None:
            path = paths[min(int(amount * len(paths)), len(paths) - 1)]
            for each in self._with_session(session_id):
                self.world.revoke(each, path.rpartition("/")[0])
            self._ensemble.delete(path)

    def _with_session(self, session_id: int) -> list[Process]:
        """The processes that have a session: one, unless it is shared."""
        sessions = self.world.sessions
        return [each for each in self.world.alive() if sessions.get(each.name) == session_id]

    def delete_line(self, amount: float) -> None:
        """Deletes everything under the path of a line, and the path."""
        lines = self.world.lines
        if lines and self.leader is not None:
            line = lines[min(int(amount * len(lines)), len(lines) - 1)]
            self.world.revoke(None, line)
            for path in self.world.witness.below(line):
                self._ensemble.delete(path)
            self._ensemble.delete(line)
