"""The entries of `queue.tla`: its configurations, and the errors that TLC must find."""

from __future__ import annotations

from .checks import LIVENESS, Check, PlantedError, Specification

ONLY_WITH_FAULTS = frozenset(
    ["Cut", "Drop", "Expire", "ExpireDead", "Kill", "Look", "Notice", "OperatorDeletes", "Resolve"]
)
"""Actions of `queue.tla` that nobody takes without a fault of a connection, session or client."""

FORGING = frozenset({"Forge", "Unforge"})
RESUMING = frozenset({"Take", "Settle"})
OTHERS = FORGING | RESUMING
"""Those of a forger, and of a process that continues another one's session."""

IN_CALM_QUEUES = ONLY_WITH_FAULTS | OTHERS | {"Wipe"}

OF_ANOTHER = 'IsAnothers(k, z) /\\ stage = "settled"'
"""When a znode of another process in the same session is an orphan."""

QUEUE = Specification(
    "queue",
    checks=(
        Check("queue-small", 22_166, 29, True, OTHERS),
        Check("queue-three", 7_032, 28, True, IN_CALM_QUEUES | {"BehindOurs"}),
        Check("queue-together", 128_882, 43, True, ONLY_WITH_FAULTS | OTHERS),
        Check("queue-free", 16_042, 28, True, IN_CALM_QUEUES | {"BehindOurs"}),
        Check("queue-free-together", 13_704, 27, True, IN_CALM_QUEUES),
        Check("queue-forged", 1_878, 20, True, ONLY_WITH_FAULTS | RESUMING | {"Wipe"}),
        Check(
            "queue-resumed",
            17_229,
            31,
            True,
            FORGING | {"Cut", "Expire", "OperatorDeletes", "Wipe"},
        ),
        Check("queue-two-faults", 469_954, 41, False, OTHERS),
        Check("queue-live", 41_896, 28, False, IN_CALM_QUEUES | {"BehindOurs"}),
        Check("queue-large", 1_048_918, 47, False, OTHERS),
        Check(
            "queue-places",
            269_947,
            42,
            False,
            OTHERS | {"BehindOurs", "ExpireDead", "Kill", "OperatorDeletes", "Wipe"},
        ),
        Check(
            "queue-forger",
            355_589,
            41,
            False,
            RESUMING
            | {"Unforge", "Expire", "ExpireDead", "Kill", "Notice", "OperatorDeletes", "Wipe"},
        ),
        Check(
            "queue-late",
            135_234,
            34,
            True,
            OTHERS | {"Expire", "ExpireDead", "Kill", "Notice", "OperatorDeletes", "Wipe"},
        ),
    ),
    planted=(
        PlantedError(
            "predecessor gone means first",
            "A waiter holds when its predecessor is gone, which may have been a waiter, too.",
            cfg="queue-three",
            violates="AtMostN",
            length=20,
            changes=(("/\\ next[c] \\/ wasFirst(watch[c][1])", "/\\ TRUE"),),
        ),
        PlantedError(
            "a lost create is repeated",
            "A create whose answer was lost is sent again, without looking for its znode.",
            cfg="queue-small",
            violates="NothingForgotten",
            length=5,
            changes=(
                ("/\\ IF found # {}\n", "/\\ IF FALSE\n"),
                ('{[c |-> c, n |-> serial[c], step |-> "second"]}', "{}"),
            ),
        ),
        PlantedError(
            "a lagging server is asked for a lost create",
            "The look for a lost create is not behind a write, so the server may lag.",
            cfg="queue-small",
            violates="NothingForgotten",
            length=6,
            changes=(("CaughtUp(k) == lag[k] = <<>> /\\", "CaughtUp(k) =="),),
        ),
        PlantedError(
            "a skipped delete is forgotten",
            "A delete whose answer was lost counts as done.",
            cfg="queue-small",
            violates="NothingForgotten",
            length=6,
            changes=(
                (
                    """UNCHANGED <<servers, view, lag, session, dead, pending, front, node,
                   serial, rounds, token>>""",
                    """UNCHANGED <<servers, view, lag, session, dead, front, node, serial,
                   rounds, token>>
    /\\ pending' = [pending EXCEPT ![k] = {}]""",
                ),
            ),
        ),
        PlantedError(
            "a watch reports nothing of before",
            "A watch is set as if nothing could have happened since the listing.",
            cfg="queue-small",
            violates="NoLostWakeUp",
            length=11,
            changes=(("![c] = names \\ view[k]]", "![c] = {}]"),),
        ),
        PlantedError(
            "a watch reports nothing of before, and somebody waits forever",
            "The same, seen as a waiter that never gets its turn.",
            cfg="queue-small",
            violates=LIVENESS,
            length=None,
            changes=(("![c] = names \\ view[k]]", "![c] = {}]"),),
            properties=("EveryoneServed",),
        ),
        PlantedError(
            "the front of a deleted queue counts",
            "The predecessor was the first of this client, but in a queue that is deleted by now.",
            cfg="queue-together",
            violates="AtMostN",
            length=19,
            changes=(("front[k] = z /\\ z \\in outlived[c]", "front[k] = z"),),
        ),
        PlantedError(
            "an orphan is waited for",
            "A client waits for a znode of its own that none of its contenders has.",
            cfg="queue-late",
            violates="NotForItself",
            length=12,
            changes=(("@ \\cup orphans", "@"),),
        ),
        PlantedError(
            "a hold does not watch its znode",
            "A holder does not learn that others have deleted its znode.",
            cfg="queue-small",
            violates="HoldersHold",
            length=8,
            changes=(
                ('lost == {c \\in Mine(k) : pc[c] = "held" /\\ node[c] \\notin new}', "lost == {}"),
            ),
        ),
        PlantedError(
            "a contender's znode is persistent",
            "It stays when its session ends.",
            cfg="queue-small",
            violates="NoDeadOwners",
            length=5,
            changes=(("o |-> SessionOf(ClientOf(r.c))", "o |-> None"),),
            invariants=("NoDeadOwners",),
        ),
        PlantedError(
            "the token is the sequence number",
            "Numbers start again when the path is deleted and made again.",
            cfg="queue-small",
            violates="TokensRise",
            length=13,
            changes=(("THEN node[c].t ELSE token", "THEN node[c].q + 1 ELSE token"),),
        ),
        PlantedError(
            "a lost create is looked for until it is found",
            "It may never have been applied: then the job does not end before its session does.",
            cfg="queue-small",
            violates=LIVENESS,
            length=None,
            changes=(('IF job.step = "first" /\\ found = {}', "IF found = {}"),),
            properties=("AllCleanedUp",),
        ),
        PlantedError(
            "one watch for several places",
            "A waiter for one of two places watches the nearest contender only.",
            cfg="queue-free",
            violates=LIVENESS,
            length=None,
            changes=(("IF N = 1 THEN 2 ELSE N)", "IF N = 1 THEN 2 ELSE 1)"),),
            properties=("FreePlaceTaken",),
        ),
        PlantedError(
            "behind one of ours, and no second look",
            "Behind another contender of its client, a waiter does not look again when that goes.",
            cfg="queue-free-together",
            violates=LIVENESS,
            length=None,
            changes=(
                (
                    "/\\ node[c] \\in view[k] /\\ gone[c] # {}",
                    """/\\ node[c] \\in view[k] /\\ gone[c] # {}
             /\\ Len(watch[c]) = 1 => next[c] \\/ wasFirst(watch[c][1])""",
                ),
            ),
            properties=("ServedIfHoldersLeave",),
        ),
        PlantedError(
            "the first name with the prefix is adopted",
            "A lost create is looked for by its name alone, which others may have used.",
            cfg="queue-forger",
            violates="AtMostN",
            length=12,
            changes=(("IsProven(z, c, serial[c])", "Is(z, c, serial[c])"),),
            invariants=("AtMostN",),
        ),
        PlantedError(
            "a name is the proof of a znode",
            "The same: what a contender takes for its znode is not in its session.",
            cfg="queue-forger",
            violates="OwnedByHolder",
            length=5,
            changes=(("IsProven(z, c, serial[c])", "Is(z, c, serial[c])"),),
        ),
        PlantedError(
            "an orphan is deleted by its name",
            "A client deletes a znode by the name of its own lost create; others may have made it.",
            cfg="queue-forger",
            violates="DeletesItsOwn",
            length=7,
            changes=(("/\\ IsOwnedBy(z, k) /\\ z.s = session", "/\\ z.s = session"),),
        ),
        PlantedError(
            "a resumed client deletes unclaimed znodes at once",
            "It takes what its predecessor has, and may hold, for lost creates of its own.",
            cfg="queue-resumed",
            violates="AtMostN",
            length=17,
            changes=((OF_ANOTHER, "IsAnothers(k, z)"),),
        ),
        PlantedError(
            "a predecessor that comes back deletes unclaimed znodes at once",
            "Only the client that has resumed the session knows that there are two.",
            cfg="queue-resumed",
            violates="AtMostN",
            length=18,
            changes=((OF_ANOTHER, 'IsAnothers(k, z) /\\ (stage = "settled" \\/ k = Home)'),),
        ),
        PlantedError(
            "the session timeout counts from the first handshake",
            "A resumed client that gets the session back does not count again.",
            cfg="queue-resumed",
            violates="AtMostN",
            length=19,
            constants={"Faults": "3"},
            changes=(
                (
                    OF_ANOTHER,
                    'IsAnothers(k, z) /\\ (stage = "settled" \\/ (k = Heir /\\ faults = 0))',
                ),
            ),
        ),
        PlantedError(
            "znodes of a predecessor are never orphans",
            "A resumed client waits for them as long as the session lives, which it keeps alive.",
            cfg="queue-resumed",
            violates=LIVENESS,
            length=None,
            changes=((OF_ANOTHER, "FALSE"),),
            properties=("NoEndlessWait",),
        ),
    ),
)
