"""The servers of an ensemble: a list of them, what they say of themselves, and the quorum."""

from __future__ import annotations

import enum
import os
import re
import socket
import ssl
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, final

import anyio
from cyclopts import Parameter

from .. import Client, admin
from .._util import parsing
from .._util.name_lookup import look_up
from .._util.parsing import MalformedError
from ..errors import AioleadError
from ..model import EnsembleConfig
from ..paths import parse_connect_string
from .options import Common, Flag, Port, Seconds, within
from .server_inquiry import (
    ClientConnection,
    Inquirer,
    NotServingError,
    NotToldError,
    ServerAddress,
    count_in,
    pairs_in,
    sessions_in_cons,
    tls_reason,
)
from .signals import each_at_once

PATIENCE = 3.0
"""Default time limit of an answer, in seconds."""
MOST_MEMBERS = 255
"""Most servers of an ensemble: their ids are from 1 to 255."""
SERVING = ("leader", "follower", "observer", "standalone")
LONGEST_MODE = 40
"""Most characters of a server's mode that are kept."""


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class InquiryOptions:
    """Options of commands that ask servers about themselves."""

    patience: Annotated[Seconds, within(0.01, 3600, " seconds")] = PATIENCE
    """How long a server has for an answer, in seconds."""

    admin_port: Port = 8080
    """Where the admin servers listen; with 0 they are not asked."""

    admin_plain_http: Flag = False
    """Ask admin servers without TLS also where the other options say to use TLS: then anybody on
    the way can read and change what they say."""

    def inquirer(self, common: Common) -> Inquirer:
        """Make an `Inquirer`; raises `ConfigurationError` for unusable TLS files."""
        return Inquirer(
            common.wanted_tls,
            self.patience,
            self.admin_port,
            admin_plain_http=self.admin_plain_http,
        )


INQUIRY = InquiryOptions()


# --- which servers there are ---------------------------------------------------------------------


def listed_servers(common: Common) -> list[ServerAddress]:
    hosts = parse_connect_string(common.wanted_hosts).hosts
    return list(dict.fromkeys(ServerAddress(*host) for host in hosts))


async def all_servers(
    client: Client, known: Sequence[ServerAddress], *, secure: bool
) -> list[ServerAddress]:
    """The known servers, and the ensemble's other members if its configuration may be read."""
    try:
        config = await admin.get_config(client)
    except AioleadError:
        return list(known)
    return [*known, *await members_besides(config, known, secure=secure)]


async def members_besides(
    config: EnsembleConfig, known: Sequence[ServerAddress], *, secure: bool
) -> list[ServerAddress]:
    """The members of an ensemble, reachable for clients, that are none of the known servers.

    Addresses are compared, since names may differ. All are resolved at once: a configuration may
    have many that no resolver answers.
    """
    members = [
        ServerAddress(*address) for address in config.client_addresses(secure=secure)[:MOST_MEMBERS]
    ]
    servers = {*known, *members}
    found = dict(zip(servers, await each_at_once(servers, _addresses_of), strict=True))
    seen = {address for server in known for address in found[server]}
    new: list[ServerAddress] = []
    for member in members:
        addresses = found[member]
        if not seen.intersection(addresses):
            new.append(member)
        seen.update(addresses)
    return new


async def _addresses_of(server: ServerAddress) -> list[tuple[str, int]]:
    """The addresses of a server; its name, if it cannot be resolved."""
    try:
        with anyio.fail_after(PATIENCE):
            found = await look_up(server.host, server.port)
    except (OSError, ValueError, OverflowError):  # not resolved, or no port
        return [(server.host, server.port)]
    return [(address, server.port) for address in found]


# --- what they say of themselves -----------------------------------------------------------------


