"""The election kernel, by table and by rehearsal.

`test_ensemble_random.py` has elections under faults.
"""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiolead.testing.simulation.ensemble.election import (
    FINALIZE_WAIT,
    FIRST_REPEAT,
    LAST_REPEAT,
    NO_VOTE,
    Election,
    Letter,
    Notification,
    Role,
    Vote,
    quorum_size,
)
from aiolead.testing.simulation.ensemble.rehearsal import rehearse

LOOKING, FOLLOWING, LEADING, OBSERVING = Role.LOOKING, Role.FOLLOWING, Role.LEADING, Role.OBSERVING


def notification(
    epoch: int, zxid: int, leader: int, in_round: int = 1, role: Role = Role.LOOKING
) -> Notification:
    """A vote, as a server sends it."""
    return Notification(Vote(epoch, zxid, leader), in_round, role)


def looking(server: int = 1, voters: int = 3, zxid: int = 5) -> Election:
    """A server that has begun to look for a leader, in round 1, at time 0."""
    election = Election(server, range(1, voters + 1))
    election.look(0.0, epoch=1, zxid=zxid)
    return election


def told(letters: Iterable[Letter]) -> list[tuple[int, int, int]]:
    """To whom, for whom, in which round."""
    return [(x.to, x.notification.vote.leader, x.notification.round) for x in letters]


# --- votes -------------------------------------------------------------------------------------


def test_votes_are_compared_by_epoch_then_zxid_then_server() -> None:
    votes = [Vote(1, 9, 3), Vote(2, 1, 1), Vote(2, 1, 2), Vote(2, 2, 1), Vote(3, 0, 1)]
    assert votes == sorted(random.Random(1).sample(votes, len(votes)))
    assert min(NO_VOTE, *votes, Vote(0, 0, 0)) == NO_VOTE


@pytest.mark.parametrize(
    ("voters", "quorum"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3), (6, 4), (7, 4)]
)
def test_quorum_is_more_than_half(voters: int, quorum: int) -> None:
    assert quorum_size(voters) == quorum


def test_looking_server_proposes_itself_to_other_voters() -> None:
    election = Election(2, {1, 2, 3})
    letters = election.look(0.0, epoch=4, zxid=7)
    vote = Notification(Vote(4, 7, 2), 1, LOOKING)
    assert letters == [Letter(1, vote), Letter(3, vote)]
    assert (election.role, election.leader) == (LOOKING, None)


@pytest.mark.parametrize(
    ("vote", "leader"),
    [
        ((1, 6, 2), 2),  # a later zxid
        ((2, 0, 2), 2),  # a later epoch, whatever the zxid
        ((1, 5, 2), 2),  # the same log, a greater id
        ((1, 4, 3), 1),  # a greater id does not make up for a shorter log
        ((0, 9, 3), 1),  # nor a greater zxid for an older epoch
    ],
)
def test_better_vote_is_adopted_and_sent(vote: tuple[int, int, int], leader: int) -> None:
    election = looking()
    letters = election.receive(0.01, vote[2], notification(*vote))
    assert election.vote.leader == leader
    assert told(letters) == ([] if leader == 1 else [(2, leader, 1), (3, leader, 1)])


# --- rounds ------------------------------------------------------------------------------------


def test_vote_of_an_older_round_is_answered_but_not_counted() -> None:
    election = looking()
    election.look(0.1, epoch=1, zxid=5)
    for sender in (2, 3):
        letters = election.receive(0.2, sender, notification(9, 9, 3, in_round=1))
        assert told(letters) == [(sender, 1, 2)]
    # Only a server that looks is answered.
    assert election.receive(0.2, 3, notification(1, 5, 2, role=FOLLOWING)) == []
    assert election.vote.leader == 1
    assert election.time_passed(0.4) != []  # a repetition, not a decision
    assert election.role is LOOKING


def test_newer_round_discards_older_votes() -> None:
    election = looking(1, voters=5)
    election.receive(0.01, 4, notification(1, 9, 4))
    letters = election.receive(0.02, 2, notification(1, 7, 2, in_round=3))
    # Server 4 was better, but that was in another round. It may be gone.
    assert told(letters) == [(peer, 2, 3) for peer in (2, 3, 4, 5)]
    election.receive(0.03, 4, notification(1, 9, 4, in_round=1))
    assert (election.vote.leader, election.round) == (2, 3)


def test_newer_round_compares_the_own_log_again() -> None:
    election = looking(1)
    letters = election.receive(0.02, 2, notification(1, 4, 2, in_round=3))
    assert told(letters) == [(2, 1, 3), (3, 1, 3)]


