"""Faults of servers, and of the links among them."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import permutations
from typing import TYPE_CHECKING

from .model import Fault, Kind, Target, Undo

if TYPE_CHECKING:
    from ..levers import Levers


def _together(undos: Iterable[Undo]) -> Undo:
    kept = list(undos)
    return lambda: [undo() for undo in kept]


def _kill(levers: Levers, fault: Fault) -> Undo:
    return _together(levers.kill_server(sid) for sid in levers.aimed_servers(fault.target))


def _kill_all(levers: Levers, _fault: Fault) -> Undo:
    return _together(levers.kill_server(sid) for sid in levers.sids)


def _kill_most(levers: Levers, fault: Fault) -> Undo:
    """Kills just so many that there is no quorum."""
    voters = list(levers.voters)
    first = int(fault.amount * len(voters))
    chosen = [voters[(first + n) % len(voters)] for n in range((len(voters) + 1) // 2)]
    return _together(levers.kill_server(sid) for sid in chosen)


def _freeze(levers: Levers, fault: Fault) -> Undo:
    return _together(levers.freeze_server(sid) for sid in levers.aimed_servers(fault.target))


def _slow_disk(levers: Levers, fault: Fault) -> Undo:
    seconds = levers.schedule.tick * (0.05 + fault.amount)
    return _together(levers.slow_disk(sid, seconds) for sid in levers.aimed_servers(fault.target))


def _slow_replies(levers: Levers, fault: Fault) -> Undo:
    seconds = levers.schedule.session_timeout * 0.6 * fault.amount
    aimed = levers.aimed_servers(fault.target)
    return _together(levers.slow_replies(sid, seconds) for sid in aimed)


def _cut(levers: Levers, pairs: Iterable[tuple[int, int]], fault: Fault) -> Undo:
    """Nothing passes. Afterwards what was held back arrives, or the connections break."""
    host = levers.host
    keep = fault.amount < 0.6
    ways = [(host(one), host(other)) for one, other in pairs]
    undo = _together(levers.silence(levers.network.path(*way), keep=keep) for way in ways)

    def mend() -> None:
        undo()
        if not keep:
            for way in ways:
                levers.network.reset(*way)

    return mend


def _isolated(levers: Levers, fault: Fault) -> Undo:
    pairs = [
        pair
        for sid in levers.aimed_servers(fault.target)
        for other in levers.sids
        if other != sid
        for pair in ((sid, other), (other, sid))
    ]
    return _cut(levers, pairs, fault)


def _deaf(levers: Levers, fault: Fault) -> Undo:
    aimed = levers.aimed_servers(fault.target)
    pairs = [(other, sid) for sid in aimed for other in levers.sids if other != sid]
    return _cut(levers, pairs, fault)


def _mute(levers: Levers, fault: Fault) -> Undo:
    aimed = levers.aimed_servers(fault.target)
    pairs = [(sid, other) for sid in aimed for other in levers.sids if other != sid]
    return _cut(levers, pairs, fault)


def _all_apart(levers: Levers, fault: Fault) -> Undo:
    return _cut(levers, permutations(levers.sids, 2), fault)


def _halves(levers: Levers, fault: Fault) -> Undo:
    """Parts the servers in two; the leader is in the smaller half or in the larger one."""
    sids = sorted(levers.sids, key=lambda sid: (sid != levers.leader, sid))
    size = 1 + int(fault.amount * (len(sids) - 1))
    one, other = sids[:size], sids[size:]
    pairs = [pair for a in one for b in other for pair in ((a, b), (b, a))]
    return _cut(levers, pairs, fault)


def _apart_from_leader(levers: Levers, fault: Fault) -> Undo:
    """A server and the leader are isolated from each other, in both directions or in one."""
    leader = levers.leader
    others = [sid for sid in levers.voters if sid != leader]
    aimed = [sid for sid in levers.aimed_servers(fault.target) if sid != leader] or others[:1]
    pairs = [(sid, leader) for sid in aimed if leader is not None]
    back = [(leader, sid) for sid, leader in pairs]
    way = int(fault.amount * 300) % 3
    return _cut(levers, (pairs if way == 0 else back if way == 1 else pairs + back), fault)


def _late(levers: Levers, fault: Fault, pairs: Iterable[tuple[int, int]]) -> Undo:
    """Packets take up to so long, each its own time; now and then longer than a session lasts."""
    most = levers.schedule.session_timeout * 1.5 * fault.amount**2
    host = levers.host
    return _together(
        levers.slow_down(levers.network.path(host(one), host(other)), most) for one, other in pairs
    )


def _lagging(levers: Levers, fault: Fault) -> Undo:
    """Messages to a server from its peers come late."""
    aimed = levers.aimed_servers(fault.target)
    pairs = [(other, sid) for sid in aimed for other in levers.sids if other != sid]
    return _late(levers, fault, pairs)


def _heard_late(levers: Levers, fault: Fault) -> Undo:
    """Messages of a server to its peers come late."""
    aimed = levers.aimed_servers(fault.target)
    pairs = [(sid, other) for sid in aimed for other in levers.sids if other != sid]
    return _late(levers, fault, pairs)


def _peers_reset(levers: Levers, fault: Fault) -> None:
    for sid in levers.aimed_servers(fault.target):
        for other in levers.sids:
            if other != sid:
                levers.network.reset(levers.host(sid), levers.host(other))


def _apply_late(levers: Levers, fault: Fault) -> Undo:
    """Mostly by no more than a packet takes; now and then by much more."""
    return levers.apply_late(0.001 + levers.schedule.session_timeout * 0.3 * fault.amount**3)


KINDS = (
    Kind("slow-replies", "a server's answers come late", Target.SERVER, _slow_replies, 0.7),
    Kind("server-killed", "a server is killed, and started again", Target.SERVER, _kill, 2.0),
    Kind("servers-killed", "all servers are killed", Target.NONE, _kill_all, 0.3, 0.4, severe=True),
    Kind("quorum-lost", "most voters are killed", Target.NONE, _kill_most, 0.7, severe=True),
    Kind("server-frozen", "a server stops, and goes on", Target.SERVER, _freeze, 1.5, severe=True),
    Kind(
        "slow-disk", "a server's log is written slowly", Target.SERVER, _slow_disk, 0.7, 1.0, True
    ),
    Kind(
        "isolated", "a server is isolated from its peers", Target.SERVER, _isolated, 3.0, 1.5, True
    ),
    Kind("deaf", "a server receives nothing from its peers", Target.SERVER, _deaf, 1.0, 1.5, True),
    Kind("mute", "its peers receive nothing from a server", Target.SERVER, _mute, 1.0, 1.5, True),
    Kind("all-apart", "no server reaches another", Target.NONE, _all_apart, 0.5, severe=True),
    Kind("halves", "the servers are parted in two", Target.NONE, _halves, 1.0, 1.5, severe=True),
    Kind(
        "apart-from-leader",
        "a server and the leader do not reach each other",
        Target.SERVER,
        _apart_from_leader,
        1.5,
        1.5,
        True,
    ),
    Kind(
        "lagging",
        "messages of its peers reach a server late",
        Target.SERVER,
        _lagging,
        0.7,
        1.5,
        True,
    ),
    Kind(
        "heard-late",
        "messages of a server reach its peers late",
        Target.SERVER,
        _heard_late,
        0.7,
        1.5,
        True,
    ),
    Kind(
        "peers-reset",
        "a server's links to its peers break",
        Target.SERVER,
        _peers_reset,
        1,
        1,
        True,
    ),
)

LATER = (
    Kind("leader-applies-late", "a leader is the last to apply", Target.NONE, _apply_late, 2.0),
)
"""Kinds that came later; see `faults.STREAMS`."""
