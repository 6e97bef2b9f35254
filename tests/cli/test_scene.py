"""The state of the queues under some paths, derived from the znodes that were seen."""

from __future__ import annotations

from dataclasses import replace

import pytest
from cli.scenes import NOTHING, StagedScene

from aiolead.cli import scene_text
from aiolead.cli.scene import MOST_LOOKS, Scene
from aiolead.cli.scene_values import (
    EnsembleHealth,
    OwnerConnection,
    QueueState,
    SceneEventType,
)
from aiolead.cli.server_inquiry import ClientConnection, ServerAddress
from aiolead.cli.server_survey import Quorum, ServerAnswers, ServerState
from aiolead.model import SessionState

CONNECTION = ClientConnection()


def test_terms_follow_contenders() -> None:
    scene = StagedScene()
    scene.enter("/a", 1)
    scene.enter("/a", 2)
    assert scene.news(5000) == []  # the first look
    assert scene.at("/a").kind == "election"
    assert scene.names("/a") == (["host-1"], ["host-2"])
    (term,) = scene.at("/a").terms
    assert (term.not_before, term.began, term.is_exact) == (1000, 5000, False)
    assert scene_text.since(term, 5060) == "< 1 h 7 min"

    scene.enter("/a", 3)
    assert scene.texts(5001) == ["host-3 waits"]
    scene.leave("/a", 1)
    assert scene.texts(5002) == ["host-2 leads (token 2), after host-1"]
    (term,) = scene.at("/a").terms
    assert (term.began, term.is_exact, term.gap, scene_text.since(term, 5005.5)) == (
        5002,
        True,
        0,
        "3 s",
    )
    scene.leave("/a", 3)
    scene.leave("/a", 2)
    assert scene.texts(5010) == ["host-2 is gone: nobody leads", "host-3 does not wait any more"]
    assert scene.at("/a").vacant_since == 5010
    scene.enter("/a", 4)
    assert scene.texts(5012.5) == [
        "host-4 leads (token 4), after host-2, 2.5 s with nobody between"
    ]
    assert [(term.token, term.began, term.ended) for term in scene.terms_of("/a")] == [
        (1, 5000, 5002),
        (2, 5002, 5010),
        (4, 5012.5, None),
    ]


def test_term_between_two_looks_is_skipped() -> None:
    """The current term is always reported."""
    scene = StagedScene()
    scene.enter("/a", 1)
    scene.news(1)
    scene.enter("/a", 2)
    scene.leave("/a", 1)
    scene.leave("/a", 2)
    scene.enter("/a", 3)
    (began,) = scene.news(2)
    assert (began.what, began.token, began.before and began.before.token) == (
        SceneEventType.BEGAN,
        3,
        1,
    )


def test_session_without_a_connection_is_silent() -> None:
    scene = StagedScene()
    scene.enter("/a", 1)
    scene.enter("/a", 2)
    scene.news(10)
    holder, waits = scene.at("/a").contenders
    assert scene.connection_of(holder) is OwnerConnection.UNKNOWN
    scene.set_connected({1: CONNECTION, 2: CONNECTION}, 11)
    assert scene.connection_of(holder) is OwnerConnection.CONNECTED
    # A session that is missing once may be moving to another server.
    scene.set_connected({2: CONNECTION}, 13)
    assert scene.news(13) == []
    scene.set_connected({2: CONNECTION}, 15)
    assert scene.texts(15) == ["host-1 has no connection, and still holds"]
    assert scene.connection_of(holder) is OwnerConnection.SILENT
    assert scene.connection_of(waits) is OwnerConnection.CONNECTED
    scene.leave("/a", 1)
    assert scene.texts(17) == [
        "host-2 leads (token 2), after host-1, who had no connection for 4.0 s"
    ]
    assert [term.silent_since for term in scene.terms_of("/a")] == [13, None]


