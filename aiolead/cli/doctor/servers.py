"""What servers say of themselves, and whether that is safe. Pure.

What the limits are for is in `docs/safety.md` and `docs/ensembles.md`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ... import _parsing
from ..survey import Answers, Quorum, count_in
from .findings import Finding, Level

__all__ = ["judge_ensemble", "judge_server", "judge_settings"]

OLDEST = (3, 5)
"""The oldest version that aiolead works with."""
LEASE_FOR_ELECTIONS = 0.40
"""What part of a session timeout a holder has for an election, at least."""
CLOCKS_APART = 5.0
"""How far apart clocks may be before it is said, in seconds. Only ages depend on them."""
FILES_USED = 0.8
"""What part of its file descriptors a server may use before it is said."""

KEEPS_TRANSACTIONS = {(3, 8): 5, (3, 9): 2}
"""Where servers no longer lose committed transactions that they had when they joined: the first
patch of the minor versions that had been released before (ZOOKEEPER-4643, 4646, 4785)."""


def judge_server(answers: Answers) -> Iterator[Finding]:
    """Whether a server serves, and with which version."""
    server, version = str(answers.server), answers.version
    details = {"server": server, "role": answers.mode or None, "version": version or None}
    if not answers.is_serving:
        why = answers.problem or f"is {answers.mode or 'nothing that is known'}"
        advice = "look at its log; `aiolead ensemble` shows whether the others have a leader"
        yield Finding("server", Level.FAIL, f"{server}: {why}", advice, details)
        return
    text = f"{server}: {answers.mode}, ZooKeeper {version or 'of an unknown version'}"
    yield Finding("server", Level.OK, text, "", details)
    if not version:
        return
    major, minor, *patch = (_parsing.whole(part) for part in version.split("."))
    if (major, minor) < OLDEST:
        text = f"{server}: ZooKeeper {version} is too old"
        yield Finding("server", Level.FAIL, text, "3.5 is the oldest that works", details)
    elif answers.mode == "standalone":
        return  # it joins nobody
    elif (major, minor) < (3, 8) or (patch or [0])[0] < KEEPS_TRANSACTIONS.get((major, minor), 0):
        text = (
            f"{server}: ZooKeeper {version} may lose committed transactions when a server is "
            "stopped while it joins (ZOOKEEPER-4643, 4646, 4785)"
        )
        yield Finding("server", Level.WARN, text, "3.8.5, 3.9.2 and later do not", details)


def judge_settings(answers: Answers, timeout: float | None) -> Iterator[Finding]:
    """Whether the configuration of a server is safe.

    Args:
        answers: what it says.
        timeout: the session timeout that was granted, in seconds; None if there is no session.
    """
    server = str(answers.server)
    details = {"server": server}
    if answers.conf:
        yield from _judge_times(answers, timeout)
    elif answers.is_serving:
        text = f"{server}: its configuration is not told: {answers.not_told.get('conf', 'why?')}"
        advice = "4lw.commands.whitelist=srvr,conf,mntr,cons,dump; or let its admin server be asked"
        yield Finding("settings", Level.UNKNOWN, text, advice, details)
    properties = answers.properties
    if properties.get("zookeeper.forceSync", "yes") == "no":
        text = f"{server}: forceSync=no: it confirms what is not on its disk"
        advice = "if machines fail together, committed writes are lost, and with them who leads"
        yield Finding("settings", Level.FAIL, text, advice, details)
    if properties.get("zookeeper.skipACL", "no") == "yes":
        text = f"{server}: skipACL=yes: everybody may do everything"
        yield Finding(
            "settings", Level.WARN, text, "unset it, once ACLs are as they should", details
        )
    used = _quotient(answers.monitor, "open_file_descriptor_count", "max_file_descriptor_count")
    if used is not None and used > FILES_USED:
        text = f"{server}: {used:.0%} of its file descriptors are used"
        advice = "raise its limit (ulimit -n): without any it takes no more connections"
        yield Finding("settings", Level.WARN, text, advice, details)
    if answers.clock_ahead is not None:
        ahead = answers.clock_ahead
        which = "ahead of" if ahead > 0 else "behind"
        text = f"{server}: its clock is {abs(ahead):.0f} s {which} ours"
        level = Level.WARN if abs(ahead) > CLOCKS_APART else Level.OK
        advice = "" if level is Level.OK else "ages of znodes are off by that; nothing else is"
        yield Finding("clock", level, text, advice, details)


def _judge_times(answers: Answers, timeout: float | None) -> Iterator[Finding]:
    server = str(answers.server)
    tick = answers.milliseconds("tickTime")
    shortest = answers.milliseconds("minSessionTimeout")
    longest = answers.milliseconds("maxSessionTimeout")
    ticks = count_in(answers.conf, "syncLimit")
    details = {"server": server, "tick": tick, "sync_limit": ticks}
    if tick is None:
        return
    limits = f", session timeouts {shortest:g} to {longest:g} s" if shortest and longest else ""
    text = f"{server}: tickTime {tick:g} s{limits}"
    yield Finding("settings", Level.OK, text, "", details)
    if timeout is not None and tick > timeout / 2:
        text = (
            f"{server}: tickTime is {tick:g} s, more than half of the session timeout {timeout:g} s"
        )
        advice = f"use --session-timeout {2 * tick:g} or more, or connect(tick_time={tick:g})"
        yield Finding("settings", Level.FAIL, text, advice, details)
    elif shortest is not None and shortest < 2 * tick:
        text = f"{server}: minSessionTimeout is {shortest:g} s, less than two ticks"
        advice = f"leases are safe from {2 * tick:g} s up, or with connect(tick_time={tick:g})"
        yield Finding("settings", Level.WARN, text, advice, details)
    silence = 0.0 if ticks is None else ticks * tick
    if timeout is not None and silence > timeout * LEASE_FOR_ELECTIONS:
        text = (
            f"{server}: syncLimit allows {silence:g} s of silence: if the leader freezes, terms "
            f"with a session timeout of {timeout:g} s end"
        )
        advice = f"{silence / LEASE_FOR_ELECTIONS:g} s would outlast it; both are choices"
        yield Finding("settings", Level.NOTE, text, advice, details)


def judge_ensemble(
    answers: Sequence[Answers], quorum: Quorum, hosts: int, has_names: bool
) -> Iterator[Finding]:
    """Whether there is a quorum, and how many failures it can still take.

    Args:
        answers: of all servers.
        quorum: what follows from them.
        hosts: how many servers the connect string has.
        has_names: whether one of them is a name, which may stand for several.
    """
    voters, tolerates = quorum.voters, quorum.tolerates
    details = {"voters": voters, "quorum": quorum.quorum, "up": quorum.up, "tolerates": tolerates}
    text = f"{quorum.up} of {voters} voters are up, quorum {quorum.quorum}"
    if not quorum.is_met:
        advice = "nothing can be written; start the servers that are down"
        yield Finding("quorum", Level.FAIL, f"{text}: there is no leader", advice, details)
    elif voters == 1:
        text = "one server alone: when it fails, everything stops"
        yield Finding("quorum", Level.WARN, text, "three survive one failure", details)
    elif tolerates is None:
        text = f"at least {text}"
        advice = "how many more may fail is not known: not all were asked"
        yield Finding("quorum", Level.OK, text, advice, details)
    elif tolerates <= 0:
        yield Finding("quorum", Level.WARN, f"{text}: no more may fail", "", details)
    else:
        yield Finding("quorum", Level.OK, f"{text}: {tolerates} more may fail", "", details)
    if voters > 1 and voters % 2 == 0:
        text = f"{voters} voters survive no more failures than {voters - 1}, and are slower"
        yield Finding("quorum", Level.WARN, text, "make it odd, with an observer perhaps", details)
    if hosts == 1 and voters > 1 and not has_names:
        text = f"--hosts names one server of {voters}"
        advice = "list all: whoever holds something needs another one to go to"
        yield Finding("quorum", Level.WARN, text, advice, details)
    versions = sorted({each.version for each in answers if each.version})
    if len(versions) > 1:
        text = f"servers have different versions: {', '.join(versions)}"
        yield Finding("server", Level.NOTE, text, "fine while they are being upgraded", details)


def _quotient(values: dict[str, str], part: str, whole: str) -> float | None:
    some, all_of_them = count_in(values, part), count_in(values, whole)
    return some / all_of_them if some is not None and all_of_them else None
