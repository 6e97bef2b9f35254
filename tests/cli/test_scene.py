"""What is going on under some paths, by what was told."""

from __future__ import annotations

from dataclasses import replace

import pytest

from aiolead.cli import scene_text
from aiolead.cli.scene import Scene
from aiolead.cli.scene_values import (
    ContenderQueue,
    OwnerConnection,
    QueueState,
    SceneEvent,
    SceneEventType,
)
from aiolead.cli.server_inquiry import ClientConnection
from aiolead.model import SessionState, Stat

NOTHING = Stat(**dict.fromkeys(Stat._fields, 0))
LINK = ClientConnection()
MARKS = {"election": "latch-", "lock": "lock-", "reader": "__READ__", "writer": "__WRIT__"}


class Stage:
    """A scene, and the znodes that make it.

    Znodes are named after their transaction: `a` and 7 make `/a/_c_x-latch-0000000007`. The session
    of each is the transaction, too. They were created when the clock showed 1000.
    """

    def __init__(self, *paths: str, leaders: int | None = None) -> None:
        self.scene = Scene(paths, leaders=leaders)
        self.scene.set_session(SessionState.CONNECTED, 1, 0.0)
        self.told = 0

    def enter(
        self,
        path: str,
        zxid: int,
        *,
        mark: str = "latch-",
        data: bytes | None = b"",
        name: str = "",
    ) -> None:
        node = f"{path}/{name or f'_c_x-{mark}{zxid:010d}'}"
        stat = NOTHING._replace(czxid=zxid, ephemeral_owner=zxid, ctime=1_000_000)
        self.scene.put(node, stat, data if data != b"" else f"host-{zxid}".encode())

    def leave(self, path: str, zxid: int, *, mark: str = "latch-", name: str = "") -> None:
        self.scene.remove(f"{path}/{name or f'_c_x-{mark}{zxid:010d}'}")

    def news(self, now: float, *, is_current: bool = True) -> list[SceneEvent]:
        """What follows from it."""
        self.scene.settle(now, is_current=is_current)
        new = self.scene.since(self.told)
        self.told += len(new)
        return new

    def texts(self, now: float) -> list[str]:
        return [scene_text.event_as_text(one, self.line(one.path).kind) for one in self.news(now)]

    def line(self, path: str) -> ContenderQueue:
        line = self.scene.queue(path)
        assert line is not None
        return line

    def names(self, path: str) -> tuple[list[str | None], list[str | None]]:
        """Who holds, and who waits."""
        line = self.line(path)
        return [term.identity for term in line.terms], [one.identity for one in line.waiting]


def test_a_story() -> None:
    stage = Stage()
    stage.enter("/a", 1)
    stage.enter("/a", 2)
    assert stage.news(5000) == []  # it was so before we looked
    assert stage.line("/a").kind == "election"
    assert stage.names("/a") == (["host-1"], ["host-2"])
    (term,) = stage.line("/a").terms
    assert (term.not_before, term.began, term.is_exact) == (1000, 5000, False)
    assert scene_text.since(term, 5060) == "< 1 h 7 min"

    stage.enter("/a", 3)
    assert stage.texts(5001) == ["host-3 waits"]
    stage.leave("/a", 1)
    assert stage.texts(5002) == ["host-2 leads (token 2), after host-1"]
    (term,) = stage.line("/a").terms
    assert (term.began, term.is_exact, term.gap, scene_text.since(term, 5005.5)) == (
        5002,
        True,
        0,
        "3 s",
    )
    stage.leave("/a", 3)
    stage.leave("/a", 2)
    assert stage.texts(5010) == ["host-2 is gone: nobody leads", "host-3 does not wait any more"]
    assert stage.line("/a").vacant_since == 5010
    stage.enter("/a", 4)
    assert stage.texts(5012.5) == [
        "host-4 leads (token 4), after host-2, 2.5 s with nobody between"
    ]
    assert [(term.token, term.began, term.ended) for term in stage.scene.terms_of("/a")] == [
        (1, 5000, 5002),
        (2, 5002, 5010),
        (4, 5012.5, None),
    ]


