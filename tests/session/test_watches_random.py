"""Watches of all types against a server that behaves as ZooKeeper does, in any order of steps.

The server is the embedded one without its sockets. Requests, changes and lost connections come at
random moments. In any order, a watch gets the next change, and got every change before or a report
of a gap.
"""

from __future__ import annotations

import random
from collections import defaultdict

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from session.script import READS, Script, Watcher
from session.test_persistent_watches import Stream

from aiolead._session.watches import WatchKind
from aiolead._wire.jute import Record
from aiolead._wire.requests import Create, Delete, SetData
from aiolead._wire.versions import Version
from aiolead.errors import ServerError
from aiolead.model import OPEN_ACL_UNSAFE, EventType, MissedReason
from aiolead.testing._server.connection import Connection
from aiolead.testing._server.core import Core
from aiolead.testing._server.settings import Settings
from aiolead.testing._server.transaction import Transaction

PATHS = ["/a", "/a/b", "/d"]
NOW = 1000.0
VERSIONS: list[Version] = [(3, 8, 0), (3, 9, 0)]
"""Before and after watches of several modes on one path could live side by side."""

E = EventType


class World:
    """A client, its server, and another process that writes."""

    def __init__(self, version: Version = VERSIONS[0]) -> None:
        self.script = Script()
        self.core = Core(
            Settings(
                tick_ms=2000,
                min_session_ms=4000,
                max_session_ms=40_000,
                max_frame=1 << 20,
                max_connections=0,
                container_interval_ms=60_000,
                version=version,
            ),
            random.Random(1),
        )
        self.connection: Connection | None = None
        self.streams: list[Stream] = []
        self.told: dict[Stream, list[object]] = defaultdict(list)
        self.watchers: dict[Watcher, tuple[str, str]] = {}
        self.connect()

    def connect(self) -> None:
        if self.connection is None:
            self.connection = self.core.connect("127.0.0.1")
            assert self.connection is not None
            self.script.machine.connection_made(NOW)
            self.exchange()

    def disconnect(self) -> None:
        if self.connection is not None:
            self.core.lost(self.connection)
            self.connection = None
            self.script.machine.connection_lost(NOW)

    def expire(self) -> None:
        self.disconnect()
        self.core.expire(self.script.machine.session_id, NOW)

    def send(self) -> None:
        """The server gets what the client has sent."""
        while self.connection is not None and (data := self.script.machine.data_to_send(NOW)):
            self.core.receive(self.connection, data, NOW)

    def receive(self) -> None:
        """The client gets what the server has sent."""
        self.core.take_woken()
        if self.connection is not None and (data := self.connection.take()):
            try:
                while data:
                    end = 4 + int.from_bytes(data[:4], "big")
                    self.script.machine.receive(data[:end], NOW)
                    data = data[end:]
                    self.read()
            except ServerError:
                raise
            except Exception:  # the session is over
                self.core.lost(self.connection)
                self.connection = None
                self.script.machine.connection_lost(NOW)
        self.read()

    def exchange(self) -> None:
        """Everything that is on its way arrives, and its effects."""
        for _ in range(6):
            self.send()
            self.receive()

    def settle(self) -> None:
        for _ in range(3):
            self.connect()
            self.exchange()

    # --- what the client does ------------------------------------------------------------------

    def open(self, path: str, recursive: bool) -> None:
        self.streams.append(Stream(self.script, path, recursive=recursive))

    def close(self, number: int) -> None:
        if self.streams:
            self.streams.pop(number % len(self.streams)).close()

    def watch(self, read: str, path: str) -> None:
        self.watchers[self.script.watch(read, path)] = (read, path)

    def join(self, path: str) -> None:
        """Read and watch a znode; a second watch joins what reads of its data have armed."""
        self.create(path)
        self.watch("get", path)
        self.exchange()
        armed = (w for w, of in self.watchers.items() if of == ("get", path))
        other = next((w for w in armed if w.slot.kind is WatchKind.DATA), None)
        watcher = Watcher(self.script)
        is_armed = self.script.machine.watches.join_armed(watcher.slot, path, path)
        assert is_armed is (other is not None)
        if other is not None:
            watcher.call = other.call
            self.watchers[watcher] = ("get", path)

    def drop(self, number: int) -> None:
        if self.watchers:
            watcher = list(self.watchers)[number % len(self.watchers)]
            del self.watchers[watcher]
            watcher.close()

    def read(self) -> None:
        for stream in self.streams:
            items = stream.read()
            # Before the answer, a change may be older than the stream: another watch reports it.
            if stream.slot.is_set:
                self.told[stream] += items

    # --- what another process does -------------------------------------------------------------

    def write(self, request: Record) -> bool:
        def apply(transaction: Transaction) -> None:
            match request:
                case Create():
                    transaction.create(request)
                case Delete():
                    transaction.delete(request)
                case SetData():
                    transaction.set_data(request)

        processor = self.core.processor
        try:
            processor.apply(apply, processor.zxid + 1, 0)
        except ServerError:
            return False
        return True

    def create(self, path: str) -> bool:
        return self.write(Create(path, b"", OPEN_ACL_UNSAFE, 0))

    def delete(self, path: str) -> bool:
        return self.write(Delete(path, -1))

    def set(self, path: str) -> bool:
        return self.write(SetData(path, b"%d" % self.core.processor.zxid, -1))

    def is_there(self, path: str) -> bool:
        return self.core.processor.tree.get(path) is not None

    # --- what must hold ------------------------------------------------------------------------

    def check_streams(self) -> None:
        """Between two gaps, the life of each znode has no gap."""
        for stream in self.streams:
            lives: dict[str, EventType] = {}
            for item in self.told[stream]:
                if isinstance(item, MissedReason):
                    lives.clear()
                    continue
                type_, path = item  # type: ignore[misc]
                if type_ in (E.CREATED, E.DELETED):
                    assert lives.get(path) is not type_, f"{type_} twice at {path}"
                    lives[path] = type_
                elif type_ is E.DATA_CHANGED:
                    assert lives.get(path) is not E.DELETED, f"{path} changed, and is not there"
            for path, last in lives.items():
                assert self.is_there(path) is (last is E.CREATED), f"{path} is not {last}"

    def check_one_shots(self) -> None:
        """A watch has fired, or the result of its read is still true."""
        for watcher, (read, path) in self.watchers.items():
            if watcher.is_armed and not watcher.events:
                node = self.core.processor.tree.get(path)
                now: object = None
                if node is not None:
                    now = {
                        "get": node.data,
                        "exists": node.stat().mzxid,
                        "children": set(node.children),
                    }[read]
                found = watcher.call.result()
                if read == "exists":
                    found = None if found is None else found.mzxid
                assert now == (set(found) if read == "children" else found)

    def check_live(self) -> None:
        """Every watch gets the changes that come now."""
        assert all(stream.slot.is_set for stream in self.streams)
        armed = {w: p for w, (_, p) in self.watchers.items() if w.is_armed}
        children = [w for w in armed if w.slot.kind is WatchKind.CHILD]
        self.told.clear()
        for path in PATHS:
            self.create(f"{path}/new")
        self.exchange()
        for watcher in children:
            assert E.CHILDREN_CHANGED in watcher.types
        for path in PATHS:
            self.delete(f"{path}/new")
        for path in PATHS:
            if self.is_there(path) or self.create(path):
                self.set(path)
        for path in reversed(PATHS):
            self.delete(path)
        self.exchange()
        for watcher, path in armed.items():
            assert watcher.events, f"{watcher.slot.kind} of {path} got no event"
        for stream in self.streams:
            told = self.told[stream]
            for path in PATHS:
                sees = path == stream.slot.path or (
                    stream.slot.recursive and path.startswith(stream.slot.path + "/")
                )
                assert ((E.DELETED, path) in told) is sees
            if not stream.slot.recursive:
                changed = (E.CHILDREN_CHANGED, stream.slot.path) in told
                assert changed or stream.slot.path != "/a"


