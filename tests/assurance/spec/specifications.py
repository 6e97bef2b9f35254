"""The table of specifications: what TLC checks, and what it must find.

Each specification is a module in `docs/spec`; each check is a configuration file beside it, with
its constants. A planted error is one of these checks with other constants or with changed text, for
which TLC must find a counterexample.

The numbers of states and the depths are exact, so that a change of a specification that makes its
checks weaker (or stronger) is seen.
"""

from __future__ import annotations

from .checks import LIVENESS, Check, PlantedError, Specification
from .queue_checks import QUEUE

TWO_HOLDERS = "NoTwoHolders"
LATE = "EndedInTime"
FALSE_PROOF = "ProofIsTrue"

# Actions of the lease that a check leaves out.
_EVENTS = frozenset({"SendEvent", "SendProbe", "ReceiveEvent"})  # only a planted error has them
_STOP = frozenset({"StopLeader", "ContinueLeader", "CatchUp"})
_DRIFT = frozenset({"ClientTick", "ServersTick"})
_SERVERS = frozenset({"LosesLeader", "Elect", "IsolatedServes", "DeposedServes"})
_FEEDER = frozenset({"FeederPings", "FeederHasTouch", "FeederHasRequest", "FeederHasAnswer"})
_OBSERVER = _FEEDER | {"ObserverServes", "ObserverHasPing", "ObserverHasAnswer", "ObserverHasEnd"}

LEASE = Specification(
    "lease",
    checks=(
        Check("lease-small", 62_097, 38, True, _EVENTS | _STOP | _DRIFT | _OBSERVER),
        Check("lease-stop", 222_664, 42, True, _EVENTS | _SERVERS | _DRIFT | _OBSERVER),
        Check("lease-drift", 99_045, 36, True, _EVENTS | _SERVERS | _STOP | _OBSERVER),
        Check("lease", 1_221_903, 39, False, _EVENTS | _OBSERVER),
        Check("lease-observer", 1_126_121, 70, False, _EVENTS | _STOP | _DRIFT | {"LeaderServes"}),
    ),
    planted=(
        PlantedError(
            "ping counts as proof",
            "The answer to a ping extends the lease, as in kazoo and Curator.",
            cfg="lease-small",
            violates=LATE,
            length=14,
            constants={"Rule": '"ping"'},
        ),
        PlantedError(
            "an event counts as proof",
            "A watch event shows that the client's server has contact with the leader.",
            cfg="lease-small",
            violates=LATE,
            length=19,
            constants={"Rule": '"event"'},
        ),
        PlantedError(
            "a renewal counts itself",
            "The lease counts from the renewal that was answered, instead of the one before.",
            cfg="lease-small",
            violates=LATE,
            length=28,
            constants={"Rule": '"itself"'},
        ),
        PlantedError(
            "no half tick between renewals",
            "A renewal proves the one before, however soon after it was sent.",
            cfg="lease-small",
            violates=LATE,
            length=25,
            constants={"Wait": "0"},
        ),
        PlantedError(
            "no wind-down",
            "The body is cancelled when the proof ends, and has its grace period after that.",
            cfg="lease-small",
            violates=LATE,
            length=12,
            changes=(
                ('body = "runs" => left > Margin + Grace', 'body = "runs" => left > Margin'),
                ('body = "runs" /\\ left <= Margin + Grace', 'body = "runs" /\\ left <= Margin'),
            ),
        ),
        PlantedError(
            "one request is proof",
            "The answer to the write counts, without a second request behind it.",
            cfg="lease-small",
            violates=LATE,
            length=20,
            constants={"Rule": '"one request"'},
        ),
        PlantedError(
            "a sync counts after the proof has ended",
            "The second request is a sync, although the session may be ending.",
            cfg="lease-small",
            violates=TWO_HOLDERS,
            length=29,
            constants={"Rule": '"sync at any time"'},
        ),
        PlantedError(
            "a handshake is proof",
            "A session that moved lives, without a committed write.",
            cfg="lease-small",
            violates=LATE,
            length=15,
            constants={"Rule": '"handshake"'},
        ),
        PlantedError(
            "half a tick without drift",
            "The client waits for half a tick by its own clock, which may be the faster one.",
            cfg="lease-drift",
            violates=LATE,
            length=28,
            constants={"Wait": "1"},
        ),
        PlantedError(
            "a lease without drift",
            "Nothing is subtracted from the lease for clocks that get apart.",
            cfg="lease-drift",
            violates=LATE,
            length=14,
            constants={"Margin": "0"},
        ),
        PlantedError(
            "a leader goes on without its followers",
            "A leader that was stopped pings before the second request, but has no answer yet.",
            cfg="lease-stop",
            violates=LATE,
            length=25,
            changes=(('Without(down, "ping") /\\ Without(up, "touch")', "TRUE"),),
        ),
        PlantedError(
            "half a tick on an observer of a follower",
            "One round is taken for enough where a touch takes two hops.",
            cfg="lease-observer",
            violates=LATE,
            length=34,
            constants={"Rounds": "1"},
        ),
        PlantedError(
            "a whole tick on an observer of a follower",
            "One round is taken for enough if it waits for a whole tick: for both hops at once.",
            cfg="lease-observer",
            violates=LATE,
            length=35,
            constants={"Rounds": "1", "Wait": "2"},
        ),
        PlantedError(
            "the second round begins with the first write",
            "It begins half a tick after the answer to the first write, not to the request behind.",
            cfg="lease-observer",
            violates=LATE,
            length=51,
            changes=(("fSent' = aSent /\\ fKnown' = 0", "fSent' = aSent /\\ fKnown' = wAnswered"),),
        ),
        PlantedError(
            "a proof counts from the answer",
            "The session is taken to live until its timeout after the answer, not the request. "
            "Nothing need be held: what is proven is wrong.",
            cfg="lease-small",
            violates=FALSE_PROOF,
            length=23,
            changes=(("IF Rounds = 1 THEN aSent ELSE", "IF Rounds = 1 THEN aAnswered ELSE"),),
            invariants=(FALSE_PROOF,),
        ),
    ),
)

