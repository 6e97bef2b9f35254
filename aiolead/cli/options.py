"""The options that commands share: each class is the table of some of them."""

from __future__ import annotations

import gc
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field, fields
from importlib.util import find_spec
from math import inf
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import anyio
from cyclopts import Group, Parameter

import aiolead

from .._util.parsing import MalformedError, whole
from ..errors import ConfigurationError
from ..model import ACL
from ..paths import join, validate
from . import exits
from .environment import variable
from .output import (
    ConnectingNotice,
    Reporter,
    has_lost_reader,
    show_log,
    table,
    warnings_reported,
    write_json,
    write_line,
)
from .signals import Signals, first_of

if TYPE_CHECKING:
    from cyclopts.argument import Argument, ArgumentCollection
    from cyclopts.completion import CompletionContext

    from .shell import Prompt

T = TypeVar("T")

DEFAULT_HOSTS = "127.0.0.1:2181"
DEFAULT_SESSION_TIMEOUT = 10.0

COMPLETED_WITHIN = 2.0
"""How long a completion may take, in seconds; without an answer it offers nothing."""
LOOK_EVERY = 1.0
"""How often to check for a reader of standard output, in seconds."""

Seconds = float
"""The type of options that are times."""

Flag = Annotated[bool, Parameter(negative="", show_default=False)]
"""An option that is given or not: no `--no-...`, and no default in its help."""


def within(least: float, most: float = inf, unit: str = "") -> Parameter:
    """The annotation of an option for a number, or several, that must be in a range."""
    bounds = f"{least:g}{unit} or more" if most == inf else f"{least:g} to {most:g}{unit}"

    def check(_: object, given: float | tuple[float, ...] | None) -> None:
        for value in given if isinstance(given, tuple) else (given,):
            if value is not None and not least <= value <= most:
                raise ConfigurationError(f"must be {bounds}, not {value:g}")

    return Parameter(validator=check)


Positive = Annotated[int, within(1)]
Port = Annotated[int, within(0, 65535)]
Wait = Annotated[Seconds, within(0, unit=" seconds")]


def _complete_path(context: CompletionContext) -> list[str]:
    """The siblings of the path that is being typed, for the completion of shells."""
    path = context.incomplete
    if not path.startswith("/"):
        return ["/"] if not path else []
    given = {each.name: context.get(each.name) for each in fields(Common)}
    values = {name: one.value for name, one in given.items() if one is not None and one.provided}
    common = Common(**{"connect_timeout": COMPLETED_WITHIN, **values, "quiet": True})
    top = path.rpartition("/")[0] or "/"
    names: list[str] = []

    async def look() -> None:
        with anyio.move_on_after(COMPLETED_WITHIN):
            async with common.connected() as client:
                names.extend(await client.get_children(top))

    common.run_until_signal(look)
    # Shells print names as they are, which may have been chosen by anybody.
    return [join(top, name) for name in sorted(names) if name.isprintable()]


ZnodePath = Annotated[str, Parameter(completer=_complete_path)]
"""The type of paths of znodes: shells complete them, and `check_paths` checks them."""


def takes_path(argument: Argument) -> bool:
    """Whether an argument is the path of a znode."""
    return argument.parameter.completer is _complete_path


def check_paths(arguments: ArgumentCollection) -> None:
    """Raise `InvalidPathError` for an argument that is no path of a znode."""
    for argument in filter(takes_path, arguments):
        for token in argument.tokens:
            validate(token.value)


AT_PROMPT: ContextVar[Prompt | None] = ContextVar("AT_PROMPT", default=None)
"""The shell that runs this command, if one does."""

# A command's own options come first in its help; those of all commands after them.
# `aiolead help connection` shows these, not the help of each command.
_CONNECTING = Group("Where to connect", sort_key=1, show=False)
_RUNNING = Group("How to run, and what to say", sort_key=2, show=False)


