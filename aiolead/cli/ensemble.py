"""`aiolead ensemble`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..paths import parse_connect_string
from . import exits, render
from .options import COMMON, Common, Flag, Seconds
from .output import styled, table, write_json, write_line
from .roster import ADMIN_PORT, PATIENCE, inquirer_for, members_besides, read_config
from .signals import Signals, until_signal
from .survey import Answers, Quorum, ask_all, count_in, quorum_of
from .words import Server

__all__ = ["ensemble"]


def ensemble(
    *,
    patience: Seconds = PATIENCE,
    admin_port: int = ADMIN_PORT,
    admin_plain_http: Flag = False,
    common: Common = COMMON,
) -> int:
    """Print each server's role, and how many failures the ensemble can still take.

    Servers are those of --hosts, and those that the ensemble's configuration names. They are asked
    by srvr, which all of them answer, by mntr where that is in 4lw.commands.whitelist, else through
    their admin server. Transactions are not counted at one moment: a server that is a few behind
    is as good as up to date.

    With --json, an object: servers (a list: server, problem, role, version, zxid, behind,
    connections, latency_ms, synced_followers), voters, quorum, up (at least), tolerates (below 0:
    no quorum; null if not all were asked), has_quorum, source (of the number of voters: config,
    mntr, or hosts, which is a guess). What is not known is null.

    Exits with 0 if there is a quorum, 69 if there is none, or no server answers.

    Args:
        patience: How long a server has for an answer, in seconds.
        admin_port: Where the admin servers listen; 0 not to ask them.
        admin_plain_http: Ask admin servers without TLS also where the other options say to use TLS:
            then anybody on the way can read and change what they say.
        common: Where to connect.
    """
    target = parse_connect_string(common.wanted_hosts)
    inquirer = inquirer_for(common, patience, admin_port, admin_plain_http=admin_plain_http)
    code = exits.OK

    async def work() -> None:
        nonlocal code
        servers = list(dict.fromkeys(Server(*host) for host in target.hosts))
        answers = await ask_all(inquirer, servers)
        config, why = None, ""
        if any(each.is_serving and each.mode != "standalone" for each in answers):
            config, why = await read_config(common)
        if config is not None:
            more = await members_besides(config, servers, secure=inquirer.is_encrypted)
            answers += await ask_all(inquirer, more)
        quorum = quorum_of(answers, config)
        if common.as_json:
            write_json(_as_json(answers, quorum))
        else:
            _show(answers, quorum)
            if why:
                common.reporter.state(f"the ensemble's configuration is not known: {why}")
            for reason in sorted({each.not_told.get("mntr", "") for each in answers} - {""}):
                common.reporter.state(f"less is known than there is: {reason}")
        code = exits.OK if quorum.is_met else exits.UNAVAILABLE

    async def main() -> int:
        return await until_signal(signals, work)

    with Signals() as signals:
        number = common.run(main)
    return exits.by_signal(number) if number else code


_HEADINGS = ("server", "role", "version", "zxid", "behind", "connections", "latency ms")


def _show(answers: Sequence[Answers], quorum: Quorum) -> None:
    rows = [_row(each, behind(each, answers)) for each in answers]
    for line in table(_HEADINGS, rows, right=_HEADINGS[4:]):
        write_line(line)
    write_line("")
    write_line(_summary(quorum))


def _row(answers: Answers, lag: int | str | None) -> list[str]:
    name = render.escaped(str(answers.server))
    if not answers.is_serving:
        problem = render.escaped(answers.problem or answers.mode or "does not say what it is")
        return [name, problem, answers.version, "", "", "", ""]
    return [
        name,
        answers.mode,
        answers.version or "?",
        "?" if answers.zxid is None else render.hexadecimal(answers.zxid),
        "?" if lag is None else str(lag),
        "?" if answers.connections is None else str(answers.connections),
        "?" if answers.mean_latency is None else f"{answers.mean_latency:g}",
    ]


def _summary(quorum: Quorum) -> str:
    if quorum.tolerates is None:
        return (
            f"a quorum of {quorum.quorum} of {quorum.voters} voters is up; how many more may fail "
            "is not known: not all were asked"
        )
    whole = f"{quorum.up} of {render.plural(quorum.voters, 'voter')} up"
    if quorum.source == "hosts":
        whole += " (as far as --hosts lists them)"
    if not quorum.is_met:
        return styled(f"{whole}: there is no leader, nothing is served", "red")
    if quorum.tolerates <= 0:
        return styled(f"{whole}, quorum {quorum.quorum}: no more may fail", "yellow")
    return f"{whole}, quorum {quorum.quorum}: {quorum.tolerates} more may fail"


def behind(answers: Answers, all_of_them: Sequence[Answers]) -> int | str | None:
    """How many transactions a server is behind the newest; None if that is not known.

    Those of different epochs cannot be counted: then it says which epoch the server is in.
    """
    zxids = [each.zxid for each in all_of_them if each.zxid is not None and each.is_serving]
    if answers.zxid is None or not zxids:
        return None
    newest = max(zxids)
    if newest >> 32 == answers.zxid >> 32:
        return newest - answers.zxid
    return f"epoch {answers.zxid >> 32} of {newest >> 32}"


def _as_json(answers: Sequence[Answers], quorum: Quorum) -> dict[str, Any]:
    return {
        "servers": [_server_as_json(each, behind(each, answers)) for each in answers],
        "voters": quorum.voters,
        "quorum": quorum.quorum,
        "up": quorum.up,
        "tolerates": quorum.tolerates,
        "has_quorum": quorum.is_met,
        "source": quorum.source,
    }


def _server_as_json(answers: Answers, lag: int | str | None) -> dict[str, Any]:
    return {
        "server": str(answers.server),
        "problem": answers.problem or None,
        "role": answers.mode or None,
        "version": answers.version or None,
        "zxid": answers.zxid,
        "behind": lag if isinstance(lag, int) else None,
        "connections": answers.connections,
        "latency_ms": answers.mean_latency,
        "synced_followers": count_in(answers.monitor, "synced_followers"),
    }