def test_whoever_was_there_and_gone_between_two_looks() -> None:
    """The last word is never left out."""
    stage = Stage()
    stage.enter("/a", 1)
    stage.news(1)
    stage.enter("/a", 2)
    stage.leave("/a", 1)
    stage.leave("/a", 2)
    stage.enter("/a", 3)
    (began,) = stage.news(2)
    assert (began.what, began.token, began.before and began.before.token) == (
        SceneEventType.BEGAN,
        3,
        1,
    )


def test_a_crash_is_seen_by_the_silence_of_the_session() -> None:
    stage = Stage()
    stage.enter("/a", 1)
    stage.enter("/a", 2)
    stage.news(10)
    holder, waits = stage.line("/a").contenders
    assert stage.scene.connection_of(holder) is OwnerConnection.UNKNOWN
    stage.scene.set_connected({1: LINK, 2: LINK}, 11)
    assert stage.scene.connection_of(holder) is OwnerConnection.CONNECTED
    # Missing once it may just be moving from one server to another.
    stage.scene.set_connected({2: LINK}, 13)
    assert stage.news(13) == []
    stage.scene.set_connected({2: LINK}, 15)
    assert stage.texts(15) == ["host-1 has no connection, and still holds"]
    assert stage.scene.connection_of(holder) is OwnerConnection.SILENT
    assert stage.scene.connection_of(waits) is OwnerConnection.CONNECTED
    stage.leave("/a", 1)
    assert stage.texts(17) == [
        "host-2 leads (token 2), after host-1, who had no connection for 4.0 s"
    ]
    assert [term.silent_since for term in stage.scene.terms_of("/a")] == [13, None]


def test_a_paused_holder_keeps_its_connection_and_sends_nothing() -> None:
    """Its process is stopped: its session is not renewed, and ends with its timeout."""
    stage = Stage()
    stage.enter("/a", 1)
    stage.enter("/a", 2)
    stage.news(10)

    def heard(count: int, at: float) -> None:
        link = ClientConnection("", count, 10.0)
        stage.scene.set_connected({1: link, 2: replace(link, received=round(at))}, at)

    for at in (11, 13, 15, 16):
        heard(7, at)
    assert stage.news(16) == []
    assert stage.line("/a").state is QueueState.HELD
    heard(7, 17)  # nothing for six of ten seconds
    assert stage.texts(17) == ["host-1 is connected, but silent (stopped?), and still holds"]
    (term,) = stage.line("/a").terms
    assert (term.is_paused, term.silent_since) == (True, 11)
    holder, waits = stage.line("/a").contenders
    assert stage.scene.connection_of(holder) is OwnerConnection.PAUSED
    assert stage.scene.connection_of(waits) is OwnerConnection.CONNECTED
    assert stage.line("/a").state is QueueState.PAUSED
    heard(8, 19)
    assert stage.texts(19) == ["host-1 is back, and still holds"]
    for at in (21, 25):
        heard(8, at)
    stage.leave("/a", 1)
    assert stage.texts(26)[-1] == ("host-2 leads (token 2), after host-1, who was silent for 7.0 s")


def test_a_paused_holder_whose_session_ends_is_not_back() -> None:
    """Its connection is gone a moment before its znode is."""
    stage = Stage()
    stage.enter("/a", 1)
    stage.news(10)
    for at in (11, 17):
        stage.scene.set_connected({1: ClientConnection("", 7, 10.0)}, at)
    assert stage.texts(17) == ["host-1 is connected, but silent (stopped?), and still holds"]
    stage.scene.set_connected({}, 20)
    assert stage.texts(20) == []
    assert stage.line("/a").state is QueueState.PAUSED