def _variable(name: str, **more: Any) -> Parameter:
    """An option that an environment variable may give, too."""
    return Parameter(env_var=variable(f"AIOLEAD_{name}"), **more)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Basics:
    """How to run, and how much to say."""

    as_json: Annotated[Flag, Parameter(name="--json", group=_RUNNING)] = False
    """Say everything as JSON, one object per line."""

    quiet: Annotated[Flag, Parameter(alias="-q", group=_RUNNING)] = False
    """Print only results and errors."""

    verbose: Annotated[Flag, Parameter(alias="-v", group=_RUNNING)] = False
    """Show the log of the library."""

    debug: Annotated[Flag, _variable("DEBUG", group=_RUNNING)] = False
    """Show where errors come from."""

    backend: Annotated[Literal["asyncio", "trio"], _variable("BACKEND", group=_RUNNING)] = "asyncio"
    """The event loop."""

    config: Annotated[Path | None, _variable("CONFIG", group=_RUNNING)] = None
    """The configuration file, in TOML, with options by their names, such as hosts = "zk1,zk2"; a
    table [run] is for aiolead run alone. Default: ~/.config/aiolead/config.toml, else
    /etc/aiolead/config.toml, if there is one."""

    @property
    def reporter(self) -> Reporter:
        return Reporter(self.quiet, self.as_json, self.debug)

    def show(self, value: Any, *lines: str) -> None:
        """Print a result: the value as JSON, or the lines."""
        self.show_all((value,), lines)

    def show_all(self, values: Iterable[Any], lines: Iterable[str]) -> None:
        """Print results: each value as JSON, or the lines."""
        if self.as_json:
            for value in values:
                write_json(value)
        else:
            for line in lines:
                write_line(line)

    def note(self, text: str) -> None:
        """Report something that is in the JSON of the result, or is of no use to a program."""
        if not self.as_json:
            self.reporter.state(text)

    def show_table(
        self,
        objects: Sequence[Any],
        headings: Sequence[str],
        rows: Sequence[Sequence[str]],
        *,
        right: Sequence[str] = (),
    ) -> None:
        """Print results: the objects as JSON, or a table of the rows, if there are any."""
        self.show_all(objects, table(headings, rows, right=right) if rows else ())

    @contextmanager
    def prepared(self) -> Iterator[None]:
        """Prepare this process for an event loop, and report the library's warnings meanwhile."""
        if self.backend == "trio" and find_spec("trio") is None:
            raise ConfigurationError(
                '--backend: trio is not installed: pip install "aiolead[trio]"'
            )
        if not gc.isenabled():  # see `main`
            gc.freeze()
            gc.enable()
        if self.verbose:
            show_log()
        is_reported = self.verbose or AT_PROMPT.get() is not None
        with nullcontext() if is_reported else warnings_reported(self.reporter):
            yield

    def run(self, work: Callable[[], Awaitable[T]]) -> T:
        """Run an event loop until the work is done."""
        with self.prepared():
            return anyio.run(work, backend=self.backend)

    def run_until_signal(
        self,
        work: Callable[[], Awaitable[int | None]],
        *,
        endless: bool = False,
        followed: bool = False,
        shared: Prompt | None = None,
    ) -> int:
        """Run some work until it or a signal ends it; return its exit code, or 128 + the signal.

        `endless`: a signal is its normal end. `followed`: it also ends when nobody reads standard
        output any more. `shared`: in the event loop of that session. The work returns its exit
        code, None for success.
        """

        async def finish() -> int:
            return await work() or exits.OK

        async def listen() -> int:
            number = await signals.next()
            return exits.OK if endless else exits.by_signal(number)

        async def check_reader() -> int:
            # An idle command does not notice by writing.
            while True:
                if has_lost_reader():
                    raise BrokenPipeError
                await anyio.sleep(LOOK_EVERY)

        with Signals(survives=AT_PROMPT.get() is not None) as signals:
            run = self.run if shared is None else shared.run
            works = [listen, finish, check_reader] if followed else [listen, finish]
            return run(lambda: first_of(*works))


