"""I24 to I26: histories that break them, and the nearest that do not."""

from __future__ import annotations

from testing.history_builder import L, histories, judge

from aiolead.testing.history import History, Peeked

# --- I24: reads in other threads and forked children ---------------------------------------------

HELD = "waits a 1; 1 holds a 1"

THREADS = f"""
thread reads a hold: {HELD}; 2 peeked a 1 thread call=check held; 3 leaves a 1;
    4 peeked a 1 thread call=check => ok
thread reads a hold that was left: {HELD}; 3 leaves a 1; 4 peeked a 1 thread call=check held
    => I24 at 4.0000: /l: a thread of a (token 1) read by check that it holds: it had left
thread reads a hold whose loss was reported: entered a 1; 1 stepped_down a 1 UNCONFIRMED;
    peeked a 1 thread held; left a 1 was_lost => I24
thread of a stopped process reads an expired hold: {HELD}; stopped a; 4 gone a 1;
    5 peeked a 1 thread held; 6 continued a; left a 1 was_lost => I24
thread of a stopped process reads a revoked hold: {HELD}; stopped a; 3 revoked a; 4 gone a 1 by=7;
    5 peeked a 1 thread held; 6 continued a; left a 1 was_lost => ok
remaining time within the hold: {HELD}; 2 peeked a 1 thread call=remaining held remaining=0.99;
    2.5 stepped_down a 1 UNCONFIRMED; left a 1 was_lost; 3 gone a 1 => ok
remaining time beyond the hold: {HELD}; 2 peeked a 1 thread call=remaining held remaining=1.1;
    2.5 stepped_down a 1 UNCONFIRMED; left a 1 was_lost; 3 gone a 1 => I24
released and deleted by an operator: {HELD}; 2 peeked a 1 thread call=remaining held remaining=1.1;
    2.5 left a 1; 2.9 revoked a; 3 gone a 1 => ok
released and deleted by the servers: {HELD}; 2 peeked a 1 thread call=remaining held remaining=1.1;
    2.5 left a 1; 3 gone a 1 => I24
thread reads a hold after its loss: entered a 1; 1 peeked a 1 child; peeked a 1 thread held;
    peeked a 1 thread; 1.1 peeked a 1 thread call=check held; 1.2 left a 1
    => I24 at 1.1000: /l: a thread of a (token 1) read by check that it holds after another thread
        has read that it does not
loop reads a hold after its loss: entered a 1; 1 peeked a 1 child; peeked a 1 thread held;
    peeked a 1 thread; 1.1 looked a 1 held; 1.2 left a 1
    => I24 at 1.1000: /l: a (token 1) says that it holds after another thread has read that it does
        not
thread reads a hold after the next one began: entered a 1; stopped a; 0.5 continued a;
    0.4 stopped a; 2 entered b 2; peeked a 1 thread call=check held; 3 left b 2; continued a;
    left a 1 was_lost
    => I24 at 2.0000: /l: a thread of a (token 1) read by check that it holds: b (token 2) had
        entered
thread reads a hold after one began whose place was taken: joined b; revoked b;
    entered a 1; 1 entered b 2; stepped_down b 2 DELETED; left b 2 was_lost;
    2 peeked a 1 thread call=check held; 3 left a 1 => ok
forked child reads a hold: entered a 1; 1 peeked a 1 child call=is_held held; 2 left a 1 => I24
forked child reads no hold: entered a 1; 1 peeked a 1 child call=is_held; 2 left a 1 => ok
unexpected error in a thread: entered a 1; 1 peeked a 1 thread call=loss error=RuntimeError;
    2 left a 1 => I24 at 1.0000: /l: a thread of a (token 1) got RuntimeError from loss
unexpected error in a child: entered a 1; 1 peeked a 1 child call=loss error=RuntimeError;
    2 left a 1 => I24 at 1.0000: /l: a child of a (token 1) got RuntimeError from loss
"""


def test_child_of_a_killed_process_is_still_recorded() -> None:
    history = History(is_alive=lambda _: False)
    history.peeked(L, "a", 1, "thread", held=True)
    history.peeked(L, "a", 1, "child", held=True)
    (event,) = history.events
    assert isinstance(event, Peeked)
    assert event.where == "child"


