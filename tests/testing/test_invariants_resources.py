"""I15, I16, I18, I19, I27, the rare situations, and all checks together."""

from __future__ import annotations

import re

import pytest
from kit.checks import check_each
from testing.history_builder import HistoryBuilder, histories, judge

import aiolead.testing.invariants as invariants
from aiolead.testing.history import KINDS, Event
from aiolead.testing.invariants import (
    INVARIANTS,
    SITUATIONS,
    Reading,
    sometimes,
    violations,
)

# --- I15, I16, I18, I27: resources and requests --------------------------------------------------

RESOURCES = """
leftovers: leftover tasks 0 => ok;
    leftover znodes 2 '/a and /b'; leftover sockets 1
    => I15 at 0.0000: 2 znodes left: /a and /b | I15 at 0.0000: 1 sockets left
requests at the bound: 9 requested 23 150 0 1 4 => ok
requests above the bound: 9 requested 23 151 0 1 4 => I27
requests at the bound with changes: 9 requested 23 154 2 1 4 => ok
requests above the bound with changes: 9 requested 23 155 2 1 4 => I27
requests at the bound of half a timeout: 9 requested 23 75 0 1 2 => ok
requests above the bound of half a timeout: 9 requested 23 76 0 1 2 => I27
given bounds of requests: 9 requested 23 31 2 1 4
    => [requests=10, requests_per_change=10] I27 at 5.0000: session 0x17 sent 31 requests in 4 s
        with 2 changes, at most 30 are allowed => [requests=11, requests_per_change=10] ok
requests of a hostile session: hostile 23; 9 requested 23 10000 0 1 4 => ok
logged error: logged ERROR x => I18
logged critical: logged CRITICAL x => I18
logged warning: logged WARNING 'the connection was lost' => ok
logged debug text: logged DEBUG error => ok
warning of an un-awaited coroutine: logged WARNING "coroutine 'f' was never awaited" => I18
unretrieved exception: logged INFO 'Task exception was never retrieved' => I18
"""


@pytest.mark.parametrize(
    ("counts", "broken"),
    [
        ([1, 2, 3, 4, 5], ["I16"]),
        ([0, 5, 5, 6, 6], ["I16"]),
        ([0, 5, 5, 5, 5], []),  # got going
        ([0, 5, 7, 6, 6], []),
        ([0, 5, 5, 5, 9], []),
        ([5, 4, 3, 2, 1], []),
        ([1, 2, 3, 4], []),  # too few
    ],
)
def test_nothing_grows(counts: list[int], broken: list[str]) -> None:
    tale = HistoryBuilder()
    for number in counts:
        tale.play(f"counted watches {number}; counted znodes 3")
    assert tale.broken() == broken


# --- I19: each hold begins once, and its loss is reported once -----------------------------------

SIGNALS = """
second report of a loss: 1 entered a 1; 2 stepped_down a 1 lost; 3 left a 1 was_lost; 4 entered a 2;
    5 left a 2; 5.1 stepped_down a 2 'found as it was released' => ok;
    6 stepped_down a 2 lost => I19
report of a loss after the next hold: 1 entered a 1; 2 left a 1; 3 entered a 2;
    4 stepped_down a 1 lost; 5 left a 2
    => I19 at 3.0000: /l: a (token 2) entered before it was notified of the loss of its last hold
second hold of one contender: 1 entered a 1; entered /m a 1; 2 entered a 2; 3 left a 1; left /m a 1;
    4 left a 2 => I1 | I19
loss of an unknown hold: 1 entered a 1; 2 left a 1; stepped_down a 2 => I19
end of an unknown hold: 1 entered a 1; 2 left a 1; left a 2 => I19
read of an unknown hold: 1 entered a 1; 2 left a 1; looked a 2 held=no => I19
withdrawal without a wait: withdrew a => I19
"""


@histories({"I15, I18, I27": RESOURCES, "I19": SIGNALS})
def test_history_is_judged(case: str) -> None:
    judge(case)


# --- situations ----------------------------------------------------------------------------------

PHASES = {
    "nowhere": "session p connected 5",
    "acquiring": "joined p/a",
    "waiting": "node_created #1 1 5",
    "holding": "entered p/a 1",
    "releasing": "left p/a 1",
    "gone": "node_deleted #1 2 5",
}
"""The phases of a contender, in order."""

BLOWS = {
    "link lost": "session p suspended 5",
    "reconnected in the session": "session p suspended 5; session p connected 5",
    "session expired": "session p suspended 5; session p expired 5",
    "cancelled": "cancelled p/a",
    "killed": "killed p",
    "stopped": "stopped p",
}

OF_A_PHASE = [name for name in SITUATIONS if name.rpartition(" while ")[2] in PHASES]


@pytest.mark.parametrize("blow", BLOWS)
@pytest.mark.parametrize("phase", PHASES)
def test_situation_by_the_phase_of_a_contender(phase: str, blow: str) -> None:
    names = list(PHASES)
    tale = HistoryBuilder("; ".join(PHASES[name] for name in names[: names.index(phase) + 1]))
    before = sometimes(tale.events)
    tale.play(BLOWS[blow])
    gained = sometimes(tale.events) - before
    gained.pop(f"link lost while {phase}" if blow != "link lost" else "", None)
    is_queued = phase not in ("nowhere", "gone")
    assert gained == ({f"{blow} while {phase}": 1} if is_queued else {})


