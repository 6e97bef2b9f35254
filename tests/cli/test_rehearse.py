"""`aiolead demo ensemble`: elections and synchronisations without servers."""

from __future__ import annotations

from typing import Any

import pytest
from kit.cli import Run, objects, shown


def said(run: Run, *arguments: str) -> tuple[int, dict[str, Any]]:
    code, out, err = run("demo ensemble --json", *arguments)
    assert err == []
    (value,) = objects(out)
    return code, value


def test_longest_log_of_a_majority_leads(run: Run) -> None:
    arguments = ("--servers", "5", "--zxids", "9,9,9,8,8", "--down", "1,2")
    code, value = said(run, *arguments)
    assert (code, value["leaders"]) == (0, [3])
    assert [
        (one["server"], one["by"], one["transactions"]) for one in value["synchronisation"]
    ] == [(1, "DIFF", 0), (2, "DIFF", 0), (4, "DIFF", 1), (5, "DIFF", 1)]
    changed = [one for one in value["steps"] if one["why"].startswith("changes")]
    assert [(one["server"], one["vote"], one["why"]) for one in changed] == [
        (n, 3, f"changes from {n} to 3, proposed by 3: its log is longer (1.9 after 1.8)")
        for n in (4, 5)
    ]
    out = shown(run, "demo ensemble", *arguments)
    assert out[0] == "5 voters, quorum 3"
    assert "server 3 leads, in epoch 2 or later, and brings up to date:" in out
    assert any("3  leads: 3 votes" in line for line in out)


def test_second_server_makes_a_majority_and_the_third_joins(run: Run) -> None:
    """The second one makes a majority; the third finds a leader, and joins it."""
    code, value = said(run, "--start", "0,5,10", "--zxids", "9,9,12")
    assert (code, value["leaders"]) == (0, [2])
    decided = {
        one["server"]: (one["doing"], one["vote"], one["at"] // 1)
        for one in value["steps"]
        if one["doing"] != "looking"
    }
    assert decided == {1: ("following", 2, 5), 2: ("leading", 2, 5), 3: ("following", 2, 10)}
    assert [(one["server"], one["by"]) for one in value["synchronisation"]] == [
        (1, "DIFF"),
        (3, "TRUNC"),
    ]


def test_later_epoch_wins_over_a_longer_log(run: Run) -> None:
    """Writes of a leader that had lost its majority must not come back."""
    _, value = said(run, "--zxids", "3,1.9,3", "--epochs", "2,1,1", "--down", "3")
    assert value["leaders"] == [1]
    assert any("epoch 2 is newer than 1" in one["why"] for one in value["steps"])
    assert [(one["server"], one["by"]) for one in value["synchronisation"]] == [
        (2, "TRUNC"),
        (3, "DIFF"),
    ]


def test_observer_has_no_vote(run: Run) -> None:
    _, value = said(run, "--observers", "1", "--zxids", "3,5,4,6")
    assert value["leaders"] == [2]
    assert value["steps"][-1]["why"] == "observes 2"
    assert value["steps"][3]["why"] == "observes: it has no vote"


def test_split_without_a_majority_has_no_leader(run: Run) -> None:
    code, value = said(run, "--servers", "4", "--split", "1,2/3,4")
    assert (code, value["leaders"], value["synchronisation"]) == (1, [], [])
    code, out, _ = run("demo ensemble --servers 4 --split 1,2/3,4")
    assert (code, out[-1]) == (1, "nobody leads: no 3 of the 4 voters that are up reach each other")
    # With three of five on one side, that side goes on.
    code, value = said(run, "--servers", "5", "--split", "1,2/3,4,5")
    assert (code, value["leaders"]) == (0, [5])


@pytest.mark.parametrize(
    ("arguments", "by"),
    [
        (("--zxids", "9,7,9", "--down", "2"), "DIFF"),
        (("--zxids", "9,12,9", "--down", "2"), "TRUNC"),
        (("--log", "1=1.1-1.3,1.5", "--log", "2=1.1-1.4", "--log", "3=1.1-1.3,1.5"), "TRUNC+DIFF"),
        (("--zxids", "900,7,900", "--down", "2"), "SNAP"),
        (("--zxids", "900,7,900", "--down", "2", "--history", "1000"), "DIFF"),
        (("--log", "1=1.1-1.3,2.1", "--log", "2=1.1-1.4", "--log", "3=1.1-1.3,2.1"), "SNAP"),
    ],
)
def test_ways_to_synchronize_a_server(run: Run, arguments: tuple[str, ...], by: str) -> None:
    _, value = said(run, *arguments)
    assert {one["server"]: one["by"] for one in value["synchronisation"]}[2] == by