# --- I25: a lost hold ends -----------------------------------------------------------------------

CALLBACK = "entered a 1; callback_added a 1"

LOST_HOLD = f"""
body ends within its grace period: entered a 1; 1 peeked a 1 thread call=check;
    1.55 left a 1 was_lost => ok
body ends after its grace period: entered a 1; 1 peeked a 1 thread call=check;
    1.65 left a 1 was_lost => I25
body of a stopped process: entered a 1; 0.5 stopped a; 1 peeked a 1 thread call=check;
    3 continued a; 3.5 left a 1 was_lost => ok
body ends long after the report: {CALLBACK}; 1 stepped_down a 1 UNCONFIRMED; callback_called a 1;
    3 left a 1 was_lost
    => I25 at 1.0000: /l: a (token 1) was notified of the loss at 1.0000, and its body ran on until
        3.0000
resigned body: {CALLBACK}; 1 stepped_down a 1 resigned; peeked a 1 thread; 3 left a 1 => ok
loss without a callback: {CALLBACK}; 1 stepped_down a 1 UNCONFIRMED; left a 1 was_lost => I25
no loss and no callback: {CALLBACK}; 1 left a 1 => ok
loss with a callback: {CALLBACK}; 1 stepped_down a 1 UNCONFIRMED; callback_called a 1;
    left a 1 was_lost => ok
callback without a loss: {CALLBACK}; callback_called a 1; 1 left a 1 => I25
loss with two callbacks: {CALLBACK}; 1 stepped_down a 1 UNCONFIRMED; callback_called a 1;
    callback_called a 1; left a 1 was_lost => I25
two callbacks without a loss: {CALLBACK}; callback_called a 1; callback_called a 1; 1 left a 1
    => I25
killed process: {CALLBACK}; 1 stepped_down a 1 UNCONFIRMED; killed a => ok
"""


# --- I26: a client deletes only its own znodes ---------------------------------------------------

HELD_BY_A = "waits a 1; 1 holds a 1"

OWN = f"""
persistent znode: waits b 9; node_created #1 1; 1 entered a 1 path=#1; 2 left a 1;
    node_deleted #1 1001 => [is_complete=no] I26
deleted by an announced client: {HELD_BY_A}; 2 stepped_down a 1 DELETED; left a 1 was_lost;
    hostile @b; gone a 1 by=@b => ok
deleted by an unannounced client: {HELD_BY_A}; 2 stepped_down a 1 DELETED; left a 1 was_lost;
    gone a 1 by=@b => I26 | I26
released znode that was changed: {HELD_BY_A}; 2 left a 1; 3 node_deleted #1 1001 @a @b was_changed
    => ok
released znode that was not changed: {HELD_BY_A}; 2 left a 1; 3 node_deleted #1 1001 @a @b => I26
deleted by its own session: {HELD_BY_A}; 2 gone a 1 by=@a; stepped_down a 1 DELETED;
    left a 1 was_lost => I2 | I26
reported as deleted while it is there: {HELD_BY_A}; 2 stepped_down a 1 DELETED; left a 1 was_lost;
    3 gone a 1 by=@a => I26
fixed path after a revocation: joined /app/l/lock a; node_created /app/l/lock 1 @a;
    revoked /app/l/lock a; 1 node_deleted /app/l/lock 2 @a; node_created /app/l/lock 3 @b;
    entered /app/l/lock a 1 path=/app/l/lock session_id=@a; 1.1 left /app/l/lock a 1 => ok
fixed path without a revocation: joined /app/l/lock a; node_created /app/l/lock 1 @a;
    1 node_deleted /app/l/lock 2 @a; node_created /app/l/lock 3 @b;
    entered /app/l/lock a 1 path=/app/l/lock session_id=@a; 1.1 left /app/l/lock a 1 => I3 | I4
forged znode in front: hostile 666; node_created /app/l/forged 1 666; waits a 2; 1 holds a 2;
    2 leaves a 2 => ok
"""


@histories({"I24": THREADS, "I25": LOST_HOLD, "I26": OWN})
def test_history_is_judged(case: str) -> None:
    judge(case)