def test_holder_that_sends_nothing_is_paused() -> None:
    scene = StagedScene()
    scene.enter("/a", 1)
    scene.enter("/a", 2)
    scene.news(10)

    def heard(count: int, at: float) -> None:
        link = ClientConnection("", count, 10.0)
        scene.set_connected({1: link, 2: replace(link, received=round(at))}, at)

    for at in (11, 13, 15, 16):
        heard(7, at)
    assert scene.news(16) == []
    assert scene.at("/a").state is QueueState.HELD
    heard(7, 17)  # nothing for six of ten seconds
    assert scene.texts(17) == ["host-1 is connected, but silent (stopped?), and still holds"]
    (term,) = scene.at("/a").terms
    assert (term.is_paused, term.silent_since) == (True, 11)
    holder, waits = scene.at("/a").contenders
    assert scene.connection_of(holder) is OwnerConnection.PAUSED
    assert scene.connection_of(waits) is OwnerConnection.CONNECTED
    assert scene.at("/a").state is QueueState.PAUSED
    heard(8, 19)
    assert scene.texts(19) == ["host-1 is back, and still holds"]
    for at in (21, 25):
        heard(8, at)
    scene.leave("/a", 1)
    assert scene.texts(26)[-1] == ("host-2 leads (token 2), after host-1, who was silent for 7.0 s")


def test_paused_holder_whose_session_ends_is_not_back() -> None:
    """Its connection ends before its znode is deleted."""
    scene = StagedScene()
    scene.enter("/a", 1)
    scene.news(10)
    for at in (11, 17):
        scene.set_connected({1: ClientConnection("", 7, 10.0)}, at)
    assert scene.texts(17) == ["host-1 is connected, but silent (stopped?), and still holds"]
    scene.set_connected({}, 20)
    assert scene.texts(20) == []
    assert scene.at("/a").state is QueueState.PAUSED


def test_silence_ends_with_a_connection() -> None:
    scene = StagedScene()
    scene.enter("/a", 1)
    scene.news(10)
    for at in (11, 12):
        scene.set_connected({}, at)
    scene.set_connected({1: CONNECTION}, 13)
    assert [one.what for one in scene.news(13)] == [SceneEventType.SILENT, SceneEventType.BACK]
    for at in (14, 15):
        scene.set_connected({}, at)
    assert [one.what for one in scene.news(15)] == [SceneEventType.SILENT]
    # If the servers stop listing sessions, the holder is not known to be back.
    scene.set_connected(None, 16)
    assert scene.news(16) == []
    assert scene.at("/a").terms[0].silent_since is None


def test_events_during_a_lost_connection_are_inexact() -> None:
    scene = StagedScene()
    scene.enter("/a", 1)
    scene.enter("/a", 2)
    scene.news(2000)
    scene.set_session(SessionState.SUSPENDED, 1, 2010)
    assert not scene.is_current
    scene.set_session(SessionState.CONNECTED, 1, 2020)
    scene.leave("/a", 1)
    (began,) = scene.news(2021)
    assert not began.is_exact
    assert scene_text.event_as_text(began, "election").endswith("(seen late)")
    (term,) = scene.at("/a").terms
    assert (term.not_before, term.began, term.gap) == (2010, 2021, None)
    assert scene.is_current
    scene.leave("/a", 2)
    assert scene.news(2030)[0].is_exact


def test_first_look_makes_no_events() -> None:
    scene = StagedScene()
    scene.enter("/a", 2)
    assert scene.news(1, is_current=False) == []
    scene.enter("/a", 1)
    assert scene.news(2) == []
    assert scene.names("/a") == (["host-1"], ["host-2"])


