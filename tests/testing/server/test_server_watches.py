from __future__ import annotations

import pytest

from aiolead._wire.codes import WatcherType
from aiolead.model import EventType
from aiolead.testing._server.watches import Mode, Watches

CREATED, DELETED = EventType.CREATED, EventType.DELETED
CHANGED, CHILDREN = EventType.DATA_CHANGED, EventType.CHILDREN_CHANGED


@pytest.mark.parametrize(
    ("event", "data_hears", "child_hears"),
    [
        (CREATED, True, False),
        (DELETED, True, True),
        (CHANGED, True, False),
        (CHILDREN, False, True),
    ],
)
def test_which_watch_hears_what_once(event: EventType, data_hears: bool, child_hears: bool) -> None:
    watches: Watches[str] = Watches()
    watches.add_data("/a", "data")
    watches.add_child("/a", "child")
    expected = ["data"] * data_hears + ["child"] * child_hears
    assert watches.trigger(event, "/b") == []
    assert watches.trigger(event, "/a") == expected
    assert watches.trigger(event, "/a") == []
    assert len(watches) == 2 - len(expected)


def test_who_watches_in_both_ways_hears_of_the_deletion_once() -> None:
    watches: Watches[str] = Watches()
    watches.add_data("/a", "both")
    watches.add_child("/a", "both")
    assert watches.trigger(DELETED, "/a") == ["both"]
    assert len(watches) == 0


def test_who_watches_twice_hears_once() -> None:
    watches: Watches[str] = Watches()
    watches.add_data("/a", "me")
    watches.add_data("/a", "me")
    assert watches.trigger(CHANGED, "/a") == ["me"]
    assert watches.trigger(CHANGED, "/a") == []


def test_a_lasting_watch_stays() -> None:
    watches: Watches[str] = Watches()
    watches.add_lasting("/a", "me", Mode.PERSISTENT)
    for event in (CREATED, CHANGED, CHILDREN, DELETED, CREATED):
        assert watches.trigger(event, "/a") == ["me"]
    assert watches.trigger(CREATED, "/a/b") == []


def test_a_recursive_watch_hears_of_everything_below_and_of_no_lists() -> None:
    watches: Watches[str] = Watches()
    watches.add_lasting("/a", "me", Mode.RECURSIVE)
    for path in ("/a", "/a/b", "/a/b/c"):
        for event in (CREATED, CHANGED, DELETED):
            assert watches.trigger(event, path) == ["me"]
        assert watches.trigger(CHILDREN, path) == []
    assert watches.trigger(CREATED, "/ab") == []
    assert watches.remove("/a", "me", WatcherType.ANY)
    assert watches.trigger(CREATED, "/a/b") == []


def test_a_recursive_watch_on_the_root_hears_all() -> None:
    watches: Watches[str] = Watches()
    watches.add_lasting("/", "me", Mode.RECURSIVE)
    assert watches.trigger(CREATED, "/a/b/c") == ["me"]


@pytest.mark.parametrize("type_", [WatcherType.CHILDREN, WatcherType.DATA, WatcherType.ANY])
def test_removing(type_: WatcherType) -> None:
    watches: Watches[str] = Watches()
    assert not watches.remove("/a", "me", type_)
    watches.add_data("/a", "me")
    watches.add_child("/a", "me")
    watches.add_data("/a", "other")
    assert watches.holds("/a", "me", type_)
    assert watches.remove("/a", "me", type_)
    assert not watches.holds("/a", "me", type_)
    assert len(watches) == (1 if type_ is WatcherType.ANY else 2)
    assert not watches.remove("/a", "me", type_)


def test_forgetting_a_watcher_leaves_nothing_of_it() -> None:
    watches: Watches[str] = Watches()
    for path in ("/a", "/b"):
        watches.add_data(path, "me")
        watches.add_child(path, "me")
        watches.add_data(path, "other")
    watches.add_lasting("/c", "me", Mode.RECURSIVE)
    watches.forget("me")
    watches.forget("me")
    assert watches.by_path() == {"/a": {"other"}, "/b": {"other"}}
    assert watches.summary() == (1, 2, 2)
    assert watches.trigger(CREATED, "/c/d") == []


# --- several modes on one path -----------------------------------------------------------------


def test_before_3_9_the_last_of_several_is_all_there_is() -> None:
    """ZOOKEEPER-4466; so it is on a real 3.8."""
    watches: Watches[str] = Watches()
    watches.add_lasting("/a", "me", Mode.PERSISTENT)
    watches.add_data("/a", "me")
    assert [watches.trigger(CHANGED, "/a") for _ in range(2)] == [["me"], []]
    assert [watches.trigger(CHILDREN, "/a") for _ in range(2)] == [["me"], ["me"]]
    watches.add_child("/a", "me")
    watches.add_lasting("/a", "me", Mode.RECURSIVE)
    assert watches.trigger(CHILDREN, "/a") == []
    assert watches.trigger(CREATED, "/a/b") == ["me"]
    watches.add_lasting("/a", "me", Mode.PERSISTENT)
    assert watches.trigger(CREATED, "/a/b") == []
    assert watches.remove("/a", "me", WatcherType.DATA)
    assert watches.trigger(CHANGED, "/a") == []
    assert not watches.knows(WatcherType.PERSISTENT)


def test_from_3_9_on_they_live_side_by_side() -> None:
    watches: Watches[str] = Watches(apart=True)
    watches.add_lasting("/a", "me", Mode.PERSISTENT)
    watches.add_data("/a", "me")
    assert [watches.trigger(CHANGED, "/a") for _ in range(2)] == [["me"], ["me"]]
    watches.add_lasting("/a", "me", Mode.RECURSIVE)
    assert watches.remove("/a", "me", WatcherType.PERSISTENT)
    assert not watches.holds("/a", "me", WatcherType.PERSISTENT)
    assert watches.trigger(CREATED, "/a/b") == ["me"]
    assert watches.trigger(CHILDREN, "/a") == []
    watches.add_child("/a", "me")
    assert [watches.trigger(CHILDREN, "/a") for _ in range(2)] == [["me"], []]
    watches.add_data("/a", "me")
    assert watches.remove("/a", "me", WatcherType.DATA)
    assert not watches.remove("/a", "me", WatcherType.DATA)
    assert watches.trigger(CHANGED, "/a") == ["me"]
    assert watches.remove("/a", "me", WatcherType.RECURSIVE)
    assert watches.trigger(CREATED, "/a/b") == []
    assert len(watches) == 0


def test_all_of_them_are_removed_at_once() -> None:
    watches: Watches[str] = Watches(apart=True)
    watches.add_child("/a", "me")
    watches.add_lasting("/a", "me", Mode.PERSISTENT)
    watches.add_lasting("/a", "me", Mode.RECURSIVE)
    assert watches.remove("/a", "me", WatcherType.ANY)
    assert watches.trigger(DELETED, "/a") == []
    assert len(watches) == 0