def test_table_of_situations_is_complete() -> None:
    stems = {name.rpartition(" while ")[0] for name in OF_A_PHASE}
    assert stems == set(BLOWS)
    # The others are in the tests below.
    assert sorted(set(SITUATIONS) - set(OF_A_PHASE)) == [
        "deposed holder refused",
        "handed over after a loss",
        "handed over while something was broken",
        "handed over while there was no leader",
        "joined while something was broken",
        "leader changed while somebody held",
        "line moved while a waiter had no link",
        "resigned",
        "stepped down as the client was closed",
        "stepped down as the connection was lost",
        "stepped down as the servers refused to confirm the znode",
        "stepped down as the session expired",
        "stepped down as the znode was deleted",
        "stepped down by the clock",
        "timed out in the queue",
    ]
    assert len(set(SITUATIONS)) == len(SITUATIONS)


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        pytest.param(
            """session p connected 5; joined p/a; session p expired 5;
            session p connected 6; node_created #1 1 6; session p suspended 6; session p expired 6;
            session p connected 8; session p expired 8;
            session p connected 7; node_created #2 2 7; entered p/a 2; session p expired 7;
            left p/a 2 was_lost; session p expired 7; joined p/a; killed p; killed p""",
            {
                "link lost while waiting": 1,
                "session expired while acquiring": 2,
                "session expired while waiting": 1,
                "session expired while holding": 1,
                "session expired while releasing": 1,
                "killed while acquiring": 1,
            },
            id="ends of sessions and of processes",
        ),
        pytest.param(
            """turn z 0; fault_began cut; fault_began kill; joined a wait=1; fault_ended cut;
            entered a 1; leader_changed; leader_changed s1; left a 1; leader_changed s2; healed;
            joined b; fault_ended kill; withdrew b timeout; leader_changed; entered b 2;
            acted a 1 accepted=no; wrote a x 1 accepted=no; reached something""",
            {
                "joined while something was broken": 1,
                "handed over while something was broken": 1,
                "leader changed while somebody held": 1,
                "timed out in the queue": 1,
                "handed over while there was no leader": 1,
                "deposed holder refused": 2,
                "something": 1,
            },
            id="faults and leaders",
        ),
    ],
)
def test_situations_of_a_history(history: str, expected: dict[str, int]) -> None:
    assert sometimes(HistoryBuilder(history).events) == expected


@pytest.mark.parametrize(
    ("why", "name"),
    [
        ("EXPIRED", "stepped down as the session expired"),
        ("UNCONFIRMED", "stepped down by the clock"),
        ("DELETED", "stepped down as the znode was deleted"),
        ("CLOSED", "stepped down as the client was closed"),
        ("resigned", "resigned"),
    ],
)
def test_situation_of_a_loss_and_the_next_holder(why: str, name: str) -> None:
    end = "left a 1" if why == "resigned" else "left a 1 was_lost"
    tale = HistoryBuilder(f"entered a 1; stepped_down a 1 {why}; {end}; turn b 2; turn c 3")
    seen = sometimes(tale.events)
    assert seen[name] == 1
    assert seen["handed over after a loss"] == (0 if why == "resigned" else 1)


@pytest.mark.parametrize(("client", "count"), [("b", 1), ("a", 0)])
def test_situation_of_a_release_while_a_waiter_is_disconnected(client: str, count: int) -> None:
    tale = HistoryBuilder("session a connected @a; waits a 1; session b connected @b; waits b 2")
    tale.play(
        f"holds a 1; session {client} suspended @{client}; leaves a 1;"
        f"node_deleted /elsewhere/x 9 9; session {client} connected @{client}; gone a 1"
    )
    assert sometimes(tale.events)["line moved while a waiter had no link"] == count


# --- together ------------------------------------------------------------------------------------


def test_every_invariant_has_a_check_and_a_row_in_the_docstring() -> None:
    numbers = [*range(1, 17), 18, 19, *range(21, 28)]
    assert list(INVARIANTS) == [*(f"I{number}" for number in numbers), "lock-set"]
    table = invariants.__doc__ or ""
    for name, check in INVARIANTS.items():
        assert re.search(rf"^\| {name} \| .*`{check.__name__}`", table, re.MULTILINE)
        assert (check.__doc__ or "").startswith(f"{name}: ") or name == "lock-set"
        assert getattr(invariants, check.__name__) is check


def test_violations_are_ordered_by_time_and_can_be_skipped() -> None:
    tale = HistoryBuilder("5 logged ERROR x; 2 leftover tasks 1; 9 joined a")
    assert [w.invariant for w in tale.wrong()] == ["I15", "I18", "I9"]
    assert [w.invariant for w in violations(tale.events, skip={"I18", "I9"})] == ["I15"]


def test_reading_can_be_used_again() -> None:
    tale = HistoryBuilder("turn a 1; joined a")
    reading = Reading(tale.events)
    assert Reading.of(reading) is reading
    assert violations(reading) == violations(reading) == violations(iter(tale.events))
    assert len(violations(reading)) == 1


@check_each("kind", KINDS.values())
def test_any_event_alone_can_be_read(kind: type[Event]) -> None:
    samples = {"str": "x", "int": 5, "float": 1.5, "float | None": 2.5, "bool": True, "Value": 3}
    fields = {n: samples[str(f.type)] for n, f in kind.__dataclass_fields__.items()}
    event = kind(**fields)
    assert len(violations([event])) <= 2
    assert sum(sometimes([event]).values()) <= 1