def test_silence_that_ends() -> None:
    stage = Stage()
    stage.enter("/a", 1)
    stage.news(10)
    for at in (11, 12):
        stage.scene.set_connected({}, at)
    stage.scene.set_connected({1: LINK}, 13)
    assert [one.what for one in stage.news(13)] == [SceneEventType.SILENT, SceneEventType.BACK]
    for at in (14, 15):
        stage.scene.set_connected({}, at)
    assert [one.what for one in stage.news(15)] == [SceneEventType.SILENT]
    # That nobody tells any more does not mean that it is back.
    stage.scene.set_connected(None, 16)
    assert stage.news(16) == []
    assert stage.line("/a").terms[0].silent_since is None


def test_what_happened_while_our_link_was_lost() -> None:
    stage = Stage()
    stage.enter("/a", 1)
    stage.enter("/a", 2)
    stage.news(2000)
    stage.scene.set_session(SessionState.SUSPENDED, 1, 2010)
    assert not stage.scene.is_current
    stage.scene.set_session(SessionState.CONNECTED, 1, 2020)
    stage.leave("/a", 1)
    (began,) = stage.news(2021)
    assert not began.is_exact
    assert scene_text.event_as_text(began, "election").endswith("(seen late)")
    (term,) = stage.line("/a").terms
    assert (term.not_before, term.began, term.gap) == (2010, 2021, None)
    assert stage.scene.is_current
    stage.leave("/a", 2)
    assert stage.news(2030)[0].is_exact


def test_before_all_was_seen_nothing_happens() -> None:
    stage = Stage()
    stage.enter("/a", 2)
    assert stage.news(1, is_current=False) == []
    stage.enter("/a", 1)
    assert stage.news(2) == []
    assert stage.names("/a") == (["host-1"], ["host-2"])


def test_readers_and_writers() -> None:
    stage = Stage()
    for zxid, mark in ((1, "__READ__"), (2, "__READ__"), (3, "__WRIT__")):
        stage.enter("/l", zxid, mark=mark)
    stage.news(1)
    assert stage.line("/l").kind == "read/write lock"
    assert stage.names("/l") == (["host-1", "host-2"], ["host-3"])
    stage.leave("/l", 1, mark="__READ__")
    assert [(one.what, one.token) for one in stage.news(2)] == [(SceneEventType.ENDED, 1)]
    stage.leave("/l", 2, mark="__READ__")
    (began,) = stage.news(3)
    assert (began.what, began.token, began.before and began.before.token) == (
        SceneEventType.BEGAN,
        3,
        2,
    )


def test_several_leaders() -> None:
    stage = Stage(leaders=2)
    for zxid in (1, 2, 3):
        stage.enter("/a", zxid)
    stage.news(1)
    stage.leave("/a", 1)
    assert [(one.what, one.token, one.before) for one in stage.news(2)] == [
        (SceneEventType.ENDED, 1, None),
        (SceneEventType.BEGAN, 3, None),
    ]
    assert stage.line("/a").terms[1].gap is None  # one of two is no gap
    stage.leave("/a", 2)
    stage.leave("/a", 3)
    assert [one.what for one in stage.news(3)] == [SceneEventType.ENDED, SceneEventType.VACANT]


def test_a_semaphore() -> None:
    stage = Stage()
    stage.enter("/s/locks", 1, mark="lock-")
    stage.news(1)
    assert stage.line("/s/locks").kind == "lock"
    stage.scene.put("/s/leases", NOTHING, None)
    stage.enter("/s/leases", 2, name="_c_x-lease-0000000000")
    assert [one.what for one in stage.news(2)] == [SceneEventType.BEGAN, SceneEventType.JOINED]
    assert stage.scene.queue("/s/locks") is None
    assert stage.line("/s").kind == "semaphore"
    assert stage.names("/s") == (["host-2"], ["host-1"])
    # At the front of the line, it makes its permit; it has that when it leaves the line.
    stat = NOTHING._replace(czxid=5, ephemeral_owner=1)
    stage.scene.put("/s/leases/0000000001-x-lease-0000000001", stat, b"host-1")
    assert stage.news(3) == []
    stage.leave("/s/locks", 1, mark="lock-")
    assert {(one.what, one.token) for one in stage.news(4)} == {
        (SceneEventType.BEGAN, 5),
        (SceneEventType.LEFT, 1),
    }
    assert stage.line("/s").families == []