@Parameter(name="*", group=_CONNECTING)
@dataclass(frozen=True, kw_only=True)
class Common(Basics):
    """Where to connect, how to run, and how much to say."""

    hosts: Annotated[str | None, _variable("HOSTS")] = None
    """The servers: host[:port][,host[:port]...][/chroot]. Default: 127.0.0.1:2181."""

    session_timeout: Annotated[Seconds | None, _variable("SESSION_TIMEOUT")] = None
    """How long the servers keep the session of a silent client, in seconds.
    Default: 10."""

    connect_timeout: Annotated[Seconds | None, _variable("CONNECT_TIMEOUT")] = None
    """How long to try to reach a server at first, in seconds. Default: the session timeout."""

    auth: Annotated[str | None, _variable("AUTH")] = field(default=None, repr=False)
    """Credentials, such as digest:USER:PASSWORD. Everybody on this machine can read a command line:
    better use the environment variable."""

    sasl: Annotated[str | None, _variable("SASL")] = field(default=None, repr=False)
    """A login by SASL: digest-md5:USER:PASSWORD (as --auth, better in the environment), gssapi."""

    default_acl: Annotated[str | None, _variable("DEFAULT_ACL")] = field(default=None, repr=False)
    """The ACL of every znode that is created without one: SCHEME:ID:PERMISSIONS, several with a
    comma between them, such as auth::cdrwa,world:anyone:r. Default: world:anyone:cdrwa."""

    tls: Annotated[Flag, _variable("TLS")] = False
    """Use TLS, and trust the authorities that this machine trusts. The others below imply it."""

    tls_ca: Annotated[str | None, _variable("TLS_CA")] = None
    """Trust the authorities in this PEM file."""

    tls_cert: Annotated[str | None, _variable("TLS_CERT")] = None
    """The PEM file with our certificate."""

    tls_key: Annotated[str | None, _variable("TLS_KEY")] = None
    """The PEM file with its private key; if that is encrypted, the password is in the environment
    variable AIOLEAD_TLS_KEY_PASSWORD."""

    tls_hostname: Annotated[str | None, _variable("TLS_HOSTNAME")] = None
    """The name in the servers' certificates, where it is not the one in --hosts."""

    engine: Annotated[str | None, _variable("ENGINE")] = None
    """The servers' software, if their handshake does not show it: zookeeper, clickhouse-keeper or
    raftkeeper."""

    server_version: Annotated[str | None, _variable("SERVER_VERSION")] = None
    """The oldest version among the servers, if they do not report it."""

    @property
    def wanted_session_timeout(self) -> float:
        """In seconds."""
        return DEFAULT_SESSION_TIMEOUT if self.session_timeout is None else self.session_timeout

    @property
    def wanted_hosts(self) -> str:
        """The connect string."""
        return self.hosts or DEFAULT_HOSTS

    def report_default_hosts(self) -> None:
        if not self.hosts:
            self.reporter.state(f"no --hosts, and no AIOLEAD_HOSTS: using {DEFAULT_HOSTS}")

    def run(self, work: Callable[[], Awaitable[T]]) -> T:
        self.report_default_hosts()
        return super().run(work)

    @property
    def wanted_tls(self) -> aiolead.TLS | None:
        """The TLS settings; None without TLS."""
        given = (self.tls_ca, self.tls_cert, self.tls_key, self.tls_hostname)
        if not self.tls and all(value is None for value in given):
            return None
        password = os.environ.get(variable("AIOLEAD_TLS_KEY_PASSWORD"))
        return aiolead.TLS(
            ca=self.tls_ca,
            cert=self.tls_cert,
            key=self.tls_key,
            password=password if self.tls_cert else None,
            server_hostname=self.tls_hostname,
        )

    def connect(
        self,
        *,
        grace_period: float | None = None,
        close_on_crash: aiolead.SessionGuardian | bool | None = None,
        notice: ConnectingNotice | None = None,
    ) -> aiolead.types.Connection:
        """`aiolead.connect` with these options; `notice` takes the client's events.

        With a login by SASL, there is no session guardian: it could not log in.
        """
        return aiolead.connect(
            self.wanted_hosts,
            session_timeout=self.wanted_session_timeout,
            connect_timeout=self.connect_timeout,
            auth=self._credentials(),
            default_acl=self._wanted_acl(),
            sasl=self._login(),
            tls=self.wanted_tls,
            engine=self.engine,
            server_version=self.server_version,
            grace_period=grace_period,
            close_on_crash=None if self.sasl else close_on_crash,
            on_event=() if notice is None else (notice,),
        )

    def connecting_notice(
        self, patience: float, *, reports_outages: bool = False
    ) -> ConnectingNotice:
        return ConnectingNotice(
            self.reporter, self.wanted_hosts, patience, reports_outages=reports_outages
        )

    @asynccontextmanager
    async def connected(
        self,
        *,
        grace_period: float | None = None,
        close_on_crash: aiolead.SessionGuardian | bool | None = None,
        reports_outages: bool = False,
    ) -> AsyncIterator[aiolead.Client]:
        """A client of `connect`; says after a second that no server is reached, and why.

        `reports_outages`: see `ConnectingNotice`.
        """
        async with AsyncExitStack() as stack:
            patience = self.connect_timeout or self.wanted_session_timeout
            with self.connecting_notice(patience, reports_outages=reports_outages) as notice:
                connection = self.connect(
                    grace_period=grace_period, close_on_crash=close_on_crash, notice=notice
                )
                client = await stack.enter_async_context(connection)
            yield client

    def with_client(
        self,
        work: Callable[[aiolead.Client], Awaitable[int | None]],
        *,
        endless: bool = False,
        followed: bool = False,
        close_on_crash: bool = False,
    ) -> int:
        """As `run_until_signal`, with a client whose session is closed at the end.

        In a shell, a command that ends by itself gets the client of the shell.
        """
        shared = AT_PROMPT.get()
        if shared is not None and (endless or close_on_crash or not shared.shares(self)):
            shared = None

        async def connected() -> int | None:
            if shared is not None:
                return await work(await shared.client(self))
            async with self.connected(close_on_crash=close_on_crash) as client:
                return await work(client)

        return self.run_until_signal(connected, endless=endless, followed=followed, shared=shared)

    def _credentials(self) -> list[aiolead.Auth]:
        if self.auth is None:
            return []
        scheme, colon, credential = self.auth.partition(":")
        if not scheme or not colon:
            # Not shown: it may be a password.
            raise ConfigurationError("--auth: must be SCHEME:CREDENTIAL")
        return [aiolead.Auth(scheme, credential.encode(errors="surrogateescape"))]

    def _wanted_acl(self) -> list[ACL] | None:
        if self.default_acl is None:
            return None
        from .znodes import split_entries  # which imports this

        return split_entries(self.default_acl, name="--default-acl")

    def _login(self) -> aiolead.SASL | None:
        match (self.sasl or "").split(":", 2):
            case [""]:
                return None
            case ["gssapi"]:
                return aiolead.SASL.gssapi()
            case ["digest-md5", user, password]:
                return aiolead.SASL.digest_md5(user, password)
        raise ConfigurationError("--sasl: must be digest-md5:USER:PASSWORD, or gssapi")


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class DemoOptions(Common):
    """Where to connect, how to run, and how much to say."""

    hosts: Annotated[str | None, Parameter(group=_CONNECTING)] = None
    """The servers, instead of one of its own: host[:port][,host[:port]...][/chroot]."""

    def run(self, work: Callable[[], Awaitable[T]]) -> T:
        return Basics.run(self, work)


