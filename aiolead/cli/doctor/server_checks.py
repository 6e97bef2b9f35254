"""Whether what servers say of themselves is safe. Pure.

`docs/explanation/safety.md` and `docs/explanation/ensembles.md` explain the limits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ..._util import parsing
from ...types import Feature
from .. import render
from ..server_inquiry import count_in
from ..server_survey import Quorum, ServerAnswers
from .findings import Finding, Level

OLDEST = (3, 5)
"""The oldest version that aiolead works with."""
LEASE_FOR_ELECTIONS = 0.40
"""The share of a session timeout that a holder has for an election, at least."""
CLOCKS_APART = 5.0
"""How far apart clocks may be without a warning, in seconds. Only ages depend on them."""
MANY_EPHEMERALS = 512 * 1024
"""From how many bytes of paths of ephemeral znodes on a session is warned of."""
FILES_USED = 0.8
"""The share of its file descriptors that a server may use without a warning."""


def judge_server(answers: ServerAnswers) -> Iterator[Finding]:
    """Whether a server serves, and with which version."""
    server, version = str(answers.server), answers.version
    details = {
        "server": server,
        "role": answers.mode or None,
        "engine": answers.engine,
        "version": version or None,
    }
    if not answers.is_serving:
        why = answers.problem or f"is {answers.mode or 'no ZooKeeper server, by its answer'}"
        advice = "look at its log; `aiolead ensemble` shows whether the others have a leader"
        if not answers.problem and not answers.mode:
            advice = "is this the client port of a ZooKeeper server?"
        elif answers.refuses_tls:
            advice = "see the reasons above: without TLS, it is not asked"
        if answers.wants_tls:
            why = "speaks TLS on this port, and does not answer plain text"
            advice = "use --tls or --tls-ca FILE, or name its port for plain text"
        yield Level.FAIL.finding("server", f"{server}: {why}", advice, **details)
        return
    text = f"{server}: {answers.mode}, {answers.engine} {version or 'of an unknown version'}"
    yield Level.OK.finding("server", text, **details)
    if answers.engine != "ZooKeeper":
        text = f"{server}: {answers.engine} was not tested, only imitated"
        advice = "docs/how-to/clickhouse-keeper.md says what it does not promise"
        yield Level.NOTE.finding("server", text, advice, **details)
        return
    if not version:
        return
    major, minor, patch, *_ = (*map(parsing.whole, version.split(".")), 0, 0)
    if (major, minor) < OLDEST:
        text = f"{server}: ZooKeeper {version} is too old"
        yield Level.FAIL.finding("server", text, "3.5 is the oldest that works", **details)
    elif answers.mode == "standalone":
        return  # it never joins an ensemble
    elif not Feature.JOINING_KEEPS_COMMITS.is_in((major, minor, patch)):
        text = (
            f"{server}: ZooKeeper {version} may lose committed transactions when a server is "
            "stopped while it joins (ZOOKEEPER-4643, 4646, 4785)"
        )
        yield Level.WARN.finding("server", text, "3.8.5, 3.9.2 and later do not", **details)


def judge_settings(answers: ServerAnswers, timeout: float | None) -> Iterator[Finding]:
    """Judge a server's configuration, given the granted session `timeout` (None: no session)."""
    server = str(answers.server)
    if answers.conf:
        yield from _judge_times(answers, timeout)
    elif answers.is_serving:
        text = f"{server}: its configuration is not known: {answers.not_told.get('conf', 'why?')}"
        advice = "4lw.commands.whitelist=srvr,conf,mntr,cons,dump; or let its admin server be asked"
        yield Level.UNKNOWN.finding("settings", text, advice, server=server)
    properties = answers.properties
    if properties.get("zookeeper.forceSync", "yes") == "no":
        text = f"{server}: forceSync=no: it confirms what is not on its disk"
        advice = "if machines fail together, committed writes are lost, and with them who leads"
        yield Level.FAIL.finding("settings", text, advice, server=server)
    if properties.get("zookeeper.skipACL", "no") == "yes":
        text = f"{server}: skipACL=yes: everybody may do everything"
        advice = "unset it, once ACLs are as they should"
        yield Level.WARN.finding("settings", text, advice, server=server)
    open_files = count_in(answers.monitor, "open_file_descriptor_count")
    most_files = count_in(answers.monitor, "max_file_descriptor_count")
    if open_files and most_files and open_files / most_files > FILES_USED:
        text = f"{server}: {open_files / most_files:.0%} of its file descriptors are used"
        advice = "raise its limit (ulimit -n): without any it takes no more connections"
        yield Level.WARN.finding("settings", text, advice, server=server)
    if (ahead := answers.clock_ahead) is not None:
        which = "ahead of" if ahead > 0 else "behind"
        text = f"{server}: its clock is {abs(ahead):.0f} s {which} ours"
        if abs(ahead) > CLOCKS_APART:
            advice = "ages of znodes are off by that; nothing else is"
            yield Level.WARN.finding("clock", text, advice, server=server)
        else:
            yield Level.OK.finding("clock", text, server=server)