class ServerState(enum.Enum):
    """The state of a server, as far as its answers say it."""

    SERVING = "serving"
    """It leads, follows, observes, or stands alone."""
    READ_ONLY = "read-only"
    """It has no leader, and serves reads all the same."""
    LOOKING = "looking"
    """It is up, and looks for a leader."""
    SILENT = "silent"
    """It does not answer: it is stopped, overloaded, or isolated."""
    UNREACHABLE = "unreachable"
    """It cannot be connected to: the process is down, or the address is wrong."""
    UNKNOWN = "unknown"
    """It answers, but does not say what it is."""

    @property
    def is_problem(self) -> bool:
        return self not in (ServerState.SERVING, ServerState.UNKNOWN)


@final
@dataclass(slots=True)
class ServerAnswers:
    """A server's report about itself: texts as it wrote them (empty if unknown), parsed numbers.

    Attributes:
        problem: why it says nothing; empty if it does.
        failed: its state, if it serves nothing.
        mode: leader, follower, observer, standalone, read-only.
        engine: which software it is, as `ENGINES` names it.
        zxid: its last transaction.
        connections: how many clients are connected.
        mean_latency: of requests in milliseconds, as it measures it.
        monitor: the content of `mntr`.
        conf: the content of `conf`, in the spelling of the configuration file.
        properties: the Java system properties, from the admin server.
        clock_ahead: how many seconds its clock is ahead of ours.
        not_told: why something is missing, by its name.
        wants_tls: whether it answers nothing in plain text, but a TLS handshake.
        refuses_tls: whether there is no TLS with it, although that was asked for.
    """

    server: ServerAddress
    problem: str = ""
    failed: ServerState = ServerState.UNKNOWN
    mode: str = ""
    engine: str = "ZooKeeper"
    version: str = ""
    zxid: int | None = None
    connections: int | None = None
    mean_latency: float | None = None
    monitor: dict[str, str] = field(default_factory=dict)
    conf: dict[str, str] = field(default_factory=dict)
    properties: dict[str, str] = field(default_factory=dict)
    clock_ahead: float | None = None
    not_told: dict[str, str] = field(default_factory=dict)
    wants_tls: bool = False
    refuses_tls: bool = False

    @property
    def state(self) -> ServerState:
        if self.is_serving:
            return ServerState.SERVING
        return ServerState.READ_ONLY if self.mode == "read-only" else self.failed

    @property
    def is_serving(self) -> bool:
        return self.mode in SERVING

    def configured_seconds(self, name: str) -> float | None:
        value = count_in(self.conf, name)
        return None if value is None else value / 1000


async def ask_all(
    inquirer: Inquirer,
    servers: Sequence[ServerAddress],
    *,
    thoroughly: bool = False,
    clock: Callable[[], float] | None = None,
) -> list[ServerAnswers]:
    """Ask all servers at once; one that does not answer has a problem.

    `thoroughly` asks for their configuration as well; `clock` is ours, in seconds since 1970, to
    compare theirs with.
    """
    ask = partial(_ask, inquirer, thoroughly=thoroughly, clock=clock)
    return await each_at_once(servers, ask)


async def _ask(
    inquirer: Inquirer,
    server: ServerAddress,
    *,
    thoroughly: bool,
    clock: Callable[[], float] | None,
) -> ServerAnswers:
    answers = ServerAnswers(server)
    try:
        _take_srvr(answers, await inquirer.word(server, "srvr"))
    except NotToldError as why:
        answers.problem = str(why)
        if isinstance(why, NotServingError):
            answers.failed = ServerState.LOOKING
    except TimeoutError:
        answers.problem = f"no answer within {inquirer.patience:g} s"
        answers.failed = ServerState.SILENT
        if thoroughly and not inquirer.is_encrypted:
            answers.wants_tls = await inquirer.speaks_tls(server)
        return answers
    except OSError as error:
        answers.problem = why_not(error)
        answers.refuses_tls = isinstance(error, ssl.SSLError)
        answers.failed = ServerState.UNREACHABLE
        return answers
    answers.monitor = await _ask_for(inquirer, answers, "mntr", "monitor")
    if answers.monitor:
        _take_monitor(answers)
    if thoroughly:
        answers.conf = await _ask_for(inquirer, answers, "conf", "configuration")
        try:
            said = await inquirer.admin(server, "system_properties")
        except NotToldError as why:
            answers.not_told["properties"] = str(why)
        else:
            answers.properties = dict(said.values)
            if clock is not None and said.date is not None:
                answers.clock_ahead = said.date - clock()
    return answers