IN_CALM = frozenset(
    ["BodyFails", "Cut", "Drop", "Expire", "ExpireDead", "GiveUp", "Kill", "Late", "Notice"]
) | {"TidyList", "TidyRead"}
"""Actions of barrier.tla that nobody takes without a fault."""

WITHDRAWING = frozenset({"AskToKeep", "Keep", "Withdraw"})
"""Those that take two newcomers, and a `ready` of a round that is over."""

BARRIER = Specification(
    "barrier",
    checks=(
        Check("barrier-small", 85_008, 52, True, IN_CALM | WITHDRAWING),
        Check("barrier-live", 21_082, 41, True, WITHDRAWING),
        Check("barrier-again", 34_990, 115, True, IN_CALM),
        Check(
            "barrier-withdraw", 50_454, 78, True, IN_CALM - {"BodyFails", "TidyList", "TidyRead"}
        ),
        Check(
            "barrier-large",
            225_857,
            53,
            False,
            IN_CALM - {"Drop", "ExpireDead", "Kill", "Late"} | WITHDRAWING,
        ),
        Check("barrier-rounds", 645_890, 95, False, IN_CALM),
    ),
    planted=(
        PlantedError(
            "`ready` goes before the own delete is known",
            "A member that leaves lists the others while its own znode may still be there.",
            cfg="barrier-small",
            violates="OutTogether",
            length=31,
            changes=(
                (
                    '{"leaving", "tidying"}\n    /\\ node[m] \\notin view[m].members\n',
                    '{"leaving", "tidying"}\n',
                ),
                ("LET rest == view[m].members\n", "LET rest == view[m].members \\ {node[m]}\n"),
            ),
        ),
        PlantedError(
            "an old `ready` lets in",
            "A member is inside when it sees `ready`, also one that is older than itself.",
            cfg="barrier-small",
            violates="InTogether",
            length=26,
            changes=(("isIn == ready # None /\\ ready.t > node[m].t", "isIn == ready # None"),),
        ),
        PlantedError(
            "a late removal counts in the next round",
            "The removal of `ready` does not name the version of the path.",
            cfg="barrier-again",
            violates="OneRound",
            length=41,
            changes=(("tree.ready # None /\\ tree.version = n", "tree.ready # None"),),
            invariants=("OneRound",),
        ),
        PlantedError(
            "a newcomer that withdraws is counted",
            "It does not keep `ready`, which an older member may be about to remove.",
            cfg="barrier-withdraw",
            violates="AllCounted",
            length=35,
            changes=(
                ('isYounger -> "keep"', 'isYounger -> "kept"'),
                ("isKept == view[m].ready = saw[m]", "isKept == TRUE"),
            ),
        ),
        PlantedError(
            "`ready` goes beside a newcomer",
            "Its removal lists nobody: another member, which has kept `ready`, may be withdrawing.",
            cfg="barrier-withdraw",
            violates="AllCounted",
            length=38,
            changes=(("isAlone == view[m].members \\subseteq {node[m]}", "isAlone == TRUE"),),
        ),
        PlantedError(
            "a waiting member does not watch `ready`",
            "Only the departure of another member wakes it.",
            cfg="barrier-live",
            violates=LIVENESS,
            length=None,
            changes=(("\\/ view[m].ready # saw[m]\n", "\\/ FALSE\n"),),
            properties=("NobodyStuck",),
        ),
    ),
)

