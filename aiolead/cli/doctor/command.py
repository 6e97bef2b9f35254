"""The command itself: what is examined, in which order."""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Sequence

import anyio

from ... import Client
from ...errors import (
    AioleadError,
    AuthFailedError,
    ConnectFailed,
    NoAuthError,
    NoNodeError,
    UnsupportedError,
)
from ...model import EnsembleConfig
from ...paths import parse_connect_string, validate
from .. import exits, render
from ..options import COMMON, Common, Flag, Seconds
from ..process_keeper import clock
from ..roster import ADMIN_PORT, PATIENCE, inquirer_for, members_besides
from ..signals import Signals, until_signal
from ..survey import Answers, ask_all, quorum_of
from ..words import Inquirer, NotToldError, Server, sessions_in_cons, sessions_in_dump
from .findings import Finding, Level, Report
from .lines import Sessions, look_at, look_for_ghosts
from .network import examine_network
from .servers import judge_ensemble, judge_server, judge_settings

__all__ = ["doctor"]


def doctor(
    *path: str,
    patience: Seconds = PATIENCE,
    admin_port: int = ADMIN_PORT,
    admin_plain_http: Flag = False,
    common: Common = COMMON,
) -> int:
    """Look for what is wrong between here and the servers, and for what is not safe.

    Names, connections, TLS, login, session, quorum, the servers' versions and configuration. For
    each PATH that is contended for: children that belong to nobody, libraries that do not see each
    other, how many sequence numbers are left, and ghosts: contenders that nobody is behind any
    more. Writes nothing.

    With --json, one object per finding: check, level (ok, note, unknown, warn, fail), text, advice,
    and what it is about; the last one is a summary.

    Exits with 0 if nothing failed, 1 if something did, 69 if there was no session, 77 if the
    credentials were refused.

    Args:
        path: What is contended for, such as /jobs/scheduler.
        patience: How long a server has for an answer, in seconds.
        admin_port: Where the servers' admin servers listen; 0 not to ask them.
        admin_plain_http: Ask admin servers without TLS also where the other options say to use TLS:
            then anybody on the way can read and change what they say.
        common: Where to connect.
    """
    for each in path:
        validate(each)
    inquirer = inquirer_for(common, patience, admin_port, admin_plain_http=admin_plain_http)
    target = parse_connect_string(common.wanted_hosts)
    servers = list(dict.fromkeys(Server(*host) for host in target.hosts))
    report = Report(as_json=common.as_json, quiet=common.quiet)
    code = exits.OK

    async def work() -> None:
        nonlocal code
        code = await Examination(common, inquirer, servers, report).run(path)
        report.sum_up()

    async def main() -> int:
        return await until_signal(signals, work)

    with Signals() as signals:
        number = common.run(main)
    return exits.by_signal(number) if number else code


