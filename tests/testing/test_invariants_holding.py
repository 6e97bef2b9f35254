"""I1 to I4, I23 and the lock-set: histories that break them, and the nearest that do not."""

from __future__ import annotations

from dataclasses import replace

import pytest
from testing.history_builder import BOUNDS, HistoryBuilder, L, histories, judge

from aiolead.errors import LossReason
from aiolead.testing.invariants import Margin, margins, one_holder, told_in_time

# --- I1: at most one holder ----------------------------------------------------------------------

ONE_HOLDER = """
consecutive turns: turn a 1; turn b 2; turn a 3 => ok
empty history: => ok
overlapping holds: entered a 1; 1 entered b 2; 2 left a 1; 3 left b 2
    => I1 at 1.0000: /l: the hold of b (token 2) from 1.0000 to 3.0000 began during that of a (token
        1) from 0.0000 to 2.0000
hold within another: entered a 1; turn b 2; 4 left a 1 => I1
order within one instant: entered a 1; 1 left a 1; entered b 2; 2 entered c 3; left b 2; left c 3
    => I1 at 2.0000: /l: the hold of c (token 3) from 2.0000 to 2.0000 began during that of b (token
        2) from 1.0000 to 2.0000
every extra holder, per queue: 1 entered a 0; entered /a a 0; 2 entered b 1; entered /b b 1;
    3 entered c 2; entered /c c 2; 4 left a 0; left /a a 0; 5 left b 1; left /b b 1; 6 left c 2;
    left /c c 2
    => I1 at 2.0000: /l: the hold of b (token 1) from 2.0000 to 5.0000 began during that of a (token
        0) from 1.0000 to 4.0000 | I1 at 3.0000: /l: the hold of c (token 2) from 3.0000 to 6.0000
        began during that of a (token 0) from 1.0000 to 4.0000 and of b (token 1) from 2.0000 to
        5.0000
killed holder: entered host/a 1; 1 entered /m host/b 1; 2 killed host; turn c 2; turn c 2 line=/m
    => ok
kill of a prefix of the name: entered host/a 1; 2 killed hos; 3 entered c 2; left host/a 1; left c 2
    => I1
kill of a sibling: entered host/a 1; 2 killed host/b; 3 entered c 2; left host/a 1; left c 2 => I1
kill of a child: entered host/a 1; 2 killed host/a/x; 3 entered c 2; left host/a 1; left c 2 => I1
kill of a suffix of the name: entered host/a 1; 2 killed b; 3 entered c 2; left host/a 1; left c 2
    => I1
revoked hold: entered a 1; 1 revoked a; turn b 2 => I9 at 4.0000: /l: a has held since 0.0000;
    5 left a 1 was_lost => ok
entered soon after a revocation: 1 waits a 1; 2 waits b 2; 3 revoked a; gone a 1; 3.05 holds b 2;
    3.1 entered a 1; left a 1 was_lost; 3.2 leaves b 2 => ok
entered long after a revocation: 1 waits a 1; 2 waits b 2; 3 revoked a; gone a 1; 3.05 holds b 2;
    7.1 entered a 1; left a 1 was_lost; 7.2 leaves b 2 => I1
resigned hold: entered a 1; 1 stepped_down a 1 resigned; turn b 2; 5 left a 1 => ok
stubborn body after its loss: entered a 1 stubborn; 1 stepped_down a 1 lost; turn b 2;
    5 left a 1 was_lost => ok
other body after its loss: entered a 1; 1 stepped_down a 1 lost; turn b 2; 5 left a 1 was_lost => I1
stubborn body that has read its loss: entered a 1 stubborn; 1 looked a 1 held=no; turn b 2;
    5 looked a 1 held=no; 6 left a 1 was_lost => ok
stubborn body that reads a hold again: entered a 1 stubborn; 1 looked a 1 held=no;
    2 looked a 1 held; turn b 2; 6 left a 1 was_lost => I1
stopped holder: entered host/a 1; 1 stopped host; 6 entered b 2; 9 continued host;
    9.5 left host/a 1 was_lost; 10.5 left b 2 => ok
holder that has just continued: entered host/a 1; 1 stopped host; 5.9 continued host; 6 entered b 2;
    6.2 left host/a 1 was_lost; 7.2 left b 2 => ok
holder that uses more time than it missed: entered host/a 1; 4 stopped host; 5 continued host;
    6 entered b 2; 7.5 left host/a 1 was_lost; 8.5 left b 2 => I1
holder 0.05 s over the time it missed: entered host/a 1; 4 stopped host; 5 continued host;
    6 entered b 2; 7.05 left host/a 1 was_lost; 8.05 left b 2 => ok
stop long before the next hold: entered host/a 1; 1 stopped host; 5 continued host; 9.5 entered b 2;
    10 left host/a 1 was_lost; 11 left b 2 => I1
stop before the hold: stopped a; 3 continued a; 4 entered a 1; 5 entered b 2; 6 left a 1; left b 2
    => I1
process continued twice: entered a 1; 1 stopped a; 2 continued a; 6 continued a; 7 entered b 2;
    8 left a 1; left b 2 => I1
stop after the next hold: entered a 1; 1 entered b 2; 2 stopped a; 9 continued a; left a 1; left b 2
    => I1
stop of the next holder: entered a 1; 1 stopped b; 6 continued b; 7 entered b 2; 7.5 left a 1;
    left b 2 => I1
stop of a late waiter: joined b; 1 stopped b; 6 entered a 1; 7 continued b; entered b 2; 8 left b 2;
    9 left a 1 => I1
process stopped forever: entered a 1; 1 stopped a; turn b 2 => [is_complete=no] ok
continued process reads a hold: entered a 1; 1 stopped a; 6 entered b 2; 9 continued a;
    looked a 1 held; 9.2 left a 1 was_lost; 10 left b 2 => I1
continued process reads its loss: entered a 1; 1 stopped a; 6 entered b 2; 9 continued a;
    looked a 1 held=no; 9.2 left a 1 was_lost; 10 left b 2 => ok
continued process reads a hold after two others: entered a 1; 1 stopped a; 3 entered b 2;
    4 left b 2; 5 continued a; 5.1 looked a 1 held; 5.2 entered c 3; 5.3 left a 1 was_lost;
    6 left c 3 => I1
continued process reads its hold before the next one: entered a 1; 1 stopped a; 2 continued a;
    looked a 1 held; 3 left a 1; turn b 2 => ok
reads of a hold after its end: entered a 1; 1 looked a 1 held; 2 left a 1 => ok;
    3 looked a 1 held; 4 entered a 2; 5 stepped_down a 2 lost; 6 looked a 2 held;
    7 left a 2 was_lost => I1 | I1
third holder of two places: 1 entered a 1; 2 entered b 2; 3 entered c 3
    => [places=2, is_complete=no] I1
stopped holder without a znode was overtaken: 0.1 creates a 1; entered a 1 path=#1 session_id=@a;
    1 stopped a; 0.2 creates b 2; entered b 2 path=#2 session_id=@b; 1 stopped b;
    2 node_deleted #1 9; 3 entered c 3; 4 continued b; looked b 2 held; 4.1 left b 2; 5 continued a;
    left a 1 was_lost => [places=2, is_complete=no] ok
stopped holder without a znode reads a hold: 0.1 creates a 1; entered a 1 path=#1 session_id=@a;
    1 stopped a; 0.2 creates b 2; entered b 2 path=#2 session_id=@b; 1 stopped b;
    2 node_deleted #2 9; 3 entered c 3; 4 continued b; looked b 2 held; 4.1 left b 2; 5 continued a;
    left a 1 was_lost => [places=2, is_complete=no] I1
permits of several holders: 1 entered a 1 permits=2; 2 entered b 2; 3 left b 2;
    4 entered c 3 permits=2 => [places=3, is_complete=no] I1
two readers: 1 entered a 1 mode=read; 2 entered b 2 mode=read; 3 left a 1; 4 left b 2 => ok
writer beside a reader: 1 entered a 1 mode=read; 2 entered b 2 mode=write; 3 left a 1; 4 left b 2
    => I1
reader beside a writer: 1 entered a 1 mode=write; 2 entered b 2 mode=read; 3 left a 1; 4 left b 2
    => I1
two writers: 1 entered a 1 mode=write; 2 entered b 2 mode=write; 3 left a 1; 4 left b 2 => I1
stopped holder of two places: entered a 1; entered b 2; 1 stopped a; 6 entered c 3; entered d 4
    => [places=2, is_complete=no] I1
stopped writer: entered a 1 mode=write; 1 stopped a; 6 entered b 2 mode=write => [is_complete=no] ok
writer beside the last reader: entered a 0 mode=read; 1 entered b 1 mode=read;
    2 entered c 2 mode=read; 4 left a 0; left b 1; 5 entered w 9 mode=write; 6 left c 2; left w 9
    => I1
"""


