"""Sources of a list of servers that may change: a file, the DNS, a function; and following one."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from itertools import dropwhile
from typing import final

import anyio

from ..._util.escaping import described, get_logger, in_seconds
from ..._util.host_tasks import in_ordinary_task
from ...errors import ConfigurationError, InvalidConnectStringError
from ...paths import format_host, parse_connect_string, validate
from ..api.operations import checked_duration
from .host_list import Server

Answer = str | Sequence[tuple[str, int]]
"""Servers as text, like a connect string without a chroot, or as hosts and ports."""

PATIENCE = 10.0
"""How long an answer may take, in seconds."""


@final
@dataclass(frozen=True, slots=True)
class Hosts:
    """A source of servers that may change, for `connect(hosts=)`; made by one of the class methods.

    It is asked before the first connection, every `refresh` seconds, and when no server has
    answered. A failure or an empty answer is logged and leaves the list as it was. When the list
    changes, the client may have to move: see `Client.update_hosts`. An invalid argument raises
    `ConfigurationError`.

    Attributes:
        name: the source, for errors and logs.
        refresh: how often it is asked, in seconds.
        chroot: the client's root path; empty for the whole tree.
    """

    _fetch: Callable[[], Awaitable[Answer]] = field(repr=False)
    name: str
    refresh: float
    chroot: str
    _domain: str = ""
    """Servers below this domain have certificates for their own names; if empty, all have."""

    @classmethod
    def provider(
        cls, provider: Callable[[], Awaitable[Answer]], *, refresh: float = 60.0, chroot: str = ""
    ) -> Hosts:
        """Ask an `async` function.

        It returns the servers as text, like a connect string, or as a list of hosts and ports. It
        may raise anything, and is cancelled after ten seconds. For `refresh` and `chroot` see the
        class.
        """
        if not callable(provider):
            raise ConfigurationError(f"provider: must be an async function, not {provider!r}")
        return cls._checked(provider, "the provider", refresh, chroot)

    @classmethod
    def file(
        cls, path: str | os.PathLike[str], *, refresh: float = 60.0, chroot: str = ""
    ) -> Hosts:
        """Read a file: servers as in a connect string, on one line or several; `#` comments.

        For `refresh` and `chroot` see the class.
        """
        if not isinstance(path, (str, os.PathLike)):
            raise ConfigurationError(f"path: must be a path, not {path!r}")
        file = anyio.Path(path)
        return cls._checked(file.read_text, f"the file {file}", refresh, chroot)

    @classmethod
    def srv(
        cls,
        name: str,
        *,
        refresh: float = 60.0,
        chroot: str = "",
        resolver: object | None = None,
        trust_targets: bool = False,
    ) -> Hosts:
        """Look up SRV records, with dnspython: `aiolead[dns]`.

        All targets are servers, whatever their priorities and weights: load has to be even. The
        records are not authenticated: an attacker who can forge them chooses the targets. So with
        TLS, a target below the domain in `name` must have a certificate for its own name, and any
        other target one for that domain (RFC 6125). `TLS(server_hostname=)` sets one name for all.

        Args:
            name: such as `_zookeeper._tcp.example.com`.
            refresh: see the class.
            chroot: see the class.
            resolver: a `dns.asyncresolver.Resolver`; defaults to the system's configuration.
            trust_targets: whether any target may have a certificate for its own name. An attacker
                who forges DNS can then pose as a server, with a certificate of any name: for
                resolvers that check DNSSEC, and authorities that sign only the servers.
        """
        if not isinstance(name, str) or not name.strip("."):
            raise ConfigurationError(f"name: must be a domain name, not {name!r}")
        try:
            from dns import asyncbackend, asyncresolver
        except ImportError:
            raise ConfigurationError("Hosts.srv: needs dnspython: install aiolead[dns]") from None

        if resolver is not None and not isinstance(resolver, asyncresolver.Resolver):
            raise ConfigurationError(f"resolver: must be a Resolver of dnspython, not {resolver!r}")

        if not isinstance(trust_targets, bool):
            raise ConfigurationError(f"trust_targets: must be a bool, not {trust_targets!r}")
        domain = "" if trust_targets else _service_domain(name)

        async def look_up() -> list[tuple[str, int]]:
            asked = asyncresolver.Resolver() if resolver is None else resolver
            # The default is that of the process's first caller, maybe on another loop.
            backend = asyncbackend.get_backend(asyncbackend.sniff())
            answer = await asked.resolve(name, "SRV", lifetime=PATIENCE, backend=backend)
            return [(record.target.to_text(omit_final_dot=True), record.port) for record in answer]

        return cls._checked(look_up, f"the SRV records of {name}", refresh, chroot, domain)

    @classmethod
    def _checked(
        cls,
        fetch: Callable[[], Awaitable[Answer]],
        name: str,
        refresh: float,
        chroot: str,
        domain: str = "",
    ) -> Hosts:
        refresh = checked_duration("refresh", refresh, least=0.01, most=86400 * 7)
        if chroot:
            validate(chroot, name="chroot")
        return cls(fetch, name, refresh, "" if chroot == "/" else chroot, domain)

    def __str__(self) -> str:
        return self.name + self.chroot

    def certificate_name(self, host: str) -> str:
        """Return the name that a server's certificate must have: its own or the service's."""
        is_ours = f".{host.removesuffix('.').lower()}".endswith(f".{self._domain}")
        return host if is_ours or not self._domain else self._domain

    async def ask(self) -> Answer:
        """Ask once. Errors propagate unchanged; the caller bounds how long it takes."""
        return await self._fetch()


def _service_domain(name: str) -> str:
    """Returns the domain in a service's name: `example.com` in `_zookeeper._tcp.example.com`.

    A name without one, which the resolver completes, stays as it is: no certificate has it.
    """
    labels = name.strip(".").lower().split(".")
    domain = list(dropwhile(lambda label: label.startswith("_"), labels))
    return ".".join(domain or labels)


logger = get_logger("aiolead.connection")

LEAST_PAUSE = 1.0
"""The least time between two questions, in seconds, however many connections fail."""

_SHOWN = 300
"""The longest error message about an answer, in characters."""


class Discovery:
    def __init__(
        self, hosts: Hosts, update: Callable[[Sequence[Server]], object], *, once: bool
    ) -> None:
        self._hosts = hosts
        self._update = update
        self._refresh = None if once else hosts.refresh
        self._wanted = anyio.Event()
        self.failure: Exception | None = None
        """Why the last question failed; None if it was answered."""

    def attempts(self) -> list[tuple[str, Exception]]:
        return [] if self.failure is None else [(self._hosts.name, self.failure)]

    def hurry(self) -> None:
        """Asks soon: no server has answered, so the list may be outdated."""
        self._wanted.set()

    async def begin(self, on_failure: Callable[[], object]) -> None:
        """Ask until there is an answer; `on_failure` is called after each try without one."""
        while True:
            if await self._ask():
                return
            on_failure()
            await anyio.sleep(self._least_pause)

    async def keep_asking(self) -> None:
        """Asks again, from time to time and after `hurry`."""
        while True:
            await anyio.sleep(self._least_pause)
            with anyio.move_on_after(self._refresh):
                await self._wanted.wait()
            self._wanted = anyio.Event()
            await self._ask()

    @property
    def _least_pause(self) -> float:
        return min(LEAST_PAUSE, self._hosts.refresh)

    async def _ask(self) -> bool:
        try:
            with anyio.fail_after(PATIENCE):
                servers = servers_of(await in_ordinary_task(self._hosts.ask))
            if not servers:
                raise LookupError("names no server")
        except Exception as error:  # a provider may raise anything
            if isinstance(error, TimeoutError) and not error.args:
                error = TimeoutError(f"no answer in {in_seconds(PATIENCE)}")
            if str(error) != str(self.failure):  # else it was logged before
                logger.warning("%s: %s", self._hosts.name, error)
            self.failure = error
            return False
        self.failure = None
        self._update(servers)
        return True


def servers_of(answer: Answer) -> tuple[Server, ...]:
    """Returns the servers in an answer, or raises a short `ConfigurationError`."""
    try:
        return _servers_of(answer)
    except ConfigurationError as error:
        said = str(error)
        if len(said) <= _SHOWN:
            raise
        raise InvalidConnectStringError(f"{said[:_SHOWN]}...") from None


def _servers_of(answer: Answer) -> tuple[Server, ...]:
    if isinstance(answer, str):
        lines = (line.partition("#")[0].strip(" \t,") for line in answer.splitlines())
        text = ",".join(line for line in lines if line)
        if not text:
            return ()
        target = parse_connect_string(text)
        if target.chroot:
            raise ConfigurationError(f"hosts: has a chroot, which cannot change: {text!r}")
        return target.hosts
    servers: list[Server] = []
    for server in answer:
        try:
            host, port = server
            (parsed,) = parse_connect_string(format_host(host, port)).hosts
        except (TypeError, ValueError) as error:
            raise InvalidConnectStringError(
                f"hosts: {described(server)} is no (host, port)"
            ) from error
        if parsed != (host, port):
            raise InvalidConnectStringError(f"hosts: {described(server)} is no (host, port)")
        servers.append(parsed)
    return tuple(servers)
