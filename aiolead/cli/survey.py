"""What the servers of an ensemble say of themselves, taken together."""

from __future__ import annotations

import os
import re
import socket
import ssl
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import final

import anyio

from .. import _parsing
from .._parsing import MalformedError
from ..model import EnsembleConfig
from .words import (
    Inquirer,
    NotToldError,
    Server,
    by_colon,
    by_equals,
    by_tab,
    sessions_in_cons,
)

__all__ = [
    "Answers",
    "Quorum",
    "ask_all",
    "connected_sessions",
    "count_in",
    "quorum_of",
    "why_not",
]

SERVING = ("leader", "follower", "observer", "standalone")
LONGEST_MODE = 40
"""How much is kept of what a server says that it is, in characters."""


@final
@dataclass(slots=True)
class Answers:
    """What a server says of itself.

    Texts are what the server wrote, and numbers what could be parsed.

    Attributes:
        server: the server.
        problem: why it says nothing; empty if it does.
        mode: leader, follower, observer, standalone, read-only; empty if it does not say.
        version: of ZooKeeper; empty if it does not say.
        zxid: the last transaction that it has; None if it does not say.
        connections: how many clients are connected; None if it does not say.
        mean_latency: of requests in milliseconds, as it reckons; None if it does not say.
        monitor: what `mntr` says; empty if it does not.
        conf: what `conf` says, in the spelling of the configuration file; empty if it does not.
        properties: the Java system properties, if the admin server tells.
        clock_ahead: how many seconds its clock is ahead of ours; None if it does not say.
        not_told: why something is missing, by what it is.
    """

    server: Server
    problem: str = ""
    mode: str = ""
    version: str = ""
    zxid: int | None = None
    connections: int | None = None
    mean_latency: float | None = None
    monitor: dict[str, str] = field(default_factory=dict)
    conf: dict[str, str] = field(default_factory=dict)
    properties: dict[str, str] = field(default_factory=dict)
    clock_ahead: float | None = None
    not_told: dict[str, str] = field(default_factory=dict)

    @property
    def is_serving(self) -> bool:
        return self.mode in SERVING

    def milliseconds(self, name: str) -> float | None:
        """A time of its configuration, in seconds; None if it is not known."""
        value = count_in(self.conf, name)
        return None if value is None else value / 1000


async def ask_all(
    inquirer: Inquirer,
    servers: Sequence[Server],
    *,
    thoroughly: bool = False,
    clock: Callable[[], float] | None = None,
) -> list[Answers]:
    """Asks servers, all at once; whoever does not answer has a problem.

    Args:
        inquirer: asks.
        servers: whom.
        thoroughly: whether to ask for their configuration as well.
        clock: our own, in seconds since 1970, to compare theirs with.
    """
    answers = [Answers(server) for server in servers]
    async with anyio.create_task_group() as tasks:
        for each in answers:
            tasks.start_soon(partial(_ask, inquirer, each, thoroughly=thoroughly, clock=clock))
    return answers


async def _ask(
    inquirer: Inquirer,
    answers: Answers,
    *,
    thoroughly: bool,
    clock: Callable[[], float] | None,
) -> None:
    server = answers.server
    try:
        _take_srvr(answers, await inquirer.word(server, "srvr"))
    except NotToldError as why:
        answers.problem = str(why)
    except TimeoutError:
        answers.problem = f"no answer within {inquirer.patience:g} s"
        return
    except OSError as error:
        answers.problem = why_not(error)
        return
    answers.monitor = await _told(inquirer, answers, "mntr", "monitor", by_tab)
    if answers.monitor:
        _take_monitor(answers)
    if thoroughly:
        answers.conf = await _told(inquirer, answers, "conf", "configuration", by_equals)
        try:
            said = await inquirer.admin(server, "system_properties")
        except NotToldError as why:
            answers.not_told["properties"] = str(why)
        else:
            answers.properties = dict(said.values)
            if clock is not None and said.date is not None:
                answers.clock_ahead = said.date - clock()


async def _told(
    inquirer: Inquirer,
    answers: Answers,
    word: str,
    command: str,
    parse: Callable[[str], dict[str, str]],
) -> dict[str, str]:
    """What a word says; else what the admin server says; else nothing, and why."""
    try:
        return parse(await inquirer.word(answers.server, word))
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
    """`tick_time` to `tickTime`: what the admin server calls it to what the file does."""
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


_VERSION = re.compile(r"[0-9]{1,5}\.[0-9]{1,5}(?:\.[0-9]{1,5})?")
"""Its numbers are whole ones that can be parsed: see `judge_server`."""


