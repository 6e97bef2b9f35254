"""I9 to I11, I13 and I14: histories that break them, and the nearest that do not."""

from __future__ import annotations

import pytest
from testing.history_builder import BOUNDS, HistoryBuilder, histories, judge

from aiolead.testing.invariants import Bounds


def test_bounds() -> None:
    assert BOUNDS.progress == 4 + 1 + 1 + 1
    assert Bounds().progress == 10 + 5 + (2.5 + 1) + 1
    assert Bounds(session_timeout=4, election=2).progress == 4 + 2 + (1 + 0.4) + 2 + 1
    assert Bounds(session_timeout=4).body == 0.4
    assert Bounds(session_timeout=6).longest_harmless == 2
    assert Bounds(session_timeout=6, harmless=1).longest_harmless == 1


# --- I9: progress, which is due within 7 s -------------------------------------------------------

PROGRESS = """
waiter never served: turn a 1; joined b => I9 at 3.0000: /l: b has waited since 3.0000
    => [is_complete=no] ok;
    withdrew b => ok
waiter after a loss never served: joined a; entered a 1; left a 1 was_lost; 3 joined a
    => I9 at 3.0000: /l: a has waited since 3.0000
holder that never left: entered a 1 => I9 at 0.0000: /l: a has held since 0.0000; killed a => ok
free place taken after 7 s: joined b; entered a 1; 10 left a 1; 17 entered b 2; left b 2 => ok
free place taken after 7.1 s: joined b; entered a 1; 10 left a 1; 17.1 entered b 2; left b 2 => I9
taken 7 s after the healing: fault_began cut; 1 joined a; 50 healed; 57 entered a 2; left a 2 => ok
taken 7.1 s after the healing: fault_began cut; 1 joined a; 50 healed; 57.1 entered a 2; left a 2
    => I9
no progress during a fault: fault_began cut; 1 joined a; 50 entered a 2; left a 2 => ok
no progress during a second fault: fault_began cut; 1 joined a; 2 healed; 3 fault_began cut;
    50 entered a 2; left a 2 => ok;
    healed => ok
taken 7 s after the last healing: fault_began cut; 1 joined a; 2 healed; 3 fault_began cut;
    50 healed; 57 entered a 2; left a 2 => ok
taken 7.1 s after the last healing: fault_began cut; 1 joined a; 2 healed; 3 fault_began cut;
    50 healed; 57.1 entered a 2; left a 2 => I9
nobody waits: turn a 1; turn a 2; 80 joined b; 86 withdrew b; 90 joined c; 96 withdrew c => ok
other waiters come and go: joined a; 1 joined b1; 2 joined b2; 3 joined b3; 4 joined b4;
    5 joined b5; 6 joined b6; 7 joined b7; 8 joined b8; 9 joined b9; 10.1 withdrew b1;
    10.2 withdrew b2; 10.3 withdrew b3; 10.4 withdrew b4; 10.5 withdrew b5; 10.6 withdrew b6;
    10.7 withdrew b7; 10.8 withdrew b8; 10.9 withdrew b9; 12 entered a 1; left a 1 => I9
five turns of 6 s: joined c0; joined c1; joined c2; joined c3; joined c4; 6 entered c0 0; left c0 0;
    12 entered c1 1; left c1 1; 18 entered c2 2; left c2 2; 24 entered c3 3; left c3 3;
    30 entered c4 4; left c4 4 => ok
waiter stopped, then killed: joined b; 1 joined a; 5 stopped b; 6 killed b; 12.9 entered a 2;
    left a 2; withdrew b => I19
waiter stopped twice: joined b; 1 joined a; 5 stopped b; 6 stopped b; 12.9 entered a 2; left a 2;
    withdrew b => ok
waiter stopped, then continued: joined b; 1 joined a; 5 stopped b; 6 continued b; 12.9 entered a 2;
    left a 2; withdrew b => ok
another process killed: joined b; 1 joined a; 5 stopped b; 6 killed c; 12.9 entered a 2; left a 2;
    withdrew b => I9
another process stopped: joined b; 1 joined a; 5 stopped b; 6 stopped c; 12.9 entered a 2; left a 2;
    withdrew b => I9
another process continued: joined b; 1 joined a; 5 stopped b; 6 continued c; 12.9 entered a 2;
    left a 2; withdrew b => I9
resigned place: joined b; entered a 1; 1 stepped_down a 1 resigned; 8.1 entered b 2; left b 2;
    left a 1 => I9
waiter at the end of the history: joined a; 7 reached 'the end' => [is_complete=no] ok;
    7.1 reached 'the end' => [is_complete=no] I9
second of two places free: entered a 1; joined b; 8 reached 'the end'
    => [places=2, is_complete=no] I9 => [is_complete=no] ok
reader's place free: entered a 1 mode=read; joined b; 20 left a 1; 27 reached 'the end'
    => [places=2, is_complete=no] ok;
    27.1 reached 'the end' => [places=2, is_complete=no] I9
"""


