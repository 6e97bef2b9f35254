"""`aiolead demo ensemble`: which server would lead, and how it would bring the others up."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from ..errors import ConfigurationError
from . import exits, render
from .options import BASICS, Basics, Positive, within
from .output import table

if TYPE_CHECKING:
    from ..testing.simulation.ensemble.rehearsal import Rehearsal
    from ..testing.simulation.ensemble.sync import SyncPlan

MOST_SERVERS = 255
MOST_TRANSACTIONS = 100_000
"""The longest log that is rehearsed."""
PATIENCE = 10.0
"""Seconds without a majority after which the rehearsal ends."""


def rehearse(
    *,
    servers: Annotated[int, within(1, MOST_SERVERS)] = 3,
    observers: int = 0,
    zxids: str = "",
    epochs: str = "",
    down: str = "",
    start: str = "",
    split: str = "",
    log: Annotated[tuple[str, ...], Parameter(negative="", show_default=False)] = (),
    history: Positive = 500,
    basics: Basics = BASICS,
) -> int:
    """Rehearse an election: the votes, the leader, and how each server is brought up to date.

    Nothing is connected to: the election and the choice of a synchronisation are those of the
    simulation, which the tests compare with real ensembles. Servers have the numbers from 1 up.

    A zxid is a count of transactions in epoch 1 (9), or an epoch and a count (2.9). A server's log
    has the transactions of its last epoch up to its zxid, and of earlier epochs as many as all
    servers have that ended there; --log says something else.

    With --json, one object: leaders, steps (at, server, round, doing, vote, why), synchronisation.
    Exits with 0 if one server leads, with 1 if there is no leader.

    Args:
        servers: How many servers vote.
        observers: How many more only observe; they have the last numbers.
        zxids: The last zxid of each server, as 9,9,9,8,8. Default: 1 for all.
        epochs: The last epoch of each server, as 2,1,1, which counts more than its zxid. Default:
            that of its zxid; it is later if a leader was elected, and nothing written.
        down: The servers that are down, as 1,2. How they would be brought up to date is said, too.
        start: When each server starts, in seconds, as 0,10,20. Default: at once.
        split: The parts of a partitioned network, as 1,2/3,4.
        log: A server's whole log, as 3=1.1-1.7,2.1. Several times for several servers.
        history: How many transactions the leader has in memory; the older ones need a snapshot.
        basics: How to run.
    """
    most = MOST_SERVERS - servers
    if not 0 <= observers <= most:
        raise ConfigurationError(f"--observers: must be 0 to {most}, not {observers}")
    plan = _Plan.of(servers, observers, zxids, epochs, down, start, split, log)
    from ..testing.simulation.ensemble.rehearsal import rehearse as run  # a simulation's kernel

    outcome = run(
        {server: (plan.epochs[server], _number(plan.logs[server])) for server in plan.up},
        voters=range(1, servers + 1),
        patience=PATIENCE + max(plan.starts.values(), default=0.0),
        starts=plan.starts,
        parts=plan.parts or None,
    )
    leaders = [each for each, (role, _) in outcome.roles.items() if role.value == "leading"]
    synchronised = _synchronised(plan, outcome, leaders, history)
    lines = _as_text(plan, servers, outcome, leaders, synchronised)
    basics.show(_as_json(outcome, leaders, synchronised), *lines)
    return exits.OK if len(leaders) == 1 else exits.FAILED


# --- what is asked -------------------------------------------------------------------------------

Zxid = tuple[int, int]
"""An epoch, and a count of its transactions."""


@dataclass(frozen=True, slots=True)
class _Plan:
    logs: Mapping[int, tuple[Zxid, ...]]
    epochs: Mapping[int, int]
    up: Sequence[int]
    starts: Mapping[int, float]
    parts: Sequence[Sequence[int]]

    @classmethod
    def of(
        cls,
        servers: int,
        observers: int,
        zxids: str,
        epochs: str,
        down: str,
        start: str,
        split: str,
        log: Iterable[str],
    ) -> _Plan:
        everybody = range(1, servers + observers + 1)
        last = [_zxid(each) for each in _listed(zxids)] or [(1, 1)] * len(everybody)
        if len(last) == servers:
            last += [max(last)] * observers
        if len(last) != len(everybody):
            raise ConfigurationError(f"--zxids: must be {len(everybody)}, one for each server")
        logs = _logs(last)
        for each in log:
            name, _, ranges = each.partition("=")
            logs[_server("--log", name, everybody)] = _log(ranges)
        taken_part = {n: _zxid(text)[1] for n, text in enumerate(_listed(epochs), 1)}
        for server, own in logs.items():
            taken_part.setdefault(server, own[-1][0] if own else 0)
        if len(taken_part) != len(everybody):
            raise ConfigurationError(f"--epochs: must be {len(everybody)}, one for each server")
        gone = {_server("--down", each, everybody) for each in _listed(down)}
        starts = [_seconds(each) for each in _listed(start)] or [0.0] * len(everybody)
        if len(starts) != len(everybody):
            raise ConfigurationError(f"--start: must be {len(everybody)}, one for each server")
        parts = [
            [_server("--split", each, everybody) for each in _listed(part)]
            for part in split.split("/")
            if part
        ]
        named = [each for part in parts for each in part]
        if len(named) != len(set(named)):
            raise ConfigurationError("--split: a server is in one part only")
        up = [each for each in everybody if each not in gone]
        return cls(logs, taken_part, up, dict(zip(everybody, starts, strict=True)), parts)


def _listed(text: str) -> list[str]:
    return [each.strip() for each in text.split(",") if each.strip()]


_ZXID = re.compile(r"(?:([1-9][0-9]{0,8})\.)?([0-9]{1,6})")


def _zxid(text: str) -> Zxid:
    match = _ZXID.fullmatch(text)
    if match is None or int(match[2]) > MOST_TRANSACTIONS:
        raise ConfigurationError(
            f"--zxids, --log: {text!r} is no zxid: a count of transactions (9), or an epoch and a "
            "count (2.9)"
        )
    return int(match[1] or 1), int(match[2])


def _server(option: str, text: str, everybody: range) -> int:
    if not re.fullmatch("[0-9]{1,3}", text) or int(text) not in everybody:
        raise ConfigurationError(f"{option}: {text!r} is none of the servers 1 to {everybody[-1]}")
    return int(text)


def _seconds(text: str) -> float:
    if not re.fullmatch(r"[0-9]{1,6}(?:\.[0-9]{1,3})?", text):
        raise ConfigurationError(f"--start: must be numbers of seconds, not {text!r}")
    return float(text)


def _logs(last: Sequence[Zxid]) -> dict[int, tuple[Zxid, ...]]:
    """The logs of servers whose last zxids these are: earlier epochs as far as all have them."""
    ended: dict[int, int] = {}
    for epoch, count in last:
        ended[epoch] = min(count, ended.get(epoch, count))
    return {
        server: (
            *((earlier, n) for earlier in sorted(ended) if earlier < epoch
              for n in range(1, ended[earlier] + 1)),
            *((epoch, n) for n in range(1, count + 1)),
        )
        for server, (epoch, count) in enumerate(last, 1)
    }  # fmt: skip


def _log(text: str) -> tuple[Zxid, ...]:
    found: list[Zxid] = []
    for each in _listed(text):
        first, dash, end = each.partition("-")
        (epoch, count), (same, greatest) = _zxid(first), _zxid(end if dash else first)
        if epoch != same or greatest < count:
            raise ConfigurationError(f"--log: {each!r} must be of one epoch, and ascend")
        found += [(epoch, n) for n in range(count, greatest + 1)]
    if found != sorted(set(found)):
        raise ConfigurationError("--log: must ascend")
    return tuple(found)


def _number(log: Sequence[Zxid]) -> int:
    """The last zxid of a log as servers have it, in one number."""
    epoch, count = log[-1] if log else (0, 0)
    return epoch << 32 | count


# --- what follows --------------------------------------------------------------------------------


def _synchronised(
    plan: _Plan, outcome: Rehearsal, leaders: Sequence[int], history: int
) -> dict[int, SyncPlan]:
    """How the leader brings each other server up to date, by its number."""
    from ..testing.simulation.ensemble.sync import plan_sync

    if len(leaders) != 1:
        return {}
    numbers = {each: [epoch << 32 | n for epoch, n in log] for each, log in plan.logs.items()}
    (leader,) = leaders
    committed = numbers[leader][-history:]
    last = _number(plan.logs[leader])
    return {
        each: plan_sync(log[-1] if log else 0, committed, last)
        for each, log in numbers.items()
        if each != leader and (each not in plan.up or outcome.roles[each][1] == leader)
    }


def _as_text(
    plan: _Plan,
    servers: int,
    outcome: Rehearsal,
    leaders: Sequence[int],
    synchronised: Mapping[int, SyncPlan],
) -> list[str]:
    from ..testing.simulation.ensemble.election import quorum_size

    lines = [f"{render.plural(servers, 'voter')}, quorum {quorum_size(servers)}", ""]
    headings = ("at", "round", "server", "")
    rows = [
        [f"{step.at:.3f} s", str(step.round), str(step.server), step.why] for step in outcome.steps
    ]
    lines += [*table(headings, rows, right=headings[:3]), ""]
    if len(leaders) != 1:
        voters = [each for each in plan.up if each <= servers]
        text = f"nobody leads: no {quorum_size(servers)} of the {len(voters)} voters that are up"
        return [*lines, f"{text} reach each other"]
    (leader,) = leaders
    epoch = 1 + max(plan.epochs[each] for each in plan.up)
    lines += [f"server {leader} leads, in epoch {epoch} or later, and brings up to date:", ""]
    rows = [
        [
            str(each) if each in plan.up else f"{each} (down)",
            "{}.{}".format(*plan.logs[each][-1]) if plan.logs[each] else "none",
            one.name,
            one.text,
        ]
        for each, one in sorted(synchronised.items())
    ]
    return lines + table(("server", "zxid", "by", ""), rows)


def _as_json(
    outcome: Rehearsal, leaders: Sequence[int], synchronised: Mapping[int, SyncPlan]
) -> dict[str, Any]:
    from ..testing.simulation.ensemble.sync import shown_zxid

    return {
        "leaders": list(leaders),
        "notifications": outcome.notifications,
        "steps": [
            {
                "at": round(step.at, 6),
                "server": step.server,
                "round": step.round,
                "doing": step.role.value,
                "vote": step.vote.leader if step.vote.leader >= 0 else None,
                "why": step.why,
            }
            for step in outcome.steps
        ],
        "synchronisation": [
            {
                "server": each,
                "by": one.name,
                "zxid": shown_zxid(one.zxid),
                "transactions": len(one.proposals),
            }
            for each, one in sorted(synchronised.items())
        ],
    }