def test_items_of_a_queue_are_no_contenders() -> None:
    stage = Stage("/known")
    stage.scene.put("/q/item-0000000001", NOTHING, b"")
    stage.scene.put("/a/config", NOTHING, b"")
    stage.scene.put("/", NOTHING, b"")
    stage.news(1)
    assert [(line.path, line.kind) for line in stage.scene.queues] == [("/known", "")]
    # But where somebody was told to look, all of them are shown.
    stage.enter("/known", 1, name="x-0000000001")
    assert [one.what for one in stage.news(2)] == [SceneEventType.BEGAN]
    assert stage.line("/known").kind == "unknown"


def test_paths_that_were_only_given_to_look_under() -> None:
    stage = Stage("/", "/b")
    stage.news(1)
    assert [line.path for line in stage.scene.queues] == ["/b"]
    stage.enter("/b/c", 1)
    stage.news(2)
    assert [line.path for line in stage.scene.queues] == ["/b/c"]
    # But where somebody contends there, too, that is shown.
    stage.enter("/b", 2)
    stage.news(3)
    assert [line.path for line in stage.scene.queues] == ["/b", "/b/c"]


def test_given_path_above_a_queue_is_left_out() -> None:
    stage = Stage("/", "/a", "/b")
    stage.enter("/a/c", 1)
    stage.enter("/ab", 2)
    stage.news(1)
    assert [line.path for line in stage.scene.queues] == ["/a/c", "/ab", "/b"]


def test_what_may_not_be_read_and_what_belongs_to_nobody() -> None:
    stage = Stage()
    stage.enter("/a", 1, data=None)
    stage.news(1)
    stage.scene.put("/a/_c_x-latch-0000000002", NOTHING._replace(czxid=2), b"__REVOKE__two")
    assert stage.texts(2) == ["two waits", "two is asked to release"]
    holder, ghost = stage.line("/a").contenders
    assert stage.scene.connection_of(ghost) is OwnerConnection.NONE
    assert scene_text.name_of(holder.identity) == "(not allowed to read)"
    assert scene_text.name_of("\x1b[2J" + "x" * 100) == r"\x1b[2J" + "x" * 56 + "…"
    stage.scene.put("/a/_c_x-latch-0000000001", NOTHING._replace(czxid=1), b"one")
    assert stage.news(3) == []
    assert stage.line("/a").terms[0].identity == "one"


def test_a_znode_of_the_same_name_is_another_term() -> None:
    stage = Stage()
    stage.enter("/a", 1, name="_c_x-latch-0000000000")
    stage.news(1)
    stage.leave("/a", 1, name="_c_x-latch-0000000000")
    stage.enter("/a", 7, name="_c_x-latch-0000000000")
    assert [(one.what, one.token) for one in stage.news(2)] == [(SceneEventType.BEGAN, 7)]


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aiolead.cli.scene.MOST_QUEUES", 3)
    stage = Stage("/kept")
    stage.news(0)
    for n in range(1, 500):
        path = f"/{n % 10}"
        stage.enter(path, n)
        stage.scene.settle(n)
        stage.leave(path, n)
        stage.scene.settle(n + 0.5)
    assert [line.path for line in stage.scene.queues] == ["/8", "/9", "/kept"]
    assert len(stage.scene.since(0)) == 998
    assert [one.number for one in stage.scene.since(996)] == [997, 998]
    assert stage.scene.since(998) == stage.scene.since(2000) == []
    for n in range(500, 1000):
        stage.enter("/8", n)
        stage.scene.settle(n)
        stage.leave("/8", n)
        stage.scene.settle(n + 0.5)
    assert (len(stage.scene.since(0)), stage.scene.since(0)[-1].number) == (1000, 1998)
    assert len(stage.scene.terms_of("/8")) == 200


