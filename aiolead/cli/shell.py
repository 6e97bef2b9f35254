"""`aiolead shell`: the commands of the table in `app` at a prompt, on one session."""

from __future__ import annotations

import os
import re
import shlex
import signal
import sys
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import fields, replace
from importlib.util import find_spec
from inspect import Parameter
from pathlib import Path
from posixpath import normpath
from typing import TYPE_CHECKING, Self, TypeVar

import anyio
from anyio.abc import TaskStatus
from anyio.from_thread import BlockingPortal, start_blocking_portal
from cyclopts import App, Token
from cyclopts.argument import ArgumentCollection
from cyclopts.config import Dict

from .. import Client
from ..errors import AioleadError, ConfigurationError, NoNodeError
from ..model import SessionState
from ..paths import join, validate
from . import exits, render
from .app import SHOWN, app, dispatch
from .batches import sync_before
from .environment import SECRET_OPTIONS
from .exits import CommandError
from .options import (
    AT_PROMPT,
    BASIC_OPTIONS,
    COMMON,
    COMMON_OPTIONS,
    COMPLETED_WITHIN,
    Basics,
    Common,
    Flag,
    ZnodePath,
    option_name,
    takes_path,
)
from .output import is_terminal

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.completion import CompleteEvent
    from prompt_toolkit.document import Document

T = TypeVar("T")

_LEAVE = ("exit", "quit")

_MAY_WRITE: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(
        (
            *("ls", "tree", "find", "grep", "get", "stat", "export", "ephemerals", "watch"),
            *("contenders", "observe", "top", "dashboard", "ensemble", "doctor", "whoami", "sync"),
            *("config get", "config history", "cd", "pwd", "help", "completion"),
        ),
        frozenset[str](),
    ),
    "acl": frozenset({"entry"}),
    "members": frozenset({"add", "remove"}),
    "quota": frozenset({"count", "size", "count_hard", "size_hard", "delete"}),
}
"""The commands that --read-only allows, each with the arguments that it does not allow."""


def shell(*, read_only: Flag = False, common: Common = COMMON) -> int:
    """Take commands at a prompt, with completion and a history, on one session.

    The commands are those of `aiolead`. Paths may be relative to the current one: `cd PATH` changes
    it, `pwd` prints it. Ctrl-C ends a line or a command, Ctrl-D leaves.

    Without a terminal, the commands come from standard input, and the exit code is that of the last
    one.

    Args:
        read_only: Refuse commands that write.
        common: Where to connect, and the options that each command has.
    """
    at_terminal = sys.stdin is not None and sys.stdin.isatty() and is_terminal()
    if at_terminal and find_spec("prompt_toolkit") is None:
        raise ConfigurationError('the prompt needs prompt_toolkit: pip install "aiolead[shell]"')
    if AT_PROMPT.get() is not None:
        raise CommandError("this is aiolead shell already", exits.USAGE)
    common.report_default_hosts()
    try:
        with common.prepared(), _ended_by_signals(), ExitStack() as stack:
            loop = stack.enter_context(start_blocking_portal(common.backend))
            prompt = Prompt(common, loop, read_only=read_only)
            stack.enter_context(loop.wrap_async_context_manager(prompt))
            stack.callback(AT_PROMPT.reset, AT_PROMPT.set(prompt))
            if not at_terminal:
                return _last_code(prompt, sys.stdin or ())
            _last_code(prompt, _typed_lines(prompt))
            return exits.OK
    except _Ended as ended:
        return exits.by_signal(ended.number)


def cd(path: ZnodePath, /, *, common: Common = COMMON) -> int:
    """Change the current path of `aiolead shell`.

    Args:
        path: The znode.
        common: Where to connect.
    """
    prompt = _prompt()

    async def work(client: Client) -> None:
        sync_before(client, path)
        if path != "/" and await client.exists(path) is None:
            raise NoNodeError(path)

    code = common.with_client(work)
    if not code:
        prompt.path = path
    return code


def pwd(*, common: Common = COMMON) -> None:
    """Print the current path of `aiolead shell`.

    Args:
        common: How to print it.
    """
    path = _prompt().path
    common.show({"path": path}, path)


def _prompt() -> Prompt:
    prompt = AT_PROMPT.get()
    if prompt is None:
        raise CommandError("only aiolead shell has a current path", exits.USAGE)
    return prompt


