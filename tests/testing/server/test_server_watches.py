"""Which watchers an event reaches, and which watches are left."""

from __future__ import annotations

import pytest

from aiolead._wire.codes import WatcherType
from aiolead.model import EventType
from aiolead.testing._server.watches import Mode, Watches

EVENTS = {
    "created": EventType.CREATED,
    "deleted": EventType.DELETED,
    "changed": EventType.DATA_CHANGED,
    "children": EventType.CHILDREN_CHANGED,
}


def play(watches: Watches[str], text: str) -> None:
    """Play lines: `me data /a` adds a watch, `changed /a: me` is an event and those it reaches.

    `me removes data /a: yes` removes watches, and says whether there were any.
    """
    for step in filter(None, map(str.strip, text.split(";"))):
        words, _, expected = step.partition(":")
        match words.split():
            case [event, path] if event in EVENTS:
                assert watches.trigger(EVENTS[event], path) == expected.split(), step
            case [who, "removes", type_, path]:
                removed = watches.remove(path, who, WatcherType[type_.upper()])
                assert removed is (expected.strip() == "yes"), step
                assert not watches.holds(path, who, WatcherType[type_.upper()])
            case ["left", path]:
                assert sorted(watches.by_path().get(path, ())) == expected.split(), step
            case [who, "data", path]:
                watches.add_data(path, who)
            case [who, "child", path]:
                watches.add_child(path, who)
            case [who, mode, path]:
                watches.add_lasting(path, who, Mode[mode.upper()])


ALL_KINDS = "d data /a; c child /a; p persistent /a; r recursive /a;"


@pytest.mark.parametrize(
    "steps",
    [
        f"{ALL_KINDS} created /b:; created /a: d p r; created /a: p r; left /a: c p r",
        f"{ALL_KINDS} deleted /b:; deleted /a: d p r c; deleted /a: p r; left /a: p r",
        f"{ALL_KINDS} changed /b:; changed /a: d p r; changed /a: p r; left /a: c p r",
        f"{ALL_KINDS} children /b:; children /a: c p; children /a: p; left /a: d p r",
        # A watcher is notified once, however many of its watches an event is for.
        "me data /a; me child /a; deleted /a: me; left /a:",
        "me data /a; me data /a; changed /a: me; changed /a:; left /a:",
        "me persistent /a; created /a/b:; created /ab:",
        "me recursive /a; created /a/b: me; changed /a/b/c: me; deleted /a/b: me; children /a/b:",
        "me recursive /a; created /ab:; me removes any /a: yes; created /a/b:; left /a:",
        "me recursive /; created /a/b/c: me",
        "me removes data /a: no; me data /a; o data /a; me removes data /a: yes; left /a: o",
        "me data /a; me child /a; me removes data /a: yes; me removes data /a: no; left /a: me",
        "me data /a; me child /a; me removes children /a: yes; changed /a: me; left /a:",
        "me data /a; me child /a; me removes any /a: yes; me removes any /a: no; left /a:",
    ],
)
@pytest.mark.parametrize("apart", [False, True], ids=["3.8", "3.9"])
def test_watchers_that_an_event_reaches(steps: str, apart: bool) -> None:
    play(Watches(apart=apart), steps)


def test_last_of_several_modes_replaces_the_others_before_3_9() -> None:
    """ZOOKEEPER-4466; a real 3.8 does so, too."""
    watches: Watches[str] = Watches()
    play(
        watches,
        """me persistent /a; me data /a; changed /a: me; changed /a:; children /a: me;
        children /a: me; me child /a; me recursive /a; children /a:; created /a/b: me;
        me persistent /a; created /a/b:; me removes data /a: yes; changed /a:""",
    )
    assert not watches.knows(WatcherType.PERSISTENT)


def test_several_modes_are_independent_from_3_9_on() -> None:
    watches: Watches[str] = Watches(apart=True)
    play(
        watches,
        """me persistent /a; me data /a; changed /a: me; changed /a: me; me recursive /a;
        me removes persistent /a: yes; created /a/b: me; children /a:; me child /a;
        children /a: me; children /a:; me data /a; me removes data /a: yes;
        me removes data /a: no; changed /a: me; me removes recursive /a: yes; created /a/b:;
        me child /a; me persistent /a; me recursive /a; me removes any /a: yes; deleted /a:""",
    )
    assert len(watches) == 0


def test_forgotten_watcher_has_no_watches() -> None:
    watches: Watches[str] = Watches()
    for path in ("/a", "/b"):
        play(watches, f"me data {path}; me child {path}; other data {path}")
    play(watches, "me recursive /c")
    watches.forget("me")
    watches.forget("me")
    assert watches.by_path() == {"/a": {"other"}, "/b": {"other"}}
    assert watches.summary() == (1, 2, 2)
    play(watches, "created /c/d:")