# --- deciding ----------------------------------------------------------------------------------


def test_majority_decides_after_a_last_wait() -> None:
    election = looking()
    election.receive(0.05, 3, notification(1, 5, 3))
    assert election.deadline == pytest.approx(0.05 + FINALIZE_WAIT)
    assert election.time_passed(0.05 + FINALIZE_WAIT - 0.001) == []
    assert election.role is LOOKING
    election.time_passed(0.05 + FINALIZE_WAIT)
    assert (election.role, election.leader, election.deadline) == (FOLLOWING, 3, None)


def test_better_vote_counts_during_the_last_wait() -> None:
    election = looking(1)
    election.receive(0.05, 2, notification(1, 5, 2))
    letters = election.receive(0.2, 3, notification(1, 5, 3))
    assert told(letters) == [(2, 3, 1), (3, 3, 1)]
    election.time_passed(0.4)
    assert election.leader == 3


def test_other_vote_restarts_the_last_wait() -> None:
    election = looking(1)
    election.receive(0.05, 2, notification(1, 5, 2))
    assert election.receive(0.2, 3, notification(1, 4, 3)) == []
    assert election.deadline == pytest.approx(0.2 + FINALIZE_WAIT)
    election.time_passed(0.4)
    assert election.leader == 2


def test_servers_with_a_leader_are_ignored_during_the_last_wait() -> None:
    election = looking(3, zxid=9)
    election.receive(0.0, 1, notification(1, 9, 3))
    election.receive(0.1, 1, notification(1, 5, 2, role=FOLLOWING))
    election.receive(0.1, 2, notification(1, 5, 2, role=LEADING))
    assert election.role is LOOKING
    election.time_passed(0.5)
    assert election.role is LEADING


def test_votes_for_different_servers_do_not_add_up() -> None:
    election = looking(1, voters=5, zxid=9)
    for sender in (2, 3, 4):
        election.receive(0.01, sender, notification(1, 5, sender))
    election.time_passed(0.21)
    assert election.role is LOOKING


def test_repeated_vote_counts_once() -> None:
    election = looking(1, voters=5, zxid=9)
    for _ in range(4):
        election.receive(0.01, 2, notification(1, 9, 1))
    election.time_passed(0.21)
    assert election.role is LOOKING
    election.receive(0.3, 3, notification(1, 9, 1))
    election.time_passed(0.5)
    assert election.role is LEADING


@pytest.mark.parametrize(("voters", "needed"), [(2, 1), (3, 1), (4, 2), (5, 2), (6, 3), (7, 3)])
def test_even_ensemble_needs_one_more_vote(voters: int, needed: int) -> None:
    election = looking(1, voters=voters, zxid=9)
    for sender in range(2, needed + 1):
        election.receive(0.0, sender, notification(1, 9, 1))
    election.time_passed(0.2)
    assert election.role is LOOKING
    election.receive(0.2, needed + 1, notification(1, 9, 1))
    election.time_passed(0.4)
    assert election.role is LEADING


# --- repetition --------------------------------------------------------------------------------


def test_notifications_are_repeated_at_doubling_intervals() -> None:
    election, now, waits = looking(), 0.0, []
    for _ in range(12):
        assert election.deadline is not None
        waits.append(election.deadline - now)
        now = election.deadline
        assert told(election.time_passed(now)) == [(2, 1, 1), (3, 1, 1)]
    doubling = [FIRST_REPEAT * 2**n for n in range(12)]
    assert waits == pytest.approx([min(wait, LAST_REPEAT) for wait in doubling])
    election.look(now, epoch=1, zxid=5)
    assert election.deadline == pytest.approx(now + FIRST_REPEAT)


def test_nothing_is_repeated_before_its_time() -> None:
    assert looking().time_passed(FIRST_REPEAT - 0.001) == []


def test_last_notification_is_kept_for_a_new_connection() -> None:
    election = looking()
    election.receive(0.01, 3, notification(1, 5, 3))
    assert election.last_sent(2) == notification(1, 5, 3)
    assert election.last_sent(9) is None


# --- joining a leader that there is ------------------------------------------------------------

ONE, THREE, FOUR = (1, FOLLOWING), (3, FOLLOWING), (4, FOLLOWING)


