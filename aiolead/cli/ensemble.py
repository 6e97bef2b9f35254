"""`aiolead ensemble`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import admin
from ..errors import AioleadError
from ..model import EnsembleConfig
from . import exits, render
from .options import COMMON, Common
from .output import styled, table
from .server_inquiry import count_in
from .server_survey import (
    INQUIRY,
    InquiryOptions,
    Quorum,
    ServerAnswers,
    ask_all,
    listed_servers,
    members_besides,
    quorum_of,
)


def ensemble(*, inquiry: InquiryOptions = INQUIRY, common: Common = COMMON) -> int:
    """Print each server's role, and how many failures the ensemble can still take.

    Servers are those of --hosts, and those that the ensemble's configuration names. They are asked
    by srvr, which all of them answer, by mntr where that is in 4lw.commands.whitelist, else through
    their admin server. Transactions are not counted at one moment: a server that is a few behind
    is as good as up to date.

    With --json, an object: servers (a list: server, problem, role,
    state, version, zxid, behind,
    connections, latency_ms, synced_followers), voters, quorum, up (at least), tolerates (below 0:
    no quorum; null if not all were asked), has_quorum, leader_answers (false if all were asked, and
    none leads), source (of the number of voters: config, mntr, or hosts, which is a guess). Unknown
    values are null.

    Exits with 0 if there is a quorum, 69 if there is none, no server answers, or none leads.

    Args:
        inquiry: How to ask.
        common: Where to connect.
    """
    servers = listed_servers(common)
    inquirer = inquiry.inquirer(common)

    async def work() -> int:
        answers = await ask_all(inquirer, servers)
        config, why = None, ""
        if any(each.is_serving and each.mode != "standalone" for each in answers):
            config, why = await _read_config(common)
        if config is not None:
            more = await members_besides(config, servers, secure=inquirer.is_encrypted)
            answers += await ask_all(inquirer, more)
        quorum = quorum_of(answers, config)
        serving = [each for each in answers if each.is_serving]
        common.show(_as_json(answers, quorum), *_as_text(answers, quorum))
        if why:
            common.note(f"the ensemble's configuration is not known: {why}")
        for reason in sorted({each.not_told.get("mntr", "") for each in serving} - {""}):
            common.note(f"some values are not known: {reason}")
        return exits.OK if quorum.is_met and quorum.is_led else exits.UNAVAILABLE

    return common.run_until_signal(work)


async def _read_config(common: Common) -> tuple[EnsembleConfig | None, str]:
    """The ensemble's configuration, or why it is unknown."""
    connection = common.connect()
    try:
        async with connection as client:
            config = await admin.get_config(client)
    except AioleadError as error:
        return None, str(error)
    return (config, "") if config.servers else (None, "the servers do not have it")


_HEADINGS = ("server", "role", "version", "zxid", "behind", "connections", "latency ms")


def _as_text(answers: Sequence[ServerAnswers], quorum: Quorum) -> list[str]:
    rows = [_row(each, behind(each, answers)) for each in answers]
    return [*table(_HEADINGS, rows, right=_HEADINGS[4:]), "", _summary(quorum)]


def _row(answers: ServerAnswers, lag: int | str | None) -> list[str]:
    name = render.escaped(str(answers.server))
    if not answers.is_serving:
        problem = render.escaped(answers.problem or answers.mode or "does not say what it is")
        return [name, problem, answers.version, "", "", "", ""]
    return [
        name,
        answers.mode,
        _release(answers),
        "?" if answers.zxid is None else render.hexadecimal(answers.zxid),
        "?" if lag is None else str(lag),
        "?" if answers.connections is None else str(answers.connections),
        "?" if answers.mean_latency is None else f"{answers.mean_latency:.1f}",
    ]


def _release(answers: ServerAnswers) -> str:
    version = answers.version or "?"
    return version if answers.engine == "ZooKeeper" else f"{answers.engine} {version}"


def _summary(quorum: Quorum) -> str:
    if quorum.tolerates is None:
        return (
            f"a quorum of {quorum.quorum} of {quorum.voters} voters is up; how many more may fail "
            "is not known: not all were asked"
        )
    whole = f"{quorum.up} of {render.plural(quorum.voters, 'voter')} up"
    if quorum.source == "hosts":
        whole += " (as far as --hosts lists them)"
    if quorum.looking:
        whole += f", {quorum.looking} looking for a leader"
    whole += f", quorum {quorum.quorum}"
    if not quorum.is_met:
        return styled(f"{whole}: there is no leader, nothing is served", "red")
    whole += f": {max(0, quorum.tolerates) or 'no'} more may fail"
    if not quorum.is_led:
        whole += (
            "; the leader does not answer, and nothing is written until it does, or another one "
            "is elected"
        )
    return whole if quorum.tolerates > 0 and quorum.is_led else styled(whole, "yellow")


def behind(answers: ServerAnswers, all_of_them: Sequence[ServerAnswers]) -> int | str | None:
    """Transactions behind the newest server; a text if their epochs differ; None if unknown."""
    zxids = [each.zxid for each in all_of_them if each.zxid is not None and each.is_serving]
    if answers.zxid is None or not zxids:
        return None
    newest = max(zxids)
    if newest >> 32 == answers.zxid >> 32:
        return newest - answers.zxid
    return f"epoch {answers.zxid >> 32} of {newest >> 32}"


def _as_json(answers: Sequence[ServerAnswers], quorum: Quorum) -> dict[str, Any]:
    lags = [behind(each, answers) for each in answers]
    return {
        "servers": [
            {
                "server": str(each.server),
                "problem": each.problem or None,
                "role": each.mode or None,
                "state": each.state.value,
                "engine": each.engine,
                "version": each.version or None,
                "zxid": each.zxid,
                "behind": lag if isinstance(lag, int) else None,
                "connections": each.connections,
                "latency_ms": each.mean_latency,
                "synced_followers": count_in(each.monitor, "synced_followers"),
            }
            for each, lag in zip(answers, lags, strict=True)
        ],
        "voters": quorum.voters,
        "quorum": quorum.quorum,
        "up": quorum.up,
        "tolerates": quorum.tolerates,
        "has_quorum": quorum.is_met,
        "leader_answers": quorum.is_led,
        "source": quorum.source,
    }