def described_options(arguments: Iterable[Argument]) -> Iterator[str]:
    """The help of the options that commands share, as lines."""
    for group in (_CONNECTING, _RUNNING):
        yield f"{group.name}:"
        for argument in arguments:
            groups: Any = argument.parameter.group
            if argument.names != ("*",) and group in (groups or ()):
                variables = "".join(f", {name}" for name in argument.parameter.env_var or ())
                yield f"  {', '.join(argument.names)}{variables}"
                text = " ".join((argument.parameter.help or "").split())
                yield from wrap(text, 80, initial_indent=" " * 6, subsequent_indent=" " * 6)
        yield ""


BASICS = Basics()
COMMON = Common()


def option_name(field: str) -> str:
    """The option of a field of `Basics` or `Common`, without its dashes."""
    return "json" if field == "as_json" else field.replace("_", "-")


def _names(of: type[Basics]) -> frozenset[str]:
    return frozenset(option_name(each.name) for each in fields(of) if each.name != "config")


COMMON_OPTIONS = _names(Common)
"""The options of all commands, without their dashes."""

BASIC_OPTIONS = _names(Basics)
"""Those of commands that connect to nothing."""


def listening_address(listen: str, port: int | None) -> tuple[str, int]:
    """The host and port of --listen (`host:port`, `[::1]:port`); --port replaces its port.

    Both mean the same for every command that listens. Raises `ConfigurationError`.
    """
    host, _, said = listen.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    try:
        number = whole(said, least=0, most=65535)
    except MalformedError:
        number = -1
    if not host or number < 0:
        raise ConfigurationError(f"--listen: must be ADDRESS:PORT, not {listen!r}")
    return host, number if port is None else port


@contextmanager
def reading(option: str, path: Path) -> Iterator[None]:
    """Turn an `OSError` into a `ConfigurationError` about the option that names the file."""
    try:
        yield
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise ConfigurationError(f"{option}: cannot read {path}: {why}") from None


def check_one_of(**options: bool) -> None:
    """Raise `ConfigurationError` if more than one of these options is given."""
    if sum(options.values()) > 1:
        names = ", ".join(f"--{name}" for name in options)
        how = "one or the other" if len(options) == 2 else "one of them"
        raise ConfigurationError(f"{names}: {how}")
