"""I5 to I8, I12, I21 and I22: histories that break them, and the nearest that do not."""

from __future__ import annotations

from testing.history_builder import histories, judge

# --- I5: a hold ends before its client has another session ---------------------------------------

NEXT_SESSION = (
    "1 session host connected 1; 2 entered host/a 1 session_id=1; 5 session host expired 1; "
    "session host connected 2"
)

ZOMBIE = f"""
hold ended before the new session: 1 session host connected 1; 2 entered host/a 1 session_id=1;
    4 left host/a 1 was_lost; 5 session host expired 1; session host connected 2 => ok
loss reported 0.05 s after it: {NEXT_SESSION}; 5.05 stepped_down host/a 1; 7 left host/a 1 was_lost
    => ok
loss reported 0.2 s after it: {NEXT_SESSION}; 5.2 stepped_down host/a 1; 5.3 left host/a 1 was_lost
    => I5
left within the grace period: {NEXT_SESSION}; 5.5 left host/a 1 was_lost => ok
left after the grace period: {NEXT_SESSION}; 5.7 left host/a 1 was_lost => I5
reads its loss: {NEXT_SESSION}; looked host/a 1 held=no; 5.3 left host/a 1 was_lost => ok
reads a hold: {NEXT_SESSION}; looked host/a 1 held; 5.3 left host/a 1 was_lost => I5
two new sessions: {NEXT_SESSION}; 5.5 session host expired 2; session host connected 3;
    stepped_down host/a 1; left host/a 1 was_lost => I5
unknown session: 2 entered host/a 1; 5 session host connected 2; 9 left host/a 1 => ok
same session again: 1 session host connected 1; 2 entered host/a 1 session_id=1;
    5 session host expired 1; session host connected 1; 9 looked host/a 1 held; left host/a 1 => I7
session of another client: 1 session host connected 1; 2 entered host/a 1 session_id=1;
    5 session host expired 1; session other connected 2; 9 looked host/a 1 held; left host/a 1 => ok
session of a contender's namesake: 1 session host connected 1; 2 entered host/a 1 session_id=1;
    5 session host expired 1; session host/ab connected 2; 9 looked host/a 1 held; left host/a 1
    => ok
"""


# --- I6: one znode per turn, gone within 7 s -----------------------------------------------------

TWO_ZNODES = "session a connected @a; waits a 1; 1 creates a 2; 2 holds a 1; 3 leaves a 1"
HELD_TWICE = "session a connected @a; waits a 1; 1 creates a 2; 2 holds a 1"

ONCE = f"""
second znode gone after 7 s: {TWO_ZNODES}; 10 gone a 2 by=@a => ok
second znode gone after 7.1 s: {TWO_ZNODES}; 10.1 gone a 2 by=@a => I6
second znode there for 6.9 s: {TWO_ZNODES}; 9.9 leftover znodes 0 => ok
second znode there for 7.1 s: {TWO_ZNODES}; 10.1 leftover znodes 0 => I6
gone 7 s after the healing: fault_began cut; session a connected @a; waits a 1; 1 creates a 2;
    2 holds a 1; 3 leaves a 1; 20 healed; 27 gone a 2 by=@a => ok
gone 7.1 s after the healing: fault_began cut; session a connected @a; waits a 1; 1 creates a 2;
    2 holds a 1; 3 leaves a 1; 20 healed; 27.1 gone a 2 by=@a => I6
gone during a fault: fault_began cut; session a connected @a; waits a 1; 1 creates a 2; 2 holds a 1;
    3 leaves a 1; 90 gone a 2 by=@a => ok
znode of the next turn: session a connected @a; waits a 1; 2 holds a 1; 3 leaves a 1; 4 waits a 3;
    5 holds a 3; 50 leaves a 3 => ok
second znode of a hold gone in time: {HELD_TWICE}; 8 gone a 2 by=@a; 50 leaves a 1 => ok
second znode of a hold gone too late: {HELD_TWICE}; 8.1 gone a 2 by=@a; 50 leaves a 1 => I6
second znode of a hold gone after the healing: fault_began cut; session a connected @a; waits a 1;
    1 creates a 2; 2 holds a 1; 20 healed; 27 gone a 2 by=@a; 50 leaves a 1 => ok
two contenders of one session: session host connected 5; joined host/a; node_created #1 1 5;
    joined host/b; node_created #2 2 5; 1 entered host/a 1 path=#1 session_id=5; 20 left host/a 1;
    node_deleted #1 9 5 5; 21 entered host/b 2 path=#2 session_id=5; 40 left host/b 2;
    node_deleted #2 9 5 5 => ok
hold without a wait: session a connected @a; creates a 1; 1 holds a 1; 2 left a 1; 50 gone a 1 => ok
znode of another session: joined z; entered z 0; session a connected @a; waits a 1;
    1 session a expired @a; session a connected 2; node_created #2 2 2; 9 gone a 1; left z 0;
    entered a 2 path=#2 session_id=2; left a 2; node_deleted #2 9 2 2 => ok
foreign znodes: node_created /other/x 90 @a; node_created /app/l/plain 91; node_created #92 92 85;
    node_deleted #92 93 85; session a connected @a; waits a 1; 2 holds a 1; 3 leaves a 1;
    50 leftover znodes 0 => ok
"""