PATH = st.sampled_from(PATHS)
NUMBER = st.integers(0, 5)
STEP = st.one_of(
    st.tuples(st.just("open"), PATH, st.booleans()),
    st.tuples(st.just("close"), NUMBER),
    st.tuples(st.just("watch"), st.sampled_from(list(READS)), PATH),
    st.tuples(st.just("drop"), NUMBER),
    st.tuples(st.just("join"), PATH),
    st.tuples(st.sampled_from(["create", "delete", "set"]), PATH),
    st.tuples(st.sampled_from(["send", "receive", "exchange", "disconnect", "connect", "expire"])),
)


@given(version=st.sampled_from(VERSIONS), steps=st.lists(STEP, max_size=40))
@example(  # another watch of the client reports a change that is older than the stream
    version=VERSIONS[0],
    steps=[("join", "/a"), ("open", "/a", False), ("delete", "/a"), ("join", "/a")],
)
@example(  # a watch is set again behind a deletion that the first stream has seen
    version=VERSIONS[0],
    steps=[
        ("open", "/a", True),
        ("watch", "children", "/a"),
        ("join", "/a"),
        ("open", "/a", False),
        ("delete", "/a"),
    ],
)
@example(  # the same behind a creation, as another stream is closed
    version=VERSIONS[0],
    steps=[
        ("create", "/a"),
        ("open", "/a", True),
        ("open", "/a/b", False),
        ("exchange",),
        ("watch", "exists", "/a/b"),
        ("exchange",),
        ("close", 1),
        ("create", "/a/b"),
    ],
)
@settings(max_examples=150, deadline=None)
def test_watches_get_every_change_or_a_gap(
    version: Version, steps: list[tuple[object, ...]]
) -> None:
    world = World(version)
    for verb, *args in steps:
        getattr(world, str(verb))(*args)
    world.settle()
    # A stream that was being opened when a session ended has failed with it.
    world.streams = [stream for stream in world.streams if stream.slot.is_set]
    world.check_streams()
    world.check_one_shots()
    world.check_live()
    for stream in world.streams:
        stream.close()
    for watcher in world.watchers:
        watcher.close()
    world.settle()
    machine = world.script.machine
    assert len(machine.watches) == 0
    assert machine.watches.persistent.by_path == {}
    assert machine.watches._arming == {}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("recursive", [False, True])
def test_second_stream_does_not_end_a_watch_for_children(recursive: bool, version: Version) -> None:
    world = World(version)
    world.create("/a")
    world.watch("children", "/a")
    world.open("/a", True)
    world.exchange()
    world.open("/a", recursive)
    world.exchange()
    world.check_live()