async def _ask_for(
    inquirer: Inquirer, answers: ServerAnswers, word: str, command: str
) -> dict[str, str]:
    """The answer to a word, or that of the admin server; if there is neither, nothing, and why."""
    try:
        return pairs_in(await inquirer.word(answers.server, word), word)
    except NotToldError as why:
        reason = str(why)
    except OSError as error:
        reason = why_not(error)
    try:
        said = await inquirer.admin(answers.server, command)
    except NotToldError as why:
        answers.not_told[word] = f"{reason}; {why}"
        return {}
    return {_camel(name) if word == "conf" else name: value for name, value in said.values.items()}


def _camel(name: str) -> str:
    """`tick_time`, of the admin server, to `tickTime`, of the configuration file."""
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


ENGINES = {
    "Zookeeper": "ZooKeeper",
    "ClickHouse Keeper": "ClickHouse Keeper",
    "RaftKeeper": "RaftKeeper",
}
"""The software of a server, by the beginning of its answer to `srvr`."""

_VERSION = re.compile(r"[0-9]{1,5}\.[0-9]{1,5}(?:\.[0-9]{1,5})?")
"""Its parts are whole numbers that can be parsed: see `judge_server`."""


def _version_in(text: str) -> str:
    """The number in `3.9.3-...`, `v24.8.4...` or `RaftKeeper v2.3.0`; empty if there is none."""
    match = _VERSION.match(text.removeprefix("RaftKeeper ").removeprefix("v"))
    return match[0] if match else ""


def _take_srvr(answers: ServerAnswers, text: str) -> None:
    said = pairs_in(text, "srvr")
    for title, engine in ENGINES.items():
        if (number := said.get(f"{title} version")) is not None:
            answers.engine, answers.version = engine, _version_in(number)
    answers.mode = said.get("Mode", "")[:LONGEST_MODE]
    answers.connections = count_in(said, "Connections")
    _, _, mean_and_greatest = said.get("Latency min/avg/max", "").partition("/")
    mean, slash, _ = mean_and_greatest.partition("/")
    answers.mean_latency = answers.zxid = None
    with suppress(MalformedError):
        answers.mean_latency = parsing.fraction(mean) if slash else None
    with suppress(MalformedError):
        answers.zxid = parsing.hexadecimal(said.get("Zxid", ""))


def _take_monitor(answers: ServerAnswers) -> None:
    """Fill in what `srvr` did not say."""
    said = answers.monitor
    answers.version = answers.version or _version_in(said.get("version", ""))
    answers.mode = answers.mode or said.get("server_state", "")[:LONGEST_MODE]
    if answers.connections is None:
        answers.connections = count_in(said, "num_alive_connections")
    if answers.mode in SERVING:
        answers.problem = ""


async def connected_sessions(
    inquirer: Inquirer, servers: Sequence[ServerAddress]
) -> dict[int, ClientConnection] | None:
    """The sessions that have a connection to a server, with that connection.

    A server that refuses connections has none. None if not all servers say.
    """

    async def ask(server: ServerAddress) -> dict[int, ClientConnection] | None:
        try:
            return sessions_in_cons(await inquirer.word(server, "cons"))
        except NotToldError:
            return None
        except OSError as error:
            return {} if isinstance(_innermost(error), ConnectionRefusedError) else None

    found: dict[int, ClientConnection] = {}
    for each in await each_at_once(servers, ask):
        if each is None:
            return None
        found |= each
    return found