# --- I12: a contender that gives up leaves nothing behind ----------------------------------------

GIVES_UP = (
    "session b connected @b; session a connected @a; waits a 1; 2 holds a 1; 3 leaves a 1; "
    "4 waits b 4; 5 withdrew b"
)

LEFT_BEHIND = f"""
znode of a cancelled wait, in time: {GIVES_UP} cancelled; 12 gone b 4 by=@b => ok
znode of a cancelled wait, late: {GIVES_UP} cancelled; 12.1 gone b 4 by=@b
    => I12 at 12.0000: /l: b withdrew (cancelled), and its znode is still there:
        /app/l/lock-0000000004
znode of a timed-out wait, in time: {GIVES_UP} timeout; 12 gone b 4 by=@b => ok
znode of a timed-out wait, late: {GIVES_UP} timeout; 12.1 gone b 4 by=@b
    => I12 at 12.0000: /l: b withdrew (timeout), and its znode is still there:
        /app/l/lock-0000000004
znode of an ended wait, in time: {GIVES_UP}; 12 gone b 4 by=@b => ok
znode of an ended wait, late: {GIVES_UP}; 12.1 gone b 4 by=@b
    => I12 at 12.0000: /l: b withdrew, and its znode is still there: /app/l/lock-0000000004
znode of a failed wait, in time: {GIVES_UP} error; 12 gone b 4 by=@b => ok
znode of a failed wait, late: {GIVES_UP} error; 12.1 gone b 4 by=@b
    => I6 at 12.0000: /l: b withdrew (error), and its znode is still there: /app/l/lock-0000000004
cancelled waiter within 0.1 s: 4 joined a; 5 cancelled a; 5.1 withdrew a cancelled => ok
cancelled waiter after 0.2 s: 4 joined a; 5 cancelled a; 5.2 withdrew a cancelled => I12
cancelled holder within its grace period: 4 entered a 1; 5 cancelled a; 5.4 cancelled a;
    5.6 left a 1 => ok
cancelled holder after its grace period: 4 entered a 1; 5 cancelled a; 5.4 cancelled a; 5.7 left a 1
    => I12
cancelled during the release before, in time: 4 entered a 1; 4.9 left a 1; joined a; 5 cancelled a;
    6.3 withdrew a cancelled => ok
cancelled during the release before, late: 4 entered a 1; 4.9 left a 1; joined a; 5 cancelled a;
    6.4 withdrew a cancelled => I12
cancelled and resigned, in time: 4 entered a 1; 5 cancelled a; stepped_down a 1 resigned;
    6.9 left a 1 => ok
cancelled and resigned, late: 4 entered a 1; 5 cancelled a; stepped_down a 1 resigned; 7 left a 1
    => I12
cancelled while stopped, and stubborn: 4 entered a 1; 5 cancelled a; 5.1 stopped a; 9 continued a;
    9.4 left a 1; 10 entered a 2 stubborn; 11 cancelled a; 20 left a 2 => ok
cancelled waiter that never ends: 4 joined a; 5 cancelled a => [is_complete=no] ok;
    6 reached 'the end' => [is_complete=no] I12
znode of a cancelled holder: session a connected @a; waits a 1; 1 holds a 1; 2 cancelled a;
    left a 1; 9.1 gone a 1 => I12
"""


# --- I21: a released place is free ---------------------------------------------------------------

LEFT = "session a connected @a; 1 waits a 1; 2 holds a 1; 5 left a 1"