# --- I10: first come, first served ---------------------------------------------------------------

ORDER = """
order of the znodes: 1 waits a 1; 2 waits b 2; 3 waits c 3; 4 holds a 1; 5 leaves a 1; gone b 2;
    withdrew b timeout; 6 holds c 3; 7 leaves c 3 => ok
other order: 1 waits a 1; 2 waits b 2; 3 waits c 3; 4 holds c 3; 5 leaves c 3; 6 holds a 1;
    7 leaves a 1; 8 holds b 2; 9 leaves b 2
    => I4 at 4.0000: /l: c (token 3) entered though others were before it | I3 at 6.0000: /l: the
        token of a (token 1) is not above that of c (token 3) | I10 at 6.0000: /l: c (token 3)
        entered before a (token 1), whose znode is older | I3 at 8.0000: /l: the token of b (token
        2) is not above that of c (token 3) | I10 at 8.0000: /l: c (token 3) entered before b (token
        2), whose znode is older
    => [places=2] I4 at 4.0000: /l: c (token 3) entered though others were before it
late without a revocation: 1 waits a 1; 2 waits b 2; 4 holds b 2; leaves b 2; 4.05 entered a 1;
    4.1 left a 1 was_lost; gone a 1 => I4 | I3 | I10
late after a revocation: 1 waits a 1; 2 waits b 2; 3 revoked a; gone a 1; 4 holds b 2; leaves b 2;
    4.05 entered a 1; 4.1 left a 1 was_lost => ok
readers in another order: 1 waits a 1; 2 waits b 2; 3 holds b 2 mode=read; 4 leaves b 2;
    5 holds a 1 mode=read; 6 leaves a 1 => ok
"""


# --- I11: calls end within their limit -----------------------------------------------------------

CALLS = """
call within its limit: 1 began a release 3; began a get 99; began b release;
    4.05 ended a release ConnectionLossError; ended a get => ok
call over its limit: 1 began a release 3; began a get 99; began b release;
    4.2 ended a release ConnectionLossError; ended a get
    => I11 at 4.0000: release of a ended 3.2000 s after it began, not 3
call that has not ended: 1 began a close 3; 4 reached 'the end' => ok; 5 reached 'the end' => I11
second call of a name: 1 began a get 3; 2 ended a get; 9 began a get 3; 10 ended a get;
    99 ended a 'unheard of' => ok
call of a killed process: 1 began host/a get 3; 2 killed host; 9 reached 'the end' => ok
call beside a killed process: 1 began host/a get 3; 2 killed other; 9 reached 'the end' => I11
call of a stopped process: 1 began host/a get 3; 2 stopped host; 6 continued host;
    8 ended host/a get => ok
late call of a stopped process: 1 began host/a get 3; 2 stopped host; 6 continued host;
    8.2 ended host/a get => I11
"""


