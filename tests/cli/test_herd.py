"""`aiolead demo herd`: what a departure costs, by the znode that is watched."""

from __future__ import annotations

import pytest
from kit.cli import OnTerminal, Run, objects, shown

pytestmark = pytest.mark.exhaustive("an edge of the command")


def test_watched_parent_wakes_all_contenders(run: Run) -> None:
    out = shown(run, "demo herd --sizes 2 --sizes 12 --json")
    woken = {(one["watching"], one["contenders"]): one["woken"] for one in objects(out)}
    assert woken["parent", 12] == 11
    assert woken["parent", 2] == 1
    # Its successor, and the contender behind it, which has a look-ahead watch.
    assert woken["predecessor", 2] == 1
    assert woken["predecessor", 12] == 2
    assert all(one["next_leader_after"] > 0 for one in objects(out))


@pytest.mark.promise
def test_text_output_has_a_table_and_bars(run: Run) -> None:
    out = shown(run, "demo herd --sizes 8")
    assert out[0].split()[:2] == ["contenders", "watching"]
    (parent, predecessor) = out[-2:]
    assert parent.split()[:2] == ["8", "parent"]
    assert parent.count("#") > predecessor.count("#") > 0


def test_terminal_shows_what_is_measured() -> None:
    with OnTerminal("demo", "herd", "--sizes", "2") as terminal:
        assert terminal.finish() == 0
    said = [line for line in terminal.shown.splitlines() if line.startswith("aiolead: ")]
    assert said == [
        f"aiolead: measures 2 contenders that watch the {way}" for way in ("parent", "predecessor")
    ]