def test_as_json() -> None:
    stage = Stage()
    stage.enter("/a", 1)
    stage.enter("/a", 2)
    stage.news(2000)
    stage.leave("/a", 1)
    (began,) = stage.news(2001)
    everything = scene_text.scene_as_json(stage.scene, 2002)
    assert {key: everything[key] for key in everything if key not in ("lines", "others")} == {
        "time": "1970-01-01T00:33:22.000Z",
        "revision": stage.scene.revision,
        "state": "connected",
        "session": "0x1",
        "is_current": True,
        "knows_sessions": False,
        "unreadable": [],
        "incomplete": [],
    }
    (line,) = everything["lines"]
    term = {
        "identity": "host-2",
        "token": 2,
        "session": "0x2",
        "znode": "/a/_c_x-latch-0000000002",
        "began": "1970-01-01T00:33:21.000Z",
        "not_before": "1970-01-01T00:33:21.000Z",
        "ended": None,
        "silent_since": None,
        "is_paused": False,
        "gap": 0,
    }
    assert everything["others"] == []
    assert line == {
        "path": "/a",
        "kind": "election",
        "queue_state": "held",
        "leaders": 1,
        "leaders_by": None,
        "vacant_since": None,
        "terms": [term],
        "contenders": [
            {
                "place": 1,
                "holds": True,
                "identity": "host-2",
                "session": "0x2",
                "link": "unknown",
                "created": "1970-01-01T00:16:40.000Z",
                "token": 2,
                "znode": "/a/_c_x-latch-0000000002",
                "kind": "election",
                "asked_to_go": False,
            }
        ],
        "families": ["curator election"],
    }
    happened = scene_text.event_as_json(began)
    assert happened.pop("before")["identity"] == "host-1"
    assert happened == {
        "number": 1,
        "time": "1970-01-01T00:33:21.000Z",
        "event": "began",
        "path": "/a",
        "identity": "host-2",
        "token": 2,
        "is_exact": True,
        "gap": 0,
    }


def test_the_state_of_a_queue_is_what_matters_most() -> None:
    stage = Stage("/nobody")
    stage.enter("/e", 1)
    stage.enter("/l", 2, mark="lock-")
    # A znode that no session owns is a contender where there is another one.
    stage.scene.put("/p/_c_x-lock-0000000003", NOTHING._replace(czxid=3), b"")
    stage.enter("/p", 6, mark="lock-")
    stage.enter("/m", 4)
    stage.enter("/m", 5, mark="lock-")
    stage.news(1)

    def states() -> dict[str, QueueState]:
        return {queue.path: queue.state for queue in stage.scene.queues}

    assert states() == {
        "/e": QueueState.HELD,
        "/l": QueueState.HELD,
        "/m": QueueState.MIXED,
        "/nobody": QueueState.UNUSED,
        "/p": QueueState.UNOWNED,
    }
    for at in (2, 3):
        stage.scene.set_connected({4: LINK, 5: LINK, 6: LINK}, at)
    assert states()["/e"] is states()["/l"] is QueueState.SILENT
    assert states()["/m"] is QueueState.MIXED
    stage.leave("/e", 1)
    stage.leave("/l", 2, mark="lock-")
    stage.news(4)
    assert (states()["/e"], states()["/l"]) == (QueueState.VACANT, QueueState.FREE)
    stage.scene.may_read("/m", False)
    assert states()["/m"] is QueueState.MIXED
    stage.scene.may_read("/e", False)
    assert states()["/e"] is QueueState.UNREADABLE
    stage.scene.may_read("/e", True)
    assert states()["/e"] is QueueState.VACANT
    assert {each for each in QueueState if each.is_problem} == {
        *(QueueState.UNREADABLE, QueueState.PAUSED),
        *(QueueState.MIXED, QueueState.SILENT, QueueState.UNOWNED, QueueState.VACANT),
    }