@pytest.mark.parametrize("end", ["withdrew a timeout", "entered a 1; 50 left a 1", ""])
@pytest.mark.parametrize(("wait", "limit"), [(3.0, 4.0), (0.0, 5.0)])
@pytest.mark.parametrize(("late", "broken"), [(0.05, False), (0.2, True)])
def test_wait_has_a_limit(wait: float, limit: float, late: float, broken: bool, end: str) -> None:
    tale = HistoryBuilder(f"1 joined a wait={wait}").at(limit + late)
    tale.play(f"{end}; 50 reached end" if end else "reached end")
    assert ("I11" in tale.broken()) is broken


# --- I13: nothing is lost without a fault of 1.33 s; faults less than 2 s apart count as one -----

LOSS_AT_10 = "9.5 entered a 1; 10 stepped_down a 1 expired; left a 1 was_lost; 100 healed"
LOSS_AT_20 = "19.5 entered a 1; 20 stepped_down a 1 expired; left a 1 was_lost; 100 healed"

ALARMS = f"""
no fault: {LOSS_AT_10}
    => I13 at 10.0000: /l: a (token 1) lost its hold: expired, and nothing was broken for long
session expired without a fault: 1 session a connected 5; 2 session a suspended 5; healed => ok;
    3 session a expired 5 => I13
unreported loss without a fault: 1 entered a 1; 2 left a 1 was_lost => ok; healed => I13
resigned and revoked holds: 1 entered a 1; 2 stepped_down a 1 resigned; left a 1; 3 entered b 2;
    4 revoked b; left b 2 was_lost; 5 healed => ok
fault of 1.3 s: 8 fault_began cut b; fault_began cut a; 8.1 fault_ended cut b;
    9.3 fault_ended cut a; {LOSS_AT_10} => I13
fault of 1.4 s: 8 fault_began cut b; fault_began cut a; 8.1 fault_ended cut b;
    9.4 fault_ended cut a; {LOSS_AT_10} => ok
end of another fault: 8 fault_began cut a; 8.1 fault_ended cut b; fault_ended stall a;
    9.4 fault_ended cut a; {LOSS_AT_10} => ok
short faults close together: 6 fault_began cut; 7 fault_ended cut; 8.9 fault_began cut;
    9.9 fault_ended cut; {LOSS_AT_10} => ok
short faults apart: 5.9 fault_began cut; 6.9 fault_ended cut; 9 fault_began cut; 10 fault_ended cut;
    {LOSS_AT_10} => I13
fault until the healing: 9.9 fault_began cut; {LOSS_AT_10} => ok
short fault until the healing: 5 fault_began cut; 6 healed; {LOSS_AT_10} => I13
fault that ended 6.9 s before: 10 fault_began cut; 13.1 fault_ended cut; {LOSS_AT_20} => ok
fault that ended 7.1 s before: 10 fault_began cut; 12.9 fault_ended cut; {LOSS_AT_20} => I13
long fault before a short one: 1 fault_began cut; 15 fault_ended cut; 19 fault_began cut;
    19.1 fault_ended cut; {LOSS_AT_20} => ok
severe fault: 9 fault_began 'kill session' severe; fault_ended 'kill session'; {LOSS_AT_10} => ok
fault without duration: 9 fault_began 'kill session'; fault_ended 'kill session'; {LOSS_AT_10}
    => I13
fault of 0.3 s with a limit for holds: 9 fault_began cut; 9.3 fault_ended cut; {LOSS_AT_10}
    => [harmless_to_holds=0.25] ok;
    10 session a expired 5 => [harmless_to_holds=0.25] I13
fault of 0.2 s with a limit for holds: 9 fault_began cut; 9.2 fault_ended cut; {LOSS_AT_10}
    => [harmless_to_holds=0.25] I13;
    10 session a expired 5 => [harmless_to_holds=0.25] I13 | I13
holds left out: 9 fault_began cut; fault_ended cut; {LOSS_AT_10} => [harmless_to_holds=-1.0] ok
closed client: 1 entered a 1; 2 stepped_down a 1 CLOSED; left a 1 was_lost; 3 healed => ok
1 s without a leader: 1 leader_changed s1; 6 leader_changed; 6.1 leader_changed;
    7 leader_changed s2; {LOSS_AT_10} => I13
2 s without a leader: 1 leader_changed s1; 6 leader_changed; 6.1 leader_changed;
    8 leader_changed s2; {LOSS_AT_10} => ok
stop of 1 s: 6 stopped a; 7 continued a; {LOSS_AT_10} => I13
stop of 2 s: 6 stopped a; 8 continued a; {LOSS_AT_10} => ok
"""