def test_one_holder_reports_at_most_20_violations_of_a_queue() -> None:
    tale = HistoryBuilder(
        "; ".join(f"{number} entered c{number} {number}" for number in range(100))
    )
    assert len(one_holder(tale.events, BOUNDS)) == 20


def test_places_can_differ_by_queue() -> None:
    tale = HistoryBuilder("1 entered a 1; 2 entered b 2; 3 entered c 3")
    assert len(one_holder(tale.events, replace(BOUNDS, places={L: 3}))) == 0
    assert len(one_holder(tale.events, replace(BOUNDS, places={"/other": 3}))) == 2


# --- I2: the body ends before the servers delete the znode ---------------------------------------

STOP_IN_TIME = """
body ends before the delete: fault_began cut a; waits a 1; holds a 1; 3 left a 1 was_lost;
    4.25 gone a 1 => ok
body ends after the delete: fault_began cut a; waits a 1; holds a 1; 4.25 gone a 1;
    4.5 left a 1 was_lost
    => I2 at 4.2500: /l: the znode of a (token 1) was deleted at 4.2500, 0.2500 s before
        its body had ended
resigned body ends after the delete: waits a 1; holds a 1; 1 stepped_down a 1 resigned;
    gone a 1 by=@a; 2 left a 1 => ok
deleted by its session: fault_began cut a; waits a 1; holds a 1; 3 left a 1 was_lost;
    3.1 gone a 1 by=@a; 10 healed => ok
body that never ends: waits b 2; 2 holds b 2; 3 stepped_down b 2 lost; 4 gone b 2
    => [is_complete=no] I2
read of a hold whose znode is gone: waits a 1; holds a 1; 4 gone a 1; 5 looked a 1 held
    => [is_complete=no] I2
revoked hold: waits a 1; holds a 1; 1 revoked a; 1.1 gone a 1 by=7; 1.2 left a 1 was_lost => ok
hold of a stopped process: waits a 1; holds a 1; 1 stopped a; 5 gone a 1; 6 continued a;
    6.2 left a 1 was_lost => ok
hold of a process stopped again: waits a 1; holds a 1; 1 stopped a; 5 gone a 1; 6 continued a;
    6.1 stopped a; 9 continued a; 9.1 left a 1 was_lost => ok
hold that goes on between two stops: waits a 1; holds a 1; 1 stopped a; 5 gone a 1; 6 continued a;
    11.5 stopped a; 12 continued a; 12.2 left a 1 was_lost => I2
hold that goes on until it is stopped for good: waits a 1; holds a 1; 1 stopped a; 5 gone a 1;
    6 continued a; 11.5 stopped a => [is_complete=no] I2
znode created before the revocation: waits a 1; holds a 1; 1 stepped_down a 1 lost; 1.5 gone a 1;
    2 creates a 2; 2.5 revoked a; 2.7 left a 1 was_lost; joined a; holds a 2; 2.9 gone a 2;
    3 left a 2 was_lost => ok
znode created after the revocation: waits a 1; holds a 1; 1 stepped_down a 1 lost; 1.5 gone a 1;
    2.5 revoked a; 2.6 creates a 2; 2.7 left a 1 was_lost; joined a; holds a 2; 2.9 gone a 2;
    3 left a 2 was_lost => I2
delete by an unannounced operator: fault_began cut a; waits a 1; holds a 1; 1.1 gone a 1 by=7;
    1.2 left a 1 was_lost => I2 | I26
"""