class Examination:
    """One examination, from the resolver to the line.

    Args:
        common: where to connect.
        inquirer: asks servers.
        servers: those of the connect string.
        report: what tells the findings.

    Raises:
        ConfigurationError: the options make no sense.
    """

    def __init__(
        self, common: Common, inquirer: Inquirer, servers: Sequence[Server], report: Report
    ) -> None:
        self._common = common
        self._inquirer = inquirer
        self._servers = list(servers)
        self._report = report
        self._connection = common.connect()
        self._answers: list[Answers] = []
        self._silent: list[Answers] = []  # the first of them, of servers that were not reached

    async def run(self, paths: Sequence[str]) -> int:
        """Runs it; returns the exit code."""
        reached: list[Server] = []
        for server, findings in zip(self._servers, await self._all_networks(), strict=True):
            self._report.add(findings)
            if any(each.check == "tcp" and each.level is Level.OK for each in findings):
                reached.append(server)
            else:
                self._silent.append(Answers(server, problem="cannot be connected to"))
        if not reached:
            text = "there is none: no server could be connected to"
            self._report.add([Finding("session", Level.FAIL, text)])
            return exits.UNAVAILABLE
        self._answers = self._silent + await self._ask(reached)
        code = await self._session(paths)
        if code == exits.OK and self._report.has_failures:
            return exits.FAILED
        return code

    async def _all_networks(self) -> list[list[Finding]]:
        found: list[list[Finding]] = [[] for _ in self._servers]

        async def examine(n: int, server: Server) -> None:
            found[n] = await examine_network(self._inquirer, server)

        async with anyio.create_task_group() as tasks:
            for n, server in enumerate(self._servers):
                tasks.start_soon(examine, n, server)
        return found

    async def _ask(self, servers: Sequence[Server]) -> list[Answers]:
        return await ask_all(self._inquirer, servers, thoroughly=True, clock=time.time)

    # --- the session ---------------------------------------------------------------------------

    async def _session(self, paths: Sequence[str]) -> int:
        begin = clock()
        try:
            async with self._connection as client:
                self._report.add(self._granted(client, clock() - begin))
                self._report.add(await self._login(client))
                self._report.add(await self._proof(client))
                granted = client.statistics().session_timeout
                await self._ensemble(await self._config(client), granted)
                if paths:
                    await self._lines(client, paths)
        except AuthFailedError as error:
            advice = "are --auth and --sasl right? do the servers know this login?"
            self._report.add([Finding("login", Level.FAIL, str(error), advice)])
            await self._ensemble(None, None)
            return exits.REFUSED
        except AioleadError as error:
            is_first = isinstance(error, ConnectFailed)
            text = "there is no session" if is_first else f"the session did not last: {error}"
            tried = [f"{where}: {why}" for where, why in getattr(error, "attempts", ())]
            advice = "; ".join(tried) or "see above"
            self._report.add([Finding("session", Level.FAIL, text, advice)])
            if is_first:
                await self._ensemble(None, None)
            return exits.exit_code(error)
        return exits.OK

    def _granted(self, client: Client, took: float) -> list[Finding]:
        granted, wanted = client.statistics().session_timeout, self._common.wanted_session_timeout
        details = {"session": render.hexadecimal(client.session_id), "timeout": granted}
        text = f"{render.hexadecimal(client.session_id)}, timeout {granted:g} s"
        found = [Finding("session", Level.OK, f"{text} ({took * 1000:.0f} ms)", "", details)]
        if abs(granted - wanted) > 0.001:
            text = f"the servers grant a session timeout of {granted:g} s, not {wanted:g} s"
            advice = "their limits are minSessionTimeout and maxSessionTimeout"
            found.append(Finding("session", Level.WARN, text, advice, details))
        return found

    async def _login(self, client: Client) -> list[Finding]:
        try:
            identities = await client.whoami()
        except UnsupportedError:
            if self._common.auth is None and self._common.sasl is None:
                return []
            text = "taken; servers before 3.7 do not tell whom they take us for"
            return [Finding("login", Level.OK, text)]
        names = [f"{identity.scheme}:{identity.id}" for identity in identities]
        return [Finding("login", Level.OK, ", ".join(names), "", {"identities": names})]

    async def _proof(self, client: Client) -> list[Finding]:
        """What only a quorum can answer: a transaction that changes nothing."""
        begin = clock()
        text = "answers"
        try:
            await client.check("/")
        except NoNodeError:
            text = "answers; the chroot does not exist yet"
        except NoAuthError:
            text = "answers; the chroot may not be read"
        took = clock() - begin
        details = {"milliseconds": round(took * 1000, 3)}
        return [Finding("quorum", Level.OK, f"{text} ({took * 1000:.1f} ms)", "", details)]

    async def _config(self, client: Client) -> EnsembleConfig | None:
        try:
            return await client.get_config()
        except NoAuthError:
            return None

    # --- the servers ---------------------------------------------------------------------------

    async def _ensemble(self, config: EnsembleConfig | None, timeout: float | None) -> None:
        if config is not None:
            more = await members_besides(config, self._servers, secure=self._inquirer.is_encrypted)
            self._answers += await self._ask(more)
        for answers in self._answers[len(self._silent) :]:
            self._report.add(judge_server(answers))
            self._report.add(judge_settings(answers, timeout))
        quorum = quorum_of(self._answers, config)
        names = any(not _is_address(server.host) for server in self._servers)
        self._report.add(judge_ensemble(self._answers, quorum, len(self._servers), names))

    async def _lines(self, client: Client, paths: Sequence[str]) -> None:
        looks = [look for path in paths for look in await look_at(client, path)]
        # Not before: whoever comes later would have a session that was not heard of.
        sessions = await self._sessions()
        for look in looks:
            self._report.add(look.findings)
            self._report.add(await look_for_ghosts(client, look, sessions))

    async def _sessions(self) -> Sessions:
        alive: set[int] | None = None
        connected: dict[int, str] | None = {}
        for answers in self._answers:
            if answers.mode in ("leader", "standalone"):  # followers may not have heard of all yet
                try:
                    alive = sessions_in_dump(await self._inquirer.word(answers.server, "dump"))
                except (NotToldError, OSError):
                    alive = None
            try:
                said = sessions_in_cons(await self._inquirer.word(answers.server, "cons"))
            except (NotToldError, OSError):
                connected = None
            else:
                connected = None if connected is None else connected | said
        return Sessions(alive, connected)


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True