def _judge_times(answers: ServerAnswers, timeout: float | None) -> Iterator[Finding]:
    server = str(answers.server)
    tick = answers.configured_seconds("tickTime")
    shortest = answers.configured_seconds("minSessionTimeout")
    longest = answers.configured_seconds("maxSessionTimeout")
    ticks = count_in(answers.conf, "syncLimit")
    details = {"server": server, "tick": tick, "sync_limit": ticks}
    if tick is None:
        return
    limits = f", session timeouts {shortest:g} to {longest:g} s" if shortest and longest else ""
    yield Level.OK.finding("settings", f"{server}: tickTime {tick:g} s{limits}", **details)
    if timeout is not None and tick > timeout / 2:
        text = (
            f"{server}: tickTime is {tick:g} s, more than half of the session timeout {timeout:g} s"
        )
        advice = f"use --session-timeout {2 * tick:g} or more, or connect(tick_time={tick:g})"
        yield Level.FAIL.finding("settings", text, advice, **details)
    elif shortest is not None and shortest < 2 * tick:
        text = f"{server}: minSessionTimeout is {shortest:g} s, less than two ticks"
        advice = f"leases are safe from {2 * tick:g} s up, or with connect(tick_time={tick:g})"
        yield Level.WARN.finding("settings", text, advice, **details)
    silence = 0.0 if ticks is None else ticks * tick
    if timeout is not None and silence > timeout * LEASE_FOR_ELECTIONS:
        text = (
            f"{server}: if the servers' leader freezes, the others wait {silence:g} s (syncLimit) "
            f"before they elect another one. Holders with a session timeout of {timeout:g} s lose "
            "what they hold meanwhile"
        )
        advice = (
            f"--session-timeout {silence / LEASE_FOR_ELECTIONS:g} outlasts that, a shorter "
            "syncLimit shortens it; it is safe as it is, too"
        )
        yield Level.NOTE.finding("settings", text, advice, **details)


def judge_sessions(sizes: Mapping[int, int]) -> Iterator[Finding]:
    """Judge how long the paths of each session's ephemeral znodes are together, in bytes."""
    for session, size in sorted(sizes.items(), key=lambda item: -item[1]):
        if size < MANY_EPHEMERALS:
            return
        name = render.hexadecimal(session)
        text = (
            f"{name}: the paths of its ephemeral znodes have {size} bytes. When a session with "
            "a million or more ends at once, servers may never start again"
        )
        advice = "use more sessions, or shorter paths (ZOOKEEPER-4306, Limits.max_ephemeral_paths)"
        yield Level.WARN.finding("session", text, advice, session=name, ephemeral_bytes=size)


def judge_ensemble(
    answers: Sequence[ServerAnswers], quorum: Quorum, hosts: int, has_names: bool
) -> Iterator[Finding]:
    """Judge whether there is a quorum, and how many failures it can still take.

    The connect string has so many `hosts`, with `has_names` if one may stand for several.
    """
    voters, tolerates = quorum.voters, quorum.tolerates
    details = {"voters": voters, "quorum": quorum.quorum, "up": quorum.up, "tolerates": tolerates}
    text = f"{quorum.up} of {voters} voters are up, quorum {quorum.quorum}"
    level, advice = Level.OK, ""
    if not quorum.is_met:
        level, text = Level.FAIL, f"{text}: there is no leader"
        advice = "nothing can be written"
        if any(each.wants_tls for each in answers):
            advice = "nothing is known: servers were asked in plain text where they speak TLS"
        elif any(each.refuses_tls for each in answers):
            advice = "nothing is known: servers could not be asked over TLS"
        elif quorum.looking < quorum.quorum:
            advice = f"{advice}; start the servers that are down"
    elif voters == 1:
        level, text = Level.WARN, "one server alone: when it fails, everything stops"
        advice = "three survive one failure"
    elif tolerates is None:
        text = f"at least {text}"
        advice = "how many more may fail is not known: not all were asked"
    elif tolerates <= 0:
        level, text = Level.WARN, f"{text}: no more may fail"
    else:
        text = f"{text}: {tolerates} more may fail"
    yield level.finding("quorum", text, advice, **details)
    if not quorum.is_led:
        text = "the leader does not answer"
        advice = "nothing is written until it does, or another one is elected: look at its log"
        yield Level.FAIL.finding("quorum", text, advice, **details)
    if voters > 1 and voters % 2 == 0:
        text = f"{voters} voters survive no more failures than {voters - 1}, and are slower"
        yield Level.WARN.finding("quorum", text, "make it odd, with an observer perhaps", **details)
    if hosts == 1 and voters > 1 and not has_names:
        text = f"--hosts names one server of {voters}"
        advice = "list all: a holder needs another server to go to"
        yield Level.WARN.finding("quorum", text, advice, **details)
    versions = sorted({each.version for each in answers if each.version})
    if len(versions) > 1:
        text = f"servers have different versions: {', '.join(versions)}"
        yield Level.NOTE.finding("server", text, "fine while they are being upgraded", **details)