def _take_srvr(answers: Answers, text: str) -> None:
    said = by_colon(text)
    match = _VERSION.match(said.get("Zookeeper version", ""))
    answers.version = match[0] if match else ""
    answers.mode = said.get("Mode", "")[:LONGEST_MODE]
    answers.connections = count_in(said, "Connections")
    _, _, mean_and_greatest = said.get("Latency min/avg/max", "").partition("/")
    mean, slash, _ = mean_and_greatest.partition("/")
    answers.mean_latency = answers.zxid = None
    with suppress(MalformedError):
        answers.mean_latency = _parsing.fraction(mean) if slash else None
    with suppress(MalformedError):
        answers.zxid = _parsing.hexadecimal(said.get("Zxid", ""))


def _take_monitor(answers: Answers) -> None:
    """Fills in what `srvr` did not say."""
    said = answers.monitor
    match = _VERSION.match(said.get("version", ""))
    answers.version = answers.version or (match[0] if match else "")
    answers.mode = answers.mode or said.get("server_state", "")[:LONGEST_MODE]
    if answers.connections is None:
        answers.connections = count_in(said, "num_alive_connections")
    if answers.mode in SERVING:
        answers.problem = ""


def count_in(said: Mapping[str, str], name: str) -> int | None:
    """A number of things, or of milliseconds, that a server tells; None if it does not."""
    try:
        return _parsing.whole(said.get(name, ""), least=0)
    except MalformedError:
        return None


async def connected_sessions(
    inquirer: Inquirer, servers: Sequence[Server]
) -> dict[int, str] | None:
    """The sessions that have a connection to a server, with the addresses of their clients.

    Nobody is connected to a server that refuses connections.

    Returns:
        None if not all servers tell.
    """
    told: list[dict[int, str] | None] = []

    async def ask(server: Server) -> None:
        try:
            told.append(sessions_in_cons(await inquirer.word(server, "cons")))
        except NotToldError:
            told.append(None)
        except OSError as error:
            told.append({} if isinstance(_innermost(error), ConnectionRefusedError) else None)

    async with anyio.create_task_group() as tasks:
        for server in servers:
            tasks.start_soon(ask, server)
    found: dict[int, str] = {}
    for each in told:
        if each is None:
            return None
        found |= each
    return found


def _innermost(error: OSError) -> BaseException:
    """What anyio says "All connection attempts failed" of: the cause, in a group perhaps."""
    inner: BaseException = error
    while (cause := inner.__cause__) is not None and isinstance(inner, OSError):
        inner = cause
    while isinstance(inner, BaseExceptionGroup):
        inner = inner.exceptions[0]
    return inner


def why_not(error: OSError) -> str:
    """Why nobody could be connected to, or talked to."""
    inner = _innermost(error)
    if isinstance(inner, TimeoutError) and not str(inner):
        return "no answer in time"
    text = str(inner)
    if isinstance(inner, ssl.SSLError):
        text = (inner.reason or text).lower().replace("_", " ")
    elif isinstance(inner, OSError):
        # What event loops make of a number is different from one to the other.
        if inner.errno is not None and not isinstance(inner, socket.gaierror):
            text = os.strerror(inner.errno)
        else:
            text = inner.strerror or text
    return " ".join(text.split()) or type(inner).__name__


# --- the ensemble ------------------------------------------------------------------------------


@final
@dataclass(frozen=True, slots=True)
class Quorum:
    """How an ensemble stands.

    Attributes:
        voters: how many servers vote.
        quorum: how many of them it takes.
        up: how many of them take part, at least.
        is_met: whether there is a quorum: whoever serves belongs to one.
        source: where the number of voters is from: config, mntr, or hosts, which is a guess.
        is_exact: whether there are not more of them up than that.
    """

    voters: int
    quorum: int
    up: int
    is_met: bool
    source: str
    is_exact: bool = True

    @property
    def tolerates(self) -> int | None:
        """How many more may fail; None if that is not known, below 0 if too many have."""
        if not self.is_met:
            return min(-1, self.up - self.quorum)
        return self.up - self.quorum if self.is_exact else None


def quorum_of(answers: Sequence[Answers], config: EnsembleConfig | None) -> Quorum:
    """How an ensemble stands, by what its servers say.

    Args:
        answers: of the servers that were asked.
        config: who belongs to it, if that could be read.
    """
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
            # It knows also those that were not asked.
            up, is_exact = max(up, synced + 1), True
    quorum = voters // 2 + 1
    is_met = any(each.is_serving for each in answers)
    # Those that were not asked make up for the rest.
    up = max(up, quorum) if is_met and not is_exact else up
    return Quorum(voters, quorum, up, is_met, source, is_exact)