_NO_FAULTS = frozenset({"Cut", "Expire", "FindOut", "GiveUp", "Notice"})

RWLOCK = Specification(
    "rwlock",
    checks=(
        Check("rwlock-small", 82_902, 49, True, frozenset({"Operator"})),
        Check("rwlock-large", 593_695, 67, False, frozenset({"Operator"})),
        Check("rwlock-operator", 445_242, 55, False, _NO_FAULTS),
    ),
    planted=(
        PlantedError(
            "a downgraded writer lets another writer in early",
            "A writer holds when the writer before it is gone, which may have become a reader.",
            cfg="rwlock-small",
            violates="Exclusive",
            length=19,
            changes=(("settles == z.reads \\/ nearest.reads", "settles == TRUE"),),
        ),
        PlantedError(
            "the reader of a downgrade gets another number",
            "A downgraded writer stands beside the next one, which does not wait for it.",
            cfg="rwlock-small",
            violates="Exclusive",
            length=16,
            changes=(
                (
                    "AsReader(z) == [z EXCEPT !.reads = TRUE]",
                    "AsReader(z) == [z EXCEPT !.reads = TRUE, !.q = @ + 1]",
                ),
            ),
            invariants=("Exclusive",),
        ),
        PlantedError(
            "the writer is deleted before the reader is there",
            "The create and the delete leave together, and the create may be lost.",
            cfg="rwlock-small",
            violates="HoldersAreThere",
            length=8,
            changes=(
                (
                    'Goes(c, "downgrading")\n    /\\ sent',
                    'Goes(c, "downgrading") /\\ pending\' = pending \\cup {node[c]}\n    /\\ sent',
                ),
                (
                    "next, pending, token, faults>>\n\nCreateReader",
                    "next, token, faults>>\n\nCreateReader",
                ),
            ),
        ),
        PlantedError(
            "a lost answer counts as success",
            "The hold moves to a reader that was never created.",
            cfg="rwlock-small",
            violates="HoldersAreThere",
            length=9,
            changes=(("IF AsReader(node[c]) \\in view[c]\n", "IF TRUE\n"),),
        ),
        PlantedError(
            "a writer that others delete becomes a reader",
            "It does not watch its znode while its reader is created, behind another writer.",
            cfg="rwlock-operator",
            violates="Exclusive",
            length=16,
            changes=(
                (
                    "pc[c] \\in Holding /\\ node[c] \\notin new",
                    'pc[c] \\in Holding \\ {"downgrading"} /\\ node[c] \\notin new',
                ),
            ),
            invariants=("Exclusive",),
        ),
        PlantedError(
            "the first look for the reader counts",
            "It is not behind a write, and does not show a reader that is about to be created.",
            cfg="rwlock-small",
            violates="NothingForgotten",
            length=11,
            changes=(
                (
                    "\\/ z.reads /\\ (c \\in stale' \\/ z \\in tree)}",
                    "}",
                ),
            ),
        ),
    ),
)

SPECIFICATIONS: tuple[Specification, ...] = (LEASE, QUEUE, BARRIER, RWLOCK)
