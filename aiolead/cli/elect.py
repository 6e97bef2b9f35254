"""`aiolead elect`."""

from __future__ import annotations

from .. import Client, Election, Phase, Term
from ..paths import validate
from ..types import CampaignState
from . import exits, shown
from .options import COMMON, Common, Flag
from .output import write_line

__all__ = ["elect"]


def elect(
    path: str,
    /,
    *,
    id: str | None = None,  # noqa: A002 - the name of the option
    leaders: int = 1,
    once: Flag = False,
    common: Common = COMMON,
) -> int:
    """Contend for leadership and print how that stands, until SIGINT or SIGTERM.

    Nothing is run while we lead, and so nothing is stopped when leadership is lost: a program that
    must not run twice belongs to `aiolead run`. SIGINT and SIGTERM resign.

    With --json: time (UTC), state (following, leading, suspended, lost), rank (how many have to go
    before we lead; null if not known), token, node, session, id, reason (why it was lost).

    Args:
        path: What is contended for.
        id: What others see as the leader. Default: host name and process id.
        leaders: How many may lead at once; all contenders must agree on it.
        once: End when leadership was lost, with exit code 74, rather than contend again.
        common: Where to connect.
    """
    validate(path)
    describe = _as_json if common.as_json else _as_text

    async def work(client: Client) -> int:
        election = Election(client, path, identity=id, leaders=leaders)
        term: Term | None = None
        async with election.campaign() as states:
            async for state in states:
                # The latest state wins: that the term was lost may have been passed over.
                if term is not None and state.term is not term:
                    lost = CampaignState(Phase.LOST, term.session_id, term, term.loss)
                    write_line(describe(lost, election.identity))
                    if once:
                        return exits.LOST
                write_line(describe(state, election.identity))
                if once and state.phase is Phase.LOST:
                    return exits.LOST
                term = None if state.phase is Phase.LOST else state.term
        return exits.OK

    return common.with_client(work, endless=True)


def _as_json(state: CampaignState, identity: str) -> str:
    term = state.term
    about = {
        "time": shown.now(),
        "state": state.phase.value,
        "rank": state.rank,
        "token": state.token,
        "node": term and term.path,
        "session": shown.hexadecimal(state.session_id),
        "id": identity,
        "reason": state.reason and state.reason.value,
    }
    return shown.as_json(about)


def _as_text(state: CampaignState, identity: str) -> str:
    match state.phase:
        case Phase.LEADING:
            what = f"leads (token {state.token})"
        case Phase.SUSPENDED:
            what = "has no link to the servers: leads as long as the lease lasts"
        case Phase.LOST:
            what = f"has lost: {state.reason}"
        case Phase.RESIGNED:
            what = "has resigned"
        case _:
            before = "" if state.rank is None else f", {state.rank} before it"
            what = f"waits{before}"
    return f"{shown.now()}  {shown.escaped(identity)} {what}"