@pytest.mark.parametrize("in_round", [1, 4, 7])
@pytest.mark.parametrize(
    ("heard", "joins"),
    [
        pytest.param([(2, LEADING)], False, id="the leader alone"),
        pytest.param([(2, LEADING), ONE], False, id="fewer than a majority"),
        pytest.param([(2, LEADING), ONE, ONE, ONE], False, id="one again and again"),
        pytest.param([ONE, THREE, FOUR], False, id="a majority without the leader's word"),
        pytest.param([ONE, THREE, FOUR, (2, FOLLOWING)], False, id="the leader leads no longer"),
        pytest.param([(2, LEADING), ONE, (3, LOOKING)], False, id="one looks again"),
        pytest.param([(2, LEADING), ONE, (3, OBSERVING)], False, id="one says it observes"),
        pytest.param([(2, LEADING), ONE, THREE], True, id="a majority with the leader"),
        pytest.param([ONE, THREE, FOUR, (2, LEADING)], True, id="the leader last"),
    ],
)
def test_late_server_joins_a_confirmed_leader(
    heard: list[tuple[int, Role]], joins: bool, in_round: int
) -> None:
    # It knows more than the leader; that comes too late.
    election = looking(5, voters=5, zxid=99)
    while election.round < 4:
        election.look(0.0, epoch=1, zxid=99)
    for sender, role in heard:
        assert election.role is LOOKING
        election.receive(0.1, sender, notification(1, 5, 2, in_round, role))
    assert election.role is (FOLLOWING if joins else LOOKING)
    if joins:
        assert (election.leader, election.round, election.deadline) == (2, in_round, None)


def test_followers_must_agree_on_the_epoch_alone() -> None:
    election = looking(3)
    election.receive(0.1, 1, notification(2, 4, 2, in_round=8, role=FOLLOWING))
    election.receive(0.1, 2, notification(3, 5, 2, in_round=9, role=LEADING))
    assert election.role is LOOKING
    # Server 1 has learned of the new epoch by now.
    election.receive(0.1, 1, notification(3, 4, 2, in_round=8, role=FOLLOWING))
    assert election.leader == 2


def test_votes_of_the_previous_election_are_forgotten() -> None:
    election = looking(5, voters=5)
    election.receive(0.1, 1, notification(1, 5, 2, role=FOLLOWING))
    election.receive(0.1, 2, notification(1, 5, 2, role=LEADING))
    for in_round in (2, 7):
        election.look(0.2, epoch=1, zxid=5)
        election.receive(0.3, 3, notification(1, 5, 2, in_round, FOLLOWING))
        assert election.role is LOOKING


def test_follower_answers_looking_servers_only() -> None:
    election = looking(1)
    election.receive(0.0, 2, notification(1, 5, 2))
    election.time_passed(0.2)
    answer = Letter(3, notification(1, 5, 2, role=FOLLOWING))
    assert election.receive(9.0, 3, notification(7, 7, 3, in_round=7)) == [answer]
    for role in (FOLLOWING, LEADING, OBSERVING):
        assert election.receive(9.0, 3, notification(7, 7, 3, in_round=7, role=role)) == []
    assert (election.leader, election.deadline) == (2, None)


def test_established_epoch_is_sent() -> None:
    election = looking(1)
    election.established(8)  # It has no leader: nothing to be established.
    assert election.vote == Vote(1, 5, 1)
    election.receive(0.0, 2, notification(1, 5, 2))
    election.time_passed(0.2)
    election.established(2)
    (letter,) = election.receive(9.0, 3, notification(1, 5, 3))
    assert letter.notification == notification(2, 5, 2, role=FOLLOWING)


def test_server_that_lost_its_leader_votes_by_its_own_log() -> None:
    election = looking(1)
    election.receive(0.0, 2, notification(1, 5, 2))
    election.time_passed(0.2)
    letters = election.look(5.0, epoch=2, zxid=8)
    assert letters[0] == Letter(2, notification(2, 8, 1, in_round=2))
    assert (election.role, election.leader) == (LOOKING, None)


def test_server_accepts_its_own_leadership_in_its_round_only() -> None:
    def told_in(in_round: int) -> Role:
        election = looking(3, zxid=1)
        for sender in (1, 2):
            election.receive(0.0, sender, notification(1, 5, 3, in_round, FOLLOWING))
        return election.role

    assert told_in(1) is LEADING
    assert told_in(2) is LOOKING  # That was before it was restarted.


def test_unknown_servers_are_ignored() -> None:
    election = looking(1)
    for sender, leader in ((2, 7), (7, 2), (8, 2)):
        election.receive(0.0, sender, notification(9, 9, leader))
        assert election.vote.leader == 1


def test_server_sends_nothing_before_it_looks() -> None:
    election = Election(1, {1, 2, 3})
    for sender in (2, 7):
        assert election.receive(0.0, sender, notification(1, 5, 2)) == []
    assert election.time_passed(99.0) == []
    assert election.deadline is None