def _innermost(error: OSError) -> BaseException:
    """The cause of anyio's "All connection attempts failed", possibly in a group."""
    inner: BaseException = error
    while (cause := inner.__cause__) is not None and isinstance(inner, OSError):
        if isinstance(inner, ssl.SSLError):
            break  # it says what happened, in the words of TLS
        inner = cause
    while isinstance(inner, BaseExceptionGroup):
        inner = inner.exceptions[0]
    return inner


def why_not(error: OSError) -> str:
    """Why connecting or talking to a server failed, in the same words on every event loop."""
    inner = _innermost(error)
    if isinstance(inner, TimeoutError) and not str(inner):
        return "no answer in time"
    text = str(inner)
    if isinstance(inner, ssl.SSLError):
        text = (tls_reason(inner) or str(inner.args[-1])).lower().replace("_", " ")
    elif isinstance(inner, OSError):
        if inner.errno is not None and not isinstance(inner, socket.gaierror):
            text = os.strerror(inner.errno)
        else:
            text = inner.strerror or text
    return " ".join(text.split()) or type(inner).__name__


# --- the quorum ----------------------------------------------------------------------------------


@final
@dataclass(frozen=True, slots=True)
class Quorum:
    """The state of an ensemble.

    Attributes:
        voters: how many servers vote.
        quorum: how many of them are needed.
        up: how many of them take part, at least; without a quorum, those that are up.
        is_met: whether there is a quorum: a server that serves belongs to one.
        source: of the number of voters: config, mntr, or hosts, which is a guess.
        is_exact: whether no more of them are up.
        looking: how many servers are up, and look for a leader.
        is_led: whether the leader has answered, or may be one that was not asked.
    """

    voters: int
    quorum: int
    up: int
    is_met: bool
    source: str
    is_exact: bool = True
    looking: int = 0
    is_led: bool = True

    @property
    def tolerates(self) -> int | None:
        """How many more may fail; None if that is not known, below 0 if too many have."""
        if not self.is_met:
            return min(-1, self.up - self.quorum)
        return self.up - self.quorum if self.is_exact else None


def quorum_of(answers: Sequence[ServerAnswers], config: EnsembleConfig | None) -> Quorum:
    """The state of an ensemble, by its servers' answers and its configuration, if known."""
    modes = [each.mode for each in answers]
    if "standalone" in modes:
        return Quorum(1, 1, 1, is_met=True, source="mntr")
    members = [server for server in config.servers if not server.is_observer] if config else []
    sizes = [count_in(each.monitor, "quorum_size") for each in answers]
    told = max((size for size in sizes if size is not None), default=0)
    asked = sum(mode != "observer" for mode in modes)
    if members:
        voters, source = len(members), "config"
    elif told:
        voters, source = told, "mntr"
    else:
        voters, source = asked, "hosts"
    up, is_exact = sum(mode in ("leader", "follower") for mode in modes), asked >= voters
    for each in answers:
        synced = count_in(each.monitor, "synced_followers")
        if each.mode == "leader" and synced is not None:
            # It knows of servers that were not asked, too, and which of them have no vote.
            removed = count_in(each.monitor, "synced_non_voting_followers") or 0
            up, is_exact = max(up - removed, synced - removed + 1), True
    if members:  # a server that was removed from them goes on as a follower
        up = min(up, voters)
    quorum = voters // 2 + 1
    is_met = any(each.is_serving for each in answers)
    # With a quorum, servers that were not asked make up for the rest.
    up = max(up, quorum) if is_met and not is_exact else up
    looking = sum(each.state is ServerState.LOOKING for each in answers)
    up = up if is_met else min(voters, up + looking)
    is_all_asked = source != "hosts" and asked >= voters
    is_led = not is_met or "leader" in modes or not is_all_asked
    return Quorum(voters, quorum, up, is_met, source, is_exact, looking, is_led)