def test_readers_hold_together() -> None:
    scene = StagedScene()
    for zxid, mark in ((1, "__READ__"), (2, "__READ__"), (3, "__WRIT__")):
        scene.enter("/l", zxid, mark=mark)
    scene.news(1)
    assert scene.at("/l").kind == "read/write lock"
    assert scene.names("/l") == (["host-1", "host-2"], ["host-3"])
    scene.leave("/l", 1, mark="__READ__")
    assert [(one.what, one.token) for one in scene.news(2)] == [(SceneEventType.ENDED, 1)]
    scene.leave("/l", 2, mark="__READ__")
    (began,) = scene.news(3)
    assert (began.what, began.token, began.before and began.before.token) == (
        SceneEventType.BEGAN,
        3,
        2,
    )


def test_several_leaders_hold_together() -> None:
    scene = StagedScene(leaders=2)
    for zxid in (1, 2, 3):
        scene.enter("/a", zxid)
    scene.news(1)
    scene.leave("/a", 1)
    assert [(one.what, one.token, one.before) for one in scene.news(2)] == [
        (SceneEventType.ENDED, 1, None),
        (SceneEventType.BEGAN, 3, None),
    ]
    assert scene.at("/a").terms[1].gap is None  # one of two is no gap
    scene.leave("/a", 2)
    scene.leave("/a", 3)
    assert [one.what for one in scene.news(3)] == [SceneEventType.ENDED, SceneEventType.VACANT]


def test_permits_hold_a_semaphore() -> None:
    scene = StagedScene()
    scene.enter("/s/locks", 1, mark="lock-")
    scene.news(1)
    assert scene.at("/s/locks").kind == "lock"
    scene.put("/s/leases", NOTHING, None)
    scene.enter("/s/leases", 2, name="_c_x-lease-0000000000")
    assert [one.what for one in scene.news(2)] == [SceneEventType.BEGAN, SceneEventType.JOINED]
    assert scene.queue("/s/locks") is None
    assert scene.at("/s").kind == "semaphore"
    assert scene.names("/s") == (["host-2"], ["host-1"])
    # The first contender creates its permit. It holds it once it has left the queue.
    stat = NOTHING._replace(czxid=5, ephemeral_owner=1)
    scene.put("/s/leases/0000000001-x-lease-0000000001", stat, b"host-1")
    assert scene.news(3) == []
    scene.leave("/s/locks", 1, mark="lock-")
    # One event, not two: that it left the queue goes without saying.
    assert scene.texts(4) == ["host-1 has a permit (token 5)"]
    assert scene.at("/s").families == []
    # A permit that passes on is one event. A waiter that gives up is one, too.
    scene.enter("/s/locks", 6, mark="lock-")
    scene.enter("/s/locks", 7, mark="lock-")
    assert scene.texts(5) == ["host-6 waits", "host-7 waits"]
    scene.leave("/s/leases", 2, name="_c_x-lease-0000000000")
    stat = NOTHING._replace(czxid=8, ephemeral_owner=6)
    scene.put("/s/leases/_c_x-lease-0000000002", stat, b"host-6")
    assert scene.texts(6) == ["host-6 has a permit (token 8), after host-2"]
    scene.leave("/s/locks", 6, mark="lock-")
    assert scene.texts(7) == []
    scene.leave("/s/locks", 7, mark="lock-")
    assert scene.texts(8) == ["host-7 does not wait any more"]
    scene.remove("/s/leases/_c_x-lease-0000000002")
    assert scene.texts(9) == ["host-6 is gone"]


def test_items_of_a_queue_are_no_contenders() -> None:
    scene = StagedScene("/known")
    scene.put("/q/item-0000000001", NOTHING, b"")
    scene.put("/a/config", NOTHING, b"")
    scene.put("/", NOTHING, b"")
    scene.news(1)
    assert [(line.path, line.kind) for line in scene.queues] == [("/known", "")]
    # At a given path, all contenders are shown.
    scene.enter("/known", 1, name="x-0000000001")
    assert [one.what for one in scene.news(2)] == [SceneEventType.BEGAN]
    assert scene.at("/known").kind == "unknown"