class Prompt:
    """The path, the options and the session that the commands of a shell share.

    An async context manager in the event loop of the session, which runs in a thread of its own.
    """

    def __init__(self, common: Common, loop: BlockingPortal, *, read_only: bool) -> None:
        self.common: Common = replace(common, hosts=common.wanted_hosts)
        self.path: str = "/"
        self._loop = loop
        self._read_only = read_only
        self._options = {
            option_name(each.name): getattr(self.common, each.name)
            for each in fields(common)
            if each.name != "config" and getattr(self.common, each.name) != each.default
        }
        self._connecting = anyio.Lock()
        self._client: Client | None = None

    async def __aenter__(self) -> Self:
        self._tasks = anyio.create_task_group()
        await self._tasks.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._tasks.cancel_scope.cancel()
        await self._tasks.__aexit__(None, None, None)

    # --- command lines ---------------------------------------------------------------------------

    @property
    def text(self) -> str:
        return f"{render.shortened(self.common.wanted_hosts, 40)}:{render.escaped(self.path)}> "

    def fill_in(self, command: App, names: tuple[str, ...], arguments: ArgumentCollection) -> None:
        """Complete a parsed command line by the path and the options of the shell.

        Raises `CommandError` if the line writes, and may not.
        """
        name = " ".join(names)
        if self._read_only:
            given = {each.field_info.name for each in arguments if each.has_tokens}
            if (writing := _MAY_WRITE.get(name)) is None or writing & given:
                raise CommandError(f"{name}: writes, which --read-only forbids", exits.USAGE)
        for argument in filter(takes_path, arguments):
            is_single = argument.field_info.kind is not Parameter.VAR_POSITIONAL
            if not argument.tokens and not argument.required and is_single:
                argument.append(Token(value=self.path, source="shell"))
            argument.tokens = [
                each.evolve(value=self.resolve(each.value)) for each in argument.tokens
            ]
        # The demo has servers of its own.
        own = self._options.keys() & (BASIC_OPTIONS if names[0] == "demo" else COMMON_OPTIONS)
        meant = {}
        for argument in arguments:
            for option in own & {each[2:] for each in argument.names}:
                meant[option] = self._options[option]
                # The shell has read the environment, which its own options override.
                argument.tokens = [each for each in argument.tokens if each.source != "env"]
        Dict(data=meant, source="shell", use_commands_as_keys=False)(command, names, arguments)

    def resolve(self, path: str) -> str:
        """The path that is meant by one that may be relative to the current path."""
        return path if path.startswith("/") else normpath(join(self.path, path))

    # --- the session -----------------------------------------------------------------------------

    def shares(self, common: Common) -> bool:
        """Whether a command has asked for the same connection as the shell."""
        names = {each.name for each in fields(Common)} - {each.name for each in fields(Basics)}
        return all(getattr(common, each) == getattr(self.common, each) for each in names)

    def run(self, work: Callable[[], Awaitable[T]]) -> T:
        """Run some work in the event loop of the session."""
        is_connected = self._client is None or self._client.state is SessionState.CONNECTED
        # A request waits as long as the session may last.
        patience = self.common.wanted_session_timeout
        with nullcontext() if is_connected else self.common.connecting_notice(patience):
            return self._loop.call(work)

    async def client(self, common: Common) -> Client:
        """The client of the session; connected now, if it is not yet or has ended."""
        async with self._connecting:
            client = self._client
            if client is None or client.state in (SessionState.CLOSED, SessionState.AUTH_FAILED):
                self._client = None
                self._client = client = await self._tasks.start(self._stay_connected, common)
            return client

    async def _stay_connected(self, common: Common, *, task_status: TaskStatus[Client]) -> None:
        async with common.connected() as client:
            task_status.started(client)
            await anyio.sleep_forever()

    # --- completion ------------------------------------------------------------------------------

    def completions(self, text: str) -> list[tuple[int, str]]:
        """Words that the end of a line may be meant to be, each with the length of that end."""
        *before, word = re.split(r"\s+", text.lstrip())
        found = self._meant(before, word)
        return [(len(word), shlex.quote(each)) for each in found if each.startswith(word)]

    def _meant(self, before: list[str], word: str) -> Iterable[str]:
        command = app
        for each in before:
            if each in command:
                command = command[each]
        if command is app:
            return [*SHOWN, "cd", "pwd", *_LEAVE] if not before else ()
        if command.default_command is None:
            return [name for name in command if not name.startswith("-")]
        if before[0] == "help":
            return SHOWN
        if before[-1] in ("--file", "-f"):
            folder = word[: word.rfind("/") + 1]
            with suppress(OSError):
                return sorted(folder + each.name for each in Path(folder or ".").iterdir())
        arguments = command.assemble_argument_collection()
        if word.startswith("-"):
            return sorted(name for each in arguments for name in each.names if name[:2] == "--")
        if not any(map(takes_path, arguments)):
            return ()
        above = word[: word.rfind("/") + 1]
        with suppress(AioleadError):
            top = self.resolve(above or ".")
            return [above + name for name in self._loop.call(self._children, validate(top))]
        return ()

    async def _children(self, path: str) -> list[str]:
        with anyio.move_on_after(COMPLETED_WITHIN):
            client = await self.client(replace(self.common, quiet=True))
            return sorted(await client.get_children(path))
        return []


