"""`aiolead run` without a command, and `aiolead observe`: contend for leadership, or look on."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import anyio

from .. import Client, Election, Phase, Term
from ..types import CampaignState, ElectionState
from . import exits, render
from .options import COMMON, Common, ZnodePath
from .signals import first_of


def contend(
    path: str,
    election_of: Callable[[Client], Election],
    *,
    forever: bool,
    close_on_crash: bool,
    common: Common,
) -> int:
    """Contend for leadership and print each change, until SIGINT or SIGTERM, which resign.

    Returns 74 when leadership was lost, and 0 when it resigned on request; but with `forever` it
    contends again.
    """

    async def work(client: Client) -> int:
        campaign = partial(_campaign, election_of(client), common)
        while True:
            is_lost = await first_of(campaign)  # for an error without a group
            if not forever:
                return exits.LOST if is_lost else exits.OK

    return common.with_client(work, endless=True, close_on_crash=close_on_crash)


async def _campaign(election: Election, common: Common) -> bool:
    """Contend until leadership is lost, or resigned on request; return whether it was lost."""

    async def resign_on_request(term: Term) -> None:
        await term.revocation_requested()
        await term.resign()

    term: Term | None = None
    is_lost = False
    async with election.campaign() as states, anyio.create_task_group() as tasks:
        async for state in states:
            # Only the latest state is delivered: the loss of the term may have been skipped.
            if term is not None and state.term is not term:
                state = CampaignState(Phase.LOST, term.session_id, term, term.loss)
            common.show(_as_json(state, election.identity), _as_text(state, election.identity))
            if is_lost := state.phase is Phase.LOST:
                break
            if term is None and state.term is not None:
                tasks.start_soon(resign_on_request, state.term)
            term = state.term
        tasks.cancel_scope.cancel()
    return is_lost


def _as_json(state: CampaignState, identity: str) -> dict[str, Any]:
    return {
        "time": render.now(),
        "state": state.phase.value,
        "rank": state.rank,
        "token": state.token,
        "node": state.term and state.term.path,
        "session": render.hexadecimal(state.session_id),
        "id": identity,
        "reason": state.reason and state.reason.value,
    }


def _as_text(state: CampaignState, identity: str) -> str:
    match state.phase:
        case Phase.LEADING:
            what = f"leads (token {state.token})"
        case Phase.SUSPENDED:
            what = "has no connection to the servers: leads as long as the lease lasts"
        case Phase.LOST:
            what = f"has lost: {state.reason}"
        case Phase.RESIGNED:
            what = "has resigned"
        case _:
            before = "" if state.rank is None else f", {state.rank} before it"
            what = f"waits{before}"
    return f"{render.now()}  {render.escaped(identity)} {what}"


def observe(path: ZnodePath, /, *, common: Common = COMMON) -> int:
    """Print who leads, and each change of it, until SIGINT or SIGTERM.

    A leader of a moment may be left out; the last one never is.

    With --json: time (UTC), leader (null if nobody leads), token, session, and is_current (false
    while the connection to the servers is lost).

    Args:
        path: The path of the election or lock.
        common: Where to connect.
    """

    async def work(client: Client) -> None:
        async with Election(client, path).observe() as states:
            async for state in states:
                common.show(_leader_as_json(state), _leader_as_text(state))

    return common.with_client(work, endless=True, followed=True)


def _leader_as_json(state: ElectionState) -> dict[str, Any]:
    leader = state.leader
    return {
        "time": render.now(),
        "leader": leader and leader.identity,
        "token": leader and leader.token,
        "session": leader and render.hexadecimal(leader.session_id),
        "is_current": state.is_current,
    }


def _leader_as_text(state: ElectionState) -> str:
    leader = state.leader
    who = "nobody leads"
    if leader is not None:
        who = f"{render.escaped(leader.identity)} leads (token {leader.token})"
    return f"{render.now()}  {who}" + ("" if state.is_current else " (last known state)")