def test_given_path_with_contenders_below_is_left_out() -> None:
    scene = StagedScene("/", "/b")
    scene.news(1)
    assert [line.path for line in scene.queues] == ["/b"]
    scene.enter("/b/c", 1)
    scene.news(2)
    assert [line.path for line in scene.queues] == ["/b/c"]
    # It is shown once it has contenders.
    scene.enter("/b", 2)
    scene.news(3)
    assert [line.path for line in scene.queues] == ["/b", "/b/c"]


def test_given_path_above_a_queue_is_left_out() -> None:
    scene = StagedScene("/", "/a", "/b")
    scene.enter("/a/c", 1)
    scene.enter("/ab", 2)
    scene.news(1)
    assert [line.path for line in scene.queues] == ["/a/c", "/ab", "/b"]


def test_unreadable_and_unowned_contenders_are_shown() -> None:
    scene = StagedScene()
    scene.enter("/a", 1, data=None)
    scene.news(1)
    scene.put("/a/_c_x-latch-0000000002", NOTHING._replace(czxid=2), b"__REVOKE__two")
    assert scene.texts(2) == ["two waits", "two is asked to release"]
    holder, ghost = scene.at("/a").contenders
    assert scene.connection_of(ghost) is OwnerConnection.NONE
    assert scene_text.name_of(holder.identity) == "(not allowed to read)"
    assert scene_text.name_of("\x1b[2J" + "x" * 100) == r"\x1b[2J" + "x" * 56 + "…"
    scene.put("/a/_c_x-latch-0000000001", NOTHING._replace(czxid=1), b"one")
    assert scene.news(3) == []
    assert scene.at("/a").terms[0].identity == "one"


def test_znode_of_the_same_name_is_another_term() -> None:
    scene = StagedScene()
    scene.enter("/a", 1, name="_c_x-latch-0000000000")
    scene.news(1)
    scene.leave("/a", 1, name="_c_x-latch-0000000000")
    scene.enter("/a", 7, name="_c_x-latch-0000000000")
    assert [(one.what, one.token) for one in scene.news(2)] == [(SceneEventType.BEGAN, 7)]


def test_queues_events_and_terms_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aiolead.cli.scene.MOST_QUEUES", 3)
    scene = StagedScene("/kept")
    scene.news(0)
    for n in range(1, 500):
        path = f"/{n % 10}"
        scene.enter(path, n)
        scene.settle(n)
        scene.leave(path, n)
        scene.settle(n + 0.5)
    assert [line.path for line in scene.queues] == ["/8", "/9", "/kept"]
    assert len(scene.since(0)) == 998
    assert [one.number for one in scene.since(996)] == [997, 998]
    assert scene.since(998) == scene.since(2000) == []
    for n in range(500, 1000):
        scene.enter("/8", n)
        scene.settle(n)
        scene.leave("/8", n)
        scene.settle(n + 0.5)
    assert (len(scene.since(0)), scene.since(0)[-1].number) == (1000, 1998)
    assert len(scene.terms_of("/8")) == 200