LOST = "fault_began cut a; waits a 1; holds a 1; "


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        (LOST + "3 left a 1 was_lost; 4.25 gone a 1", [Margin(L, "a", 1, "", 3.0, 4.25)]),
        (LOST + "4.25 gone a 1; 4.5 left a 1 was_lost", [Margin(L, "a", 1, "", 4.5, 4.25)]),
        # A deletion that is recorded twice happened at the first time.
        (LOST + "3 left a 1 was_lost; 4 gone a 1; 5 gone a 1", [Margin(L, "a", 1, "", 3.0, 4.0)]),
        (
            """fault_began cut; waits a 1; holds a 1; 2 stepped_down a 1 because;
            2.25 left a 1 was_lost; 3 gone a 1; waits b 2; 4 holds b 2; 5 left b 2; 9 gone b 2""",
            [Margin(L, "a", 1, "because", 2.25, 3.0)],
        ),
        # There is no margin where the servers did not end the hold, or where an end is missing.
        (LOST + "3 left a 1 was_lost; 3.1 gone a 1 by=@a", []),
        ("waits a 1; holds a 1; 1 left a 1 was_lost", []),
        ("waits b 2; 2 holds b 2; 3 stepped_down b 2 lost; 4 gone b 2", []),
        ("waits a 1; holds a 1; 1 revoked a; left a 1 was_lost; 2 gone a 1", []),
        ("waits a 1; holds a 1; 1 revoked a; 1.1 gone a 1 by=7; 1.2 left a 1 was_lost", []),
        ("waits a 1; holds a 1; 1 stepped_down a 1 resigned; gone a 1 by=@a; 2 left a 1", []),
        (
            "waits a 1; holds a 1; 1 stopped a; 5 gone a 1; 6 continued a; 6.2 left a 1 was_lost",
            [],
        ),
    ],
)
def test_margins(history: str, expected: list[Margin]) -> None:
    assert margins(HistoryBuilder(history).events, BOUNDS) == expected