RELEASED = f"""
znode of a released hold in time: {LEFT}; 9 gone a 1 by=@a => [release=4.0] ok
znode of a released hold late: {LEFT}; 9.2 gone a 1 by=@a => ok
    => [release=4.0] I21 at 9.0000: /l: a (token 1) left, and /app/l/lock-0000000001 stayed for
        4.2000 s although its session lived
znode gone with its session: {LEFT}; 11 gone a 1 by=@a; session_over @a expired => [release=4.0] I21
znode of a wait that timed out: session a connected @a; session b connected @b; 0.5 waits b 1;
    1 holds b 1; 2 waits a 2; 3 withdrew a timeout; 4 leaves b 1; 7.5 gone a 2 by=@a
    => [release=4.0] I21
killed client: {LEFT}; 6 killed a; 11 gone a 1 => [release=4.0] ok
expired client: {LEFT}; 6 session a expired @a; 11 gone a 1 => [release=4.0] ok
closed client: {LEFT}; 6 session a closed @a; 11 gone a 1 => [release=4.0] ok
released in time after a fault: fault_began isolated severe; session a connected @a; 1 waits a 1;
    2 holds a 1; 5 left a 1; 6 healed; 10 gone a 1 by=@a => [release=4.0] ok
released late after a fault: fault_began isolated severe; session a connected @a; 1 waits a 1;
    2 holds a 1; 5 left a 1; 6 healed; 10.2 gone a 1 by=@a => [release=4.0] I21
released in time after an election: leader_changed 1 1; session a connected @a; 1 waits a 1;
    2 holds a 1; 5 left a 1; 6 leader_changed 2 2; 10 gone a 1 by=@a => [release=4.0] ok
released late after an election: leader_changed 1 1; session a connected @a; 1 waits a 1;
    2 holds a 1; 5 left a 1; 6 leader_changed 2 2; 10.2 gone a 1 by=@a => [release=4.0] I21
"""


# --- I7, I8 and I22: sessions, reads and guardians -----------------------------------------------

SESSIONS = """
new session after the old one expired: session a connecting 0; session a connected 1;
    session a suspended 1; session a connected 1; session a suspended 1; session a expired 1;
    session a connecting 0; session a connected 2; session a closed 2; session b connected 7 => ok
new session without a report of the expiry: session a connected 1; session b connected 1;
    session a expired 1; session a connected 2; session b connected 2
    => I7 at 0.0000: b: the session 0x1 became 0x2 without expiring
expired session connected again: session a connected 1; session a expired 1; session a connected 1
    => I7
read of an older zxid: read a /x old zxid=5; read a /x new zxid=6; read a /x new zxid=6;
    read b /x old zxid=5; read a /y '' zxid=1; read a /x unknown => ok;
    read a /x old zxid=5 => I8 at 0.0000: /x: a read zxid 5 after 6;
    read a /x old zxid=5
    => I8 at 0.0000: /x: a read zxid 5 after 6 | I8 at 0.0000: /x: a read zxid 5 after 6
session closed after the death: 1 session host connected 1; 2 entered host/a 1 session_id=1;
    3 lived host; 3.1 killed host; 3.2 closed_by_guardian host 1; 5 lived host => ok
session closed before the death was reported: 1 session host connected 1;
    2 entered host/a 1 session_id=1; 3 lived host; 3.1 closed_by_guardian host 1; 3.2 killed host;
    5 lived host => ok
process that ran after its session was closed: 1 session host connected 1;
    2 entered host/a 1 session_id=1; 3 lived host; 2.9 closed_by_guardian host 1; 3.2 killed host
    => I22 at 2.9000: host ran 0.1000 s after its guardian had closed its session
contender that acted after its session was closed: 1 session host connected 1;
    2 closed_by_guardian host 1; 3 acted host/a 1; 4 killed host => I22
session closed of a stopped process: 1 session host connected 1; 2 stopped host;
    3 closed_by_guardian host 1 => I22
session closed after an earlier death: 1 killed host; 2 session host connected 1;
    3 closed_by_guardian host 1 => I22
"""


@histories({"I5": ZOMBIE, "I6": ONCE, "I12": LEFT_BEHIND, "I21": RELEASED, "I7, I8, I22": SESSIONS})
def test_history_is_judged(case: str) -> None:
    judge(case)
