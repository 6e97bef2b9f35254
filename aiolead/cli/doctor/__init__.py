"""`aiolead doctor`: what is wrong or may become so, and what to do about it.

This module is the command; `reachability`, `server_checks` and `queue_checks` examine, `findings`
is what they find.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from ... import Client, admin
from ..._util.escaping import in_words
from ..._util.name_lookup import is_literal
from ...errors import (
    AioleadError,
    AuthFailedError,
    ConnectFailed,
    NoAuthError,
    NoNodeError,
    UnsupportedError,
)
from ...model import EnsembleConfig
from ...paths import validate
from .. import exits, render
from ..options import COMMON, Common, ZnodePath
from ..process_keeper import clock
from ..server_inquiry import (
    Inquirer,
    NotToldError,
    ServerAddress,
    ephemerals_in_dump,
    sessions_in_dump,
)
from ..server_survey import (
    INQUIRY,
    InquiryOptions,
    ServerAnswers,
    ask_all,
    connected_sessions,
    listed_servers,
    members_besides,
    quorum_of,
)
from ..signals import each_at_once
from .findings import DoctorReport, Level
from .queue_checks import KnownSessions, look_at, look_for_ghosts
from .reachability import examine_network
from .server_checks import judge_ensemble, judge_server, judge_sessions, judge_settings


def doctor(*path: ZnodePath, inquiry: InquiryOptions = INQUIRY, common: Common = COMMON) -> int:
    """Look for what is wrong between here and the servers, and for what is not safe.

    Names, connections, TLS, login, session, quorum, the servers' versions and configuration. For
    each PATH that is contended for: children that belong to nobody, libraries that do not see each
    other, how many sequence numbers are left, and ghosts: contenders whose process is gone. Writes
    nothing.

    With --json, one object per finding: check, level (ok, note, unknown, warn, fail), text, advice,
    and what it is about; the last one is a summary.

    Exits with 0 if nothing failed, 1 if something did, 69 if there was no session, 77 if the
    credentials were refused.

    Args:
        path: The path of the election or lock, such as /jobs/scheduler.
        inquiry: How to ask servers.
        common: Where to connect.
    """
    for each in path:
        validate(each)
    inquirer = inquiry.inquirer(common)
    servers = listed_servers(common)
    report = DoctorReport(as_json=common.as_json, quiet=common.quiet)

    async def work() -> int:
        code = await Examination(common, inquirer, servers, report).run(path)
        report.sum_up()
        return code

    return common.run_until_signal(work)


class Examination:
    """One examination, from the resolver to the contender queues."""

    def __init__(
        self,
        common: Common,
        inquirer: Inquirer,
        servers: Sequence[ServerAddress],
        report: DoctorReport,
    ) -> None:
        self._common = common
        self._inquirer = inquirer
        self._servers = servers
        self._report = report
        self._connection = common.connect()
        self._answers: list[ServerAnswers] = []
        self._silent: list[ServerAnswers] = []  # servers that were not reached, the first answers

    async def run(self, paths: Sequence[str]) -> int:
        reached: list[ServerAddress] = []
        networks = await each_at_once(self._servers, partial(examine_network, self._inquirer))
        for server, findings in zip(self._servers, networks, strict=True):
            self._report.add(findings)
            if any(each.check == "tcp" and each.level is Level.OK for each in findings):
                reached.append(server)
            else:
                self._silent.append(ServerAnswers(server, problem="cannot be connected to"))
        if not reached:
            self._add(Level.FAIL, "session", "there is none: no server could be connected to")
            return exits.UNAVAILABLE
        self._answers = self._silent + await self._ask(reached)
        code = await self._session(paths)
        if code == exits.OK and self._report.has_failures:
            return exits.FAILED
        return code

    def _add(
        self, level: Level, check: str, text: str, advice: str = "", /, **details: object
    ) -> None:
        self._report.add([level.finding(check, text, advice, **details)])

    async def _ask(self, servers: Sequence[ServerAddress]) -> list[ServerAnswers]:
        return await ask_all(self._inquirer, servers, thoroughly=True, clock=time.time)

    # --- the session ---------------------------------------------------------------------------

    async def _session(self, paths: Sequence[str]) -> int:
        begin = clock()
        try:
            async with self._connection as client:
                self._check_timeout(client, clock() - begin)
                await self._check_login(client)
                await self._check_quorum(client)
                granted = client.statistics().session_timeout
                await self._check_servers(await _read_config(client), granted)
                if paths:
                    await self._check_queues(client, paths)
        except AuthFailedError as error:
            advice = "are --auth and --sasl right? do the servers know this login?"
            self._add(Level.FAIL, "login", str(error), advice)
            await self._check_servers(None, None)
            return exits.REFUSED
        except AioleadError as error:
            is_first = isinstance(error, ConnectFailed)
            text = "there is no session" if is_first else f"the session did not last: {error}"
            tried = [f"{where}: {in_words(why)}" for where, why in getattr(error, "attempts", ())]
            advice = "; ".join(tried or ["see above"])
            self._add(Level.FAIL, "session", text, advice)
            if is_first:
                await self._check_servers(None, None)
            return exits.exit_code(error)
        return exits.OK

    def _check_timeout(self, client: Client, took: float) -> None:
        granted, wanted = client.statistics().session_timeout, self._common.wanted_session_timeout
        session = render.hexadecimal(client.session_id)
        text = f"{session}, timeout {granted:g} s ({took * 1000:.0f} ms)"
        self._add(Level.OK, "session", text, session=session, timeout=granted)
        if abs(granted - wanted) > 0.001:
            text = f"the servers grant a session timeout of {granted:g} s, not {wanted:g} s"
            advice = "their limits are minSessionTimeout and maxSessionTimeout"
            self._add(Level.WARN, "session", text, advice, session=session, timeout=granted)

    async def _check_login(self, client: Client) -> None:
        try:
            identities = await admin.whoami(client)
        except UnsupportedError:
            if self._common.auth is not None or self._common.sasl is not None:
                text = "accepted; servers before 3.7 do not report the identity"
                self._add(Level.OK, "login", text)
            return
        names = [f"{identity.scheme}:{identity.id}" for identity in identities]
        self._add(Level.OK, "login", ", ".join(names), identities=names)

    async def _check_quorum(self, client: Client) -> None:
        """Send what only a quorum can answer: a transaction that changes nothing."""
        begin = clock()
        text = "answers"
        try:
            await client.check("/")
        except NoNodeError:
            text = "answers; the chroot does not exist yet"
        except NoAuthError:
            text = "answers; the chroot may not be read"
        took = (clock() - begin) * 1000
        self._add(Level.OK, "quorum", f"{text} ({took:.1f} ms)", milliseconds=round(took, 3))

    # --- the servers, and the queues -----------------------------------------------------------

    async def _check_servers(self, config: EnsembleConfig | None, timeout: float | None) -> None:
        if config is not None:
            more = await members_besides(config, self._servers, secure=self._inquirer.is_encrypted)
            self._answers += await self._ask(more)
        asked = self._answers[len(self._silent) :]
        for answers in asked:
            self._report.add(judge_server(answers))
        self._report.add(each for answers in asked for each in judge_settings(answers, timeout))
        self._report.add(judge_sessions(await self._ephemeral_bytes()))
        quorum = quorum_of(self._answers, config)
        names = any(not is_literal(server.host) for server in self._servers)
        self._report.add(judge_ensemble(self._answers, quorum, len(self._servers), names))

    async def _check_queues(self, client: Client, paths: Sequence[str]) -> None:
        looks = [look for path in paths for look in await look_at(client, path)]
        # After the queues: a later contender may have a session that servers had not reported.
        sessions = await self._known_sessions()
        for look in looks:
            self._report.add(look.findings)
            self._report.add(await look_for_ghosts(client, look, sessions))

    async def _ephemeral_bytes(self) -> dict[int, int]:
        """By session; of any server that says it, since a follower lags behind for moments only."""
        for answers in self._answers:
            if answers.is_serving:
                with suppress(NotToldError, OSError):
                    return ephemerals_in_dump(await self._inquirer.word(answers.server, "dump"))
        return {}

    async def _known_sessions(self) -> KnownSessions:
        alive: set[int] | None = None
        for answers in self._answers:
            if answers.mode in ("leader", "standalone"):  # a follower may lag behind
                try:
                    alive = sessions_in_dump(await self._inquirer.word(answers.server, "dump"))
                except (NotToldError, OSError):
                    alive = None
        servers = [answers.server for answers in self._answers]
        return KnownSessions(alive, await connected_sessions(self._inquirer, servers))


async def _read_config(client: Client) -> EnsembleConfig | None:
    try:
        return await admin.get_config(client)
    except NoAuthError:
        return None