def test_margin_in_seconds() -> None:
    assert Margin(L, "a", 1, "", 3.0, 4.25).seconds == 1.25
    assert Margin(L, "a", 1, "", 4.5, 4.25).seconds == -0.25


# --- I3: fencing tokens rise ---------------------------------------------------------------------

FENCING = """
smaller token: turn a 5; turn b 4
    => I3 at 5.0000: /l: the token of b (token 4) is not above that of a (token 5)
same token: turn a 5; turn b 5
    => I3 at 5.0000: /l: the token of b (token 5) is also that of a (token 5)
below an earlier token: turn a 5; turn b 3; turn c 4 => I3 | I3
same token at two places: turn a 5; turn b 3 => [places=2] ok; turn c 3 => [places=2] I3
two readers: 1 entered read 5 mode=read; 2 left read 5; 3 entered read 4 mode=read; 4 left read 4
    => ok
writer after a reader: 1 entered read 5 mode=read; 2 left read 5; 3 entered write 4 mode=write;
    4 left write 4 => I3
reader after a writer: 1 entered write 5 mode=write; 2 left write 5; 3 entered read 4 mode=read;
    4 left read 4 => I3
two writers: 1 entered write 5 mode=write; 2 left write 5; 3 entered write 4 mode=write;
    4 left write 4 => I3
token beside the czxid: joined a; creates a 7; entered a 8 path=#7; left a 8; gone a 7 by=@a
    => I3 at 0.0000: /l: the token of a (token 8) is not the czxid 7 of its znode
smaller token at a resource: entered a 1; acted a 1; acted a 1; left a 1; entered b 2; acted a 1;
    acted b 2 resource=another; acted a 1; acted b 2; acted a 1 accepted=no; acted b 2; left b 2
    => ok;
    acted a 1 => I3 at 0.0000: /l: a (token 1) was not refused although token 2 was seen before;
    acted a 1
    => I3 at 0.0000: /l: a (token 1) was not refused although token 2 was seen before | I3 at
        0.0000: /l: a (token 1) was not refused although token 2 was seen before
holder refused by a resource: 1 entered a 1; 2 acted a 1 accepted=no; 3 left a 1
    => I3 at 2.0000: /l: a (token 1) was refused although it holds
refused without a hold: 1 entered a 1; 2 left a 1; acted a 1 accepted=no; 3 acted b 2 accepted=no
    => ok
overtaken holder refused: entered a 1; 1 stopped a; 6 entered b 2; acted b 2; 7 continued a;
    acted a 1 accepted=no; left a 1 was_lost; 8 left b 2 => ok
smaller token of two holders refused: entered a 1; entered b 2; acted b 2; acted a 1 accepted=no;
    left a 1; left b 2 => [places=2] ok
smaller token of the second holder refused: entered b 2; acted b 2; entered a 1;
    acted a 1 accepted=no; left a 1; left b 2 => [places=2] ok
smaller token of the second reader refused: entered b 2 mode=read; acted b 2; entered a 1 mode=read;
    acted a 1 accepted=no; left a 1; left b 2 => ok
"""