def _last_code(prompt: Prompt, lines: Iterable[str]) -> int:
    """Run command lines; the exit code of the last one."""
    code = exits.OK
    for line in lines:
        try:
            words = shlex.split(line, comments=True)
        except ValueError as error:  # an open quotation mark
            prompt.common.reporter.error(str(error))
            code = exits.USAGE
            continue
        if words and words[0] in _LEAVE:
            break
        if words:
            try:
                code = dispatch(words, prompt.common.reporter)
            except KeyboardInterrupt:
                code = exits.by_signal(signal.SIGINT)
    return exits.Exit(code)  # a signal may have ended a command, but not this process


def _typed_lines(prompt: Prompt) -> Iterator[str]:
    from prompt_toolkit.patch_stdout import patch_stdout

    session = _session(prompt)
    while True:
        try:
            with patch_stdout(raw=True):  # for what is reported meanwhile
                line = session.prompt(prompt.text)
        except KeyboardInterrupt:
            continue
        except EOFError:
            return
        yield line


def _session(prompt: Prompt) -> PromptSession[str]:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.completion import Completer, Completion
    from prompt_toolkit.history import FileHistory, History, InMemoryHistory

    class PromptCompleter(Completer):
        def get_completions(
            self, document: Document, complete_event: CompleteEvent
        ) -> Iterator[Completion]:
            for length, text in prompt.completions(document.text_before_cursor):
                yield Completion(text, start_position=-length, display=render.escaped(text))

    class PrivateHistory(FileHistory):
        """As bash's: lines that begin with a blank are left out, as are those with secrets."""

        def store_string(self, string: str) -> None:
            secrets = (f"--{option}" for option in SECRET_OPTIONS)
            if string[:1] != " " and not any(each in string for each in secrets):
                with suppress(OSError):
                    super().store_string(string)

    history: History = InMemoryHistory()
    with suppress(OSError, RuntimeError):
        history = PrivateHistory(_history_file())
    return PromptSession(
        completer=PromptCompleter(),
        complete_in_thread=True,
        complete_while_typing=False,
        enable_suspend=True,
        history=history,
    )


def _history_file() -> str:
    base = os.environ.get("XDG_STATE_HOME", "")
    folder = Path(base) if base.startswith("/") else Path("~/.local/state").expanduser()
    folder = folder / "aiolead"
    folder.mkdir(0o700, parents=True, exist_ok=True)
    file = folder / "history"
    file.touch(0o600)
    return str(file)


class _Ended(SystemExit):
    """A signal ends the shell; event loops let this exception through."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Leave the block by `_Ended`, which puts the terminal in order and closes the session."""

    def end(number: int, _frame: object) -> None:
        raise _Ended(number)

    def repeat(dropped: sys.UnraisableHookArgs) -> None:
        """Send the signal again whose handler ran in a finalizer, where Python drops exceptions."""
        if isinstance(dropped.exc_value, _Ended):
            number = dropped.exc_value.number
            threading.Timer(_REPEATED_AFTER, os.kill, (os.getpid(), number)).start()
        else:
            hook(dropped)

    numbers = (signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, end) for number in numbers}
    hook, sys.unraisablehook = sys.unraisablehook, repeat
    try:
        yield
    finally:
        sys.unraisablehook = hook
        for number, handler in before.items():
            signal.signal(number, handler)


_REPEATED_AFTER = 0.01
"""In seconds: by then the finalizer has ended. Otherwise the signal is sent once more."""
