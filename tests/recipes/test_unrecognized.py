"""Children of a line that are nobody's: whom they block, and whom they break."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiolead.types import UnrecognizedChild, unrecognized_children

MUTEX = "_c_8f2a1c0e-5a0b-4b0e-9c55-0123456789ab-lock-0000000007"
GO, C, JAVA = "go-zookeeper", "ZooKeeper's lock in C", "ZooKeeper's WriteLock"


@pytest.mark.parametrize(
    ("name", "blocks", "breaks"),
    [
        # Sorted by the whole name, as Curator does, it is behind the numbers.
        ("config", (), (GO, C)),
        # And these are before them.
        ("-note", ("Curator",), (GO,)),
        ("!", ("Curator",), (GO, C)),
        ("lock-", ("Curator", C), (GO,)),
        ("old-lock-", ("Curator", C), (GO,)),
        # Numbers, but of no create.
        ("backup-1", (JAVA,), (GO,)),
        ("backup--1", (JAVA,), (GO,)),
        ("7", (GO,), (C,)),
        ("lock-5", (GO, JAVA), ()),
        ("a__5", (GO,), (C,)),
        # To us that is a contender, as to those who go by the digits at the end.
        ("n-0000000003", ("aiolead", "aiozk", JAVA, C), (GO,)),
        ("0000000003", ("aiolead", "aiozk", "Curator", GO), (C,)),
        # Behind everybody who is there.
        ("n-0000000009", (), (GO,)),
    ],
)
def test_whom_it_disturbs(name: str, blocks: tuple[str, ...], breaks: tuple[str, ...]) -> None:
    (found,) = unrecognized_children([MUTEX, name])
    assert found == UnrecognizedChild(name, blocks, breaks)
    assert not found.is_harmless


def test_contenders_are_recognized() -> None:
    assert (
        unrecognized_children([MUTEX, "0123456789abcdef0123456789abcdef__lock__0000000002"]) == ()
    )
    assert unrecognized_children([]) == ()


def test_who_is_harmless() -> None:
    found = unrecognized_children(["n-0000000009", "lock-99", MUTEX])
    assert [(each.name, each.is_harmless) for each in found] == [
        ("lock-99", True),
        ("n-0000000009", False),
    ]


@given(st.lists(st.text("0129-_ !lockxREAD.é", max_size=30), max_size=10))
def test_any_name_may_be_there(names: list[str]) -> None:
    found = unrecognized_children([*names, MUTEX])
    assert [each.name for each in found] == sorted(each.name for each in found)
    assert {each.name for each in found} <= set(names)