# --- I4: acquire returns with the first znode ----------------------------------------------------

TRUTHFUL = """
first in the queue: 1 waits a 1; holds a 1; 2 waits b 2; 3 leaves a 1; holds b 2; 4 leaves b 2 => ok
older znode in front: 1 waits a 1; 2 waits b 2; 3 holds b 2; 4 leaves b 2; 5 holds a 1; 6 leaves a 1
    => I4 at 3.0000: /l: b (token 2) entered though others were before it | I3 at 5.0000: /l: the
        token of a (token 1) is not above that of b (token 2) | I10 at 5.0000: /l: b (token 2)
        entered before a (token 1), whose znode is older
own znode gone before the older one: 1 waits a 1; waits b 2; 2 gone b 2; 3 gone a 1; 4 holds b 2;
    left b 2 was_lost; withdrew a error => I2 | I4
first for a moment: 1 waits a 1; waits b 2; 2 gone a 1; 3 gone b 2; 4 holds b 2; left b 2;
    withdrew a error => I2
own znode gone before the call: 1 creates a 1; 2 gone a 1; 3 joined a; holds a 1; left a 1
    => I2 | I4
deleted by an operator before the report: 1 creates a 1; 2 revoked a; gone a 1; 3 joined a;
    revoked a; holds a 1; 4 left a 1 was_lost => ok
deleted by its session before the report: 1 creates a 1; 2 revoked a; gone a 1 by=@a; 3 joined a;
    revoked a; holds a 1; 4 left a 1 was_lost => I4
no znode: node_created /app/l/another 5 7; joined a; holds a 1; left a 1 => I4
servers not recorded: joined a; holds a 1; left a 1 => ok
znode of another session: 1 joined a; node_created #1 1 119; holds a 1; left a 1;
    node_deleted #1 9 119
    => I4 at 1.0000: /l: a (token 1) entered with a znode of the session 0x77:
        /app/l/lock-0000000001
persistent and other znodes in front: node_created /app/l/plain 1;
    node_created /elsewhere/lock-1 2 7; waits a 3; holds a 3; leaves a 3 => ok
path created again: 1 waits a 1; 2 gone a 1; 3 node_created #1 5 @a;
    entered a 5 path=#1 session_id=@a; 4 left a 5; gone a 1 by=@a => ok
two in front of one place: waits a 1; 1 waits b 2; 2 waits c 3; 3 waits d 4; 5 holds c 3
    => [is_complete=no] I4;
    6 gone a 1; holds d 4 => [is_complete=no] I4 | I1 | I4
two in front of two places: waits a 1; 1 waits b 2; 2 waits c 3; 3 waits d 4; 5 holds c 3
    => [places=2, is_complete=no] I4;
    6 gone a 1; holds d 4 => [places=2, is_complete=no] I4 | I4
two in front of three places: waits a 1; 1 waits b 2; 2 waits c 3; 3 waits d 4; 5 holds c 3
    => [places=3, is_complete=no] ok;
    6 gone a 1; holds d 4 => [places=3, is_complete=no] ok
"""