def test_scene_and_event_as_json() -> None:
    scene = StagedScene()
    scene.enter("/a", 1)
    scene.enter("/a", 2)
    scene.news(2000)
    scene.leave("/a", 1)
    (began,) = scene.news(2001)
    everything = scene_text.scene_as_json(scene, 2002)
    assert {key: everything[key] for key in everything if key not in ("lines", "others")} == {
        "time": "1970-01-01T00:33:22.000Z",
        "revision": scene.revision,
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
                "priority": None,
                "is_ready": True,
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


def test_state_of_a_queue_is_its_worst_problem() -> None:
    scene = StagedScene("/nobody")
    scene.enter("/e", 1)
    scene.enter("/l", 2, mark="lock-")
    # A znode without a session counts as a contender beside another one.
    scene.put("/p/_c_x-lock-0000000003", NOTHING._replace(czxid=3), b"")
    scene.enter("/p", 6, mark="lock-")
    scene.enter("/m", 4)
    scene.enter("/m", 5, mark="lock-")
    scene.news(1)

    def states() -> dict[str, QueueState]:
        return {queue.path: queue.state for queue in scene.queues}

    assert states() == {
        "/e": QueueState.HELD,
        "/l": QueueState.HELD,
        "/m": QueueState.MIXED,
        "/nobody": QueueState.UNUSED,
        "/p": QueueState.UNOWNED,
    }
    for at in (2, 3):
        scene.set_connected({4: CONNECTION, 5: CONNECTION, 6: CONNECTION}, at)
    assert states()["/e"] is states()["/l"] is QueueState.SILENT
    assert states()["/m"] is QueueState.MIXED
    scene.leave("/e", 1)
    scene.leave("/l", 2, mark="lock-")
    scene.news(4)
    assert (states()["/e"], states()["/l"]) == (QueueState.VACANT, QueueState.FREE)
    scene.may_read("/m", False)
    assert states()["/m"] is QueueState.MIXED
    scene.may_read("/e", False)
    assert states()["/e"] is QueueState.UNREADABLE
    scene.may_read("/e", True)
    assert states()["/e"] is QueueState.VACANT
    assert {each for each in QueueState if each.is_problem} == {
        *(QueueState.UNREADABLE, QueueState.PAUSED),
        *(QueueState.MIXED, QueueState.SILENT, QueueState.UNOWNED, QueueState.VACANT),
    }


A, B = ServerAddress("zk1", 2181), ServerAddress("zk2", 2181)


def health(at: float, first: str, second: str, *, is_met: bool = True) -> EnsembleHealth:
    """The answers of two servers by their modes; without a mode, one is unreachable."""
    answers = [
        ServerAnswers(server, mode=mode)
        if mode
        else ServerAnswers(server, problem="Connection refused", failed=ServerState.UNREACHABLE)
        for server, mode in ((A, first), (B, second))
    ]
    up = sum(map(bool, (first, second)))
    return EnsembleHealth(at, answers, Quorum(3, 2, up, is_met=is_met, source="config"))


def test_failures_of_servers_are_events_and_problems() -> None:
    scene = StagedScene()
    seen: list[list[str]] = []
    for one in (
        # The first answers are the state, and no event.
        health(1.0, "leader", ""),
        health(2.0, "leader", "follower"),
        health(3.0, "", "follower"),
        health(4.0, "", "follower"),
        health(5.0, "", "", is_met=False),
        health(6.0, "follower", "leader"),
    ):
        scene.set_health(one)
        events = scene.news(one.asked)
        seen.append([scene_text.event_as_text(each, "") for each in events])
    assert seen == [
        [],
        ["zk2:2181 is up again (follower)"],
        ["zk1:2181: Connection refused"],
        [],
        ["zk2:2181: Connection refused", "no quorum: 0 of 3 servers up, nothing can change"],
        [
            "zk1:2181 is up again (follower)",
            "zk2:2181 is up again (leader)",
            "there is a quorum again: 2 of 3 servers up",
        ],
    ]
    assert health(1.0, "leader", "").problems == 1
    assert health(1.0, "", "", is_met=False).problems == 3
    assert health(1.0, "leader", "follower").problems == 0


def test_few_of_many_small_znodes_are_read() -> None:
    scene, stat = Scene(), NOTHING._replace(data_length=100)
    assert sum(scene.needs_data(f"/many/{n}", stat) for n in range(5000)) == MOST_LOOKS
    # A rate limit that was read once is read after each change.
    scene.put("/limits/api", stat, b"{}")
    assert all(scene.needs_data("/limits/api", stat) for _ in range(5000))
    # All keys are, once it is known that they are some.
    scene.put("/keys/1", stat, b"__DONE__host-1")
    scene.settle(1.0)
    assert all(scene.needs_data(f"/keys/{n}", stat) for n in range(5000))
    scene.remove("/many")
    assert scene.needs_data("/many/1", stat)