# --- observers ---------------------------------------------------------------------------------


def test_observer_proposes_nobody_and_is_not_counted() -> None:
    observer = Election(4, {1, 2, 3})
    letters = observer.look(0.0, epoch=9, zxid=99)
    assert [letter.to for letter in letters] == [1, 2, 3]
    assert {letter.notification.vote for letter in letters} == {NO_VOTE}
    voter = looking(1, zxid=9)
    voter.receive(0.0, 4, notification(1, 9, 1))
    voter.receive(0.0, 4, notification(9, 99, 4))
    assert voter.vote.leader == 1
    voter.time_passed(0.2)
    assert voter.role is LOOKING


def test_observer_gets_the_last_elected_leader() -> None:
    voter = looking(1)
    assert told(voter.receive(0.0, 4, notification(-1, -1, -1))) == [(4, 1, 1)]
    voter.receive(0.0, 2, notification(1, 5, 2))
    voter.time_passed(0.2)
    (letter,) = voter.receive(0.3, 4, notification(-1, -1, -1, in_round=5))
    assert letter == Letter(4, notification(1, 5, 2, role=FOLLOWING))
    voter.look(0.4, epoch=1, zxid=6)
    (letter,) = voter.receive(0.5, 4, notification(-1, -1, -1))
    assert letter == Letter(4, notification(1, 5, 2, in_round=2))
    assert voter.receive(0.5, 4, notification(-1, -1, -1, role=OBSERVING)) == []


def test_observer_learns_the_leader() -> None:
    observer = Election(4, {1, 2, 3})
    observer.look(0.0, epoch=1, zxid=5)
    observer.receive(0.1, 1, notification(2, 5, 3, in_round=2, role=FOLLOWING))
    assert observer.role is LOOKING
    observer.receive(0.1, 3, notification(2, 5, 3, in_round=2, role=LEADING))
    assert (observer.role, observer.leader) == (OBSERVING, 3)
    # It has no vote, so it has nothing to tell.
    assert observer.receive(0.2, 1, notification(1, 5, 1))[0].notification.role is OBSERVING
    assert observer.receive(0.2, 5, notification(1, 5, 1)) == []


def test_observer_does_not_answer_voters_that_are_behind() -> None:
    observer = Election(4, {1, 2, 3})
    for _ in range(3):
        observer.look(0.0, epoch=1, zxid=5)
    # Each answer would be answered, and so on.
    assert observer.receive(0.1, 1, notification(1, 5, 1, in_round=1)) == []


# --- whole elections ---------------------------------------------------------------------------


@pytest.mark.parametrize("voters", range(1, 8))
def test_quorum_elects_and_fewer_servers_do_not(voters: int) -> None:
    members = range(1, voters + 1)
    for up in range(1, voters + 1):
        outcome = rehearse(dict.fromkeys(range(1, up + 1), (1, 5)), voters=members)
        assert outcome.leader == (up if up >= quorum_size(voters) else None), up


LOGS = st.tuples(st.integers(0, 3), st.integers(0, 3))


@given(
    logs=st.dictionaries(st.integers(1, 7), LOGS, min_size=1),
    voters=st.integers(1, 7),
    delay=st.sampled_from([0.0, 0.001, 0.05, 0.09]),
)
def test_server_with_the_best_log_is_elected(
    logs: dict[int, tuple[int, int]], voters: int, delay: float
) -> None:
    members = range(1, voters + 1)
    up = [server for server in logs if server in members]
    outcome = rehearse(logs, voters=members, delay=delay)
    if len(up) < quorum_size(voters):
        assert outcome.leader is None
    else:
        assert outcome.leader == max(up, key=lambda server: (logs[server], server))


def test_steps_of_a_rehearsal_are_each_vote_and_decision_in_order() -> None:
    """Server 2 has two writes more than the others, and a connection takes a millisecond."""
    outcome = rehearse({1: (4, 0x400000009), 2: (4, 0x40000000B), 3: (4, 0x400000009)})
    longer = "changes from {} to 2, proposed by 2: its log is longer (4.11 after 4.9)"
    assert [(round(step.at, 3), step.server, step.why) for step in outcome.steps] == [
        (0.0, 1, "votes for itself: its last zxid is 4.9"),
        (0.0, 2, "votes for itself: its last zxid is 4.11"),
        (0.0, 3, "votes for itself: its last zxid is 4.9"),
        (0.001, 1, longer.format(1)),
        (0.001, 3, longer.format(3)),
        (0.202, 1, "follows 2"),
        (0.202, 2, "leads: 2 votes"),
        (0.202, 3, "follows 2"),
    ]