# --- lock-set: no update is lost -----------------------------------------------------------------

LOCK_SET = """
consecutive updates: read a count 0 token=1; wrote a count 1 token=1; read a count 1 token=1;
    wrote a count 2 token=1; read b count 2 token=2; wrote b count 3 token=2;
    wrote b count 4 token=2; wrote a count 3 token=1 accepted=no; read c count 99;
    read c count 4 token=5; wrote c count 5 token=5; wrote d other 7; read a count 5 token=1;
    wrote a count 6 token=1 => ok
update between read and write: read z count 4 token=1; wrote z count 5 token=1;
    read a count 5 token=2; read b count 5 token=3; wrote b count 6 token=3; wrote a count 6 token=2
    => lock-set at 0.0000: count: a (token 2) wrote 6 over 6 of b (token 3), having read 5
write without a read: read a count 0 token=1; wrote a count 1 token=1; read b count 1 token=2;
    wrote b count 2 token=2; wrote a count 9 token=3 => ok
"""


# --- I23: losses are reported in time ------------------------------------------------------------

LOST_IN_TIME = """
deleted by an operator: node_created /1/x 1 7; entered /1 host 1 path=/1/x session_id=7;
    5 stepped_down /1 host 1 UNCONFIRMED; left /1 host 1 was_lost; joined /1 host;
    5.1 revoked /1 host; node_deleted /1/x 101 7 => [is_complete=no] ok
operator at another queue: node_created /1/x 1 7; entered /1 host 1 path=/1/x session_id=7;
    5 stepped_down /1 host 1 UNCONFIRMED; left /1 host 1 was_lost; joined /1 host;
    5.1 revoked /2 host; node_deleted /1/x 101 7 => [is_complete=no] I23
unanswered release and an operator: node_created /1/x 1 7; entered /1 host 1 path=/1/x session_id=7;
    5 left /1 host 1; 5.1 revoked /1 host; node_deleted /1/x 101 7;
    5.2 stepped_down /1 host 1 UNCONFIRMED => [is_complete=no] ok
unanswered release without an operator: node_created /1/x 1 7;
    entered /1 host 1 path=/1/x session_id=7; 5 left /1 host 1; node_deleted /1/x 101 7;
    5.1 stepped_down /1 host 1 UNCONFIRMED => [is_complete=no] I23
"""


@histories(
    {
        "I1": ONE_HOLDER,
        "I2": STOP_IN_TIME,
        "I3": FENCING,
        "I4": TRUTHFUL,
        "lock-set": LOCK_SET,
        "I23": LOST_IN_TIME,
    }
)
def test_history_is_judged(case: str) -> None:
    judge(case)


@pytest.mark.parametrize(
    ("count", "left", "why", "broken"),
    [
        (1, 0.5, LossReason.UNCONFIRMED, False),
        (1, 0.49, LossReason.UNCONFIRMED, True),
        (11, 1.5, LossReason.UNCONFIRMED, False),
        (11, 1.49, LossReason.UNCONFIRMED, True),
        (11, 0.1, LossReason.DELETED, False),  # which nobody knows in advance
    ],
)
def test_time_to_stop_grows_with_the_holds_of_a_session(
    count: int, left: float, why: LossReason, broken: bool
) -> None:
    """`count` contenders of a session lose their holds, `left` seconds before it ends."""
    tale = HistoryBuilder()
    zxids = range(1, count + 1)
    for z in zxids:
        tale.play(f"node_created /{z}/x {z} 7; entered /{z} host/{z} {z} path=/{z}/x session_id=7")
    tale.after(5)
    for z in zxids:
        tale.play(f"stepped_down /{z} host/{z} {z} {why.name}; left /{z} host/{z} {z} was_lost")
    tale.after(left)
    for z in zxids:
        tale.play(f"node_deleted /{z}/x {100 + z} 7")
    wrong = told_in_time(tale.events, replace(BOUNDS, losing=0.1))
    assert bool(wrong) is broken
    assert {each.invariant for each in wrong} <= {"I23"}