# --- I14: a departure wakes few ------------------------------------------------------------------

NOTIFIED_BEFORE = (
    "1 waits a 1; notified #1 @d; 2 waits b 2; notified #2 @d; 3 waits c 3; notified #3 @d; "
    "4 waits d 4; notified #4 @d; 5 holds a 1; 6 leaves a 1"
)

HERD = f"""
two woken: {NOTIFIED_BEFORE}; notified #1 @a; notified #1 @a; notified /elsewhere @a;
    notified #1 @b; notified #1 @b; notified /elsewhere @b; notified #1 @c; notified #1 @c;
    notified /elsewhere @c; notified /elsewhere @d => [is_complete=no] ok
    => [woken=1, is_complete=no] I14 at 6.0000: /l: the deletion of /app/l/lock-0000000001 woke 2
        waiters
three woken: {NOTIFIED_BEFORE}; notified #1 @b; notified #1 @b; notified /elsewhere @b;
    notified #1 @c; notified #1 @c; notified /elsewhere @c; notified #1 @d; notified #1 @d;
    notified /elsewhere @d
    => [is_complete=no] I14 at 6.0000: /l: the deletion of /app/l/lock-0000000001 woke 3 waiters
    => [places=3, is_complete=no] ok
woken after it withdrew: 1 waits a 1; 2 waits b 2; 3 waits c 3; 4 waits d 4; 5 holds a 1; gone d 4;
    withdrew d cancelled; 6 leaves a 1; notified #1 @b; notified #1 @c; notified #1 @d
    => [is_complete=no] ok
woken without waiting: 1 waits a 1; 2 waits b 2; 3 waits c 3; 5 holds a 1; 6 leaves a 1;
    notified #1 @b; notified #1 @c; notified #1 @d => [is_complete=no] ok
two znodes of one name: 1 joined a; node_created #0 1 @a; 2 joined b; node_created #1 2 @b;
    3 joined c; node_created #2 3 @c; 4 joined d; node_created #3 4 @d;
    5 entered a 1 path=#0 session_id=@a; node_deleted #0 6 @a; node_deleted #1 7 @b;
    node_deleted #2 8 @c; node_deleted #3 9 @d; notified #0 @b; notified #0 @c; 6 left a 1 was_lost;
    withdrew b error; withdrew c error; withdrew d error; 7 joined a; node_created #0 11 @a;
    8 joined b; node_created #1 12 @b; 9 joined c; node_created #2 13 @c; 10 joined d;
    node_created #3 14 @d; 11 entered a 11 path=#0 session_id=@a; node_deleted #0 16 @a;
    node_deleted #1 17 @b; node_deleted #2 18 @c; node_deleted #3 19 @d; notified #0 @b;
    notified #0 @d; 12 left a 11 was_lost; withdrew b error; withdrew c error; withdrew d error
    => [is_complete=no] I2 | I2;
    notified #0 @b; notified #0 @c; notified #0 @d => [is_complete=no] I2 | I2 | I14
"""


@histories({"I9": PROGRESS, "I10": ORDER, "I11": CALLS, "I13": ALARMS, "I14": HERD})
def test_history_is_judged(case: str) -> None:
    judge(case)
