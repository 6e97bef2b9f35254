"""The table of commands, and how errors become exit codes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from contextvars import ContextVar
from errno import EIO
from signal import SIGHUP, SIGPIPE
from typing import Any, Literal, NamedTuple

from cyclopts import (
    App,
    CycloptsError,
    Group,
    UnknownOptionError,
    UnusedCliTokensError,
    ValidationError,
)

import aiolead

from ..errors import AioleadError
from . import exits
from .environment import misspelled, variable
from .exits import CommandError, complaint
from .output import Reporter, flush_output, give_up_output, has_lost_terminal, prepare, write_line


def _version() -> str:
    version = aiolead.__version__
    if version == "0+unknown":
        return "unknown: run from a source tree that is not installed"
    return version


def help_(topic: str = "", /) -> None:
    """Print the help of a command, or the options of all: aiolead help connection.

    Args:
        topic: A command, or "connection".
    """
    if topic == "connection":
        from .options import described_options

        for line in described_options(app["ls"].assemble_argument_collection(parse_docstring=True)):
            write_line(line)
    elif topic in app:
        app[topic].help_print([])
    elif topic:
        _overview()([topic])  # raises an error that says what may have been meant
    else:
        _overview().help_print([])


def completion(shell: Literal["bash", "zsh", "fish"], /) -> None:
    """Print what completes this command's options, and paths of znodes, in a shell.

    Paths are completed from the servers of AIOLEAD_HOSTS or --hosts; nothing is offered if they do
    not answer in two seconds.

    Args:
        shell: The shell.
    """
    for name in app:
        app[name]  # imports it
    write_line(app.generate_completion(shell=shell), keep="\n\t")
    if shell == "zsh":
        write_line(_ZSH, keep="\n")


_ZSH = """\
if [[ $funcstack[1] == (_aiolead|_cyclopts_aiolead) ]]; then
  _cyclopts_aiolead "$@"
else
  compdef _cyclopts_aiolead aiolead
fi"""
"""cyclopts's script only defines a function. It is called, or registered where it is sourced."""


_TABLE: dict[str, dict[str, str]] = {
    "Leading and locking": {
        """
run [OPTIONS] PATH [-- COMMAND...]
    Run a command only while leader; without one, print each state until SIGINT, SIGTERM.
    $ aiolead run /jobs/scheduler -- celery -A app beat
    $ aiolead run --forever /jobs/mailer -- ./mailer
""": "run:run",
        """
lock [OPTIONS] PATH -- COMMAND...
    Run a command while holding a lock.
    $ aiolead lock /locks/migrate -- ./manage.py migrate
    $ aiolead lock -qn /jobs/nightly -- ./nightly.sh
    $ aiolead lock --slots 4 /locks/gpu --shell -- 'train | tee log'
""": "run:lock",
        """
once [OPTIONS] PATH KEY -- COMMAND...
    Run a command once per key, on one of many machines.
    $ aiolead once -q /jobs/nightly "$(date +%F)" -- ./nightly.sh
""": "run:once",
        """
observe [OPTIONS] PATH
    Print who leads, and each change of it, until SIGINT or SIGTERM.
    $ aiolead observe /jobs/scheduler --json
""": "elections:observe",
        """
contenders [OPTIONS] PATH
    Print who contends at a path: for an election, a lock or a semaphore, of any library.
    $ aiolead contenders /jobs/scheduler
""": "contenders:contenders",
        """
revoke [OPTIONS] PATH
    Ask the holders at a path to release, or the leaders to resign. Nobody is forced.
    $ aiolead revoke /jobs/scheduler
    $ aiolead revoke /jobs/scheduler --successor host-2:4711
""": "operators:revoke",
        """
top [OPTIONS] [PATH...]
    Show leaders, contenders and events, live, until q, SIGINT or SIGTERM.
    $ aiolead top /jobs /locks
""": "top:top",
        """
dashboard [OPTIONS] [PATH...]
    Serve a live web page of leaders and contenders, until SIGINT or SIGTERM.
    $ aiolead dashboard --listen 127.0.0.1:8080
""": "dashboard:dashboard",
    },
    "Znodes": {
        """
ls [OPTIONS] [PATH]
    List the children of a znode.
    $ aiolead ls -l /app
""": "znodes:ls",
        """
tree [OPTIONS] [PATH]
    Show a znode with everything below it.
    $ aiolead tree -d /app
""": "trees:tree",
        """
find [OPTIONS] [PATH]
    Print the paths of a znode and of all below it. ls -R is the same without conditions.
    $ aiolead find /app --name 'lock-*'
""": "trees:find",
        """
grep [OPTIONS] PATTERN [PATH]
    Print the lines of data that match a regular expression, each after its znode's path.
    $ aiolead grep -i password /app
""": "trees:grep",
        """
cp [OPTIONS] SOURCE TARGET
    Copy a znode with its data and ACL, not atomically; ephemeral znodes are left out.
    $ aiolead cp -r /app /backup/app
""": "trees:cp",
        """
export [OPTIONS] [PATH]
    Write a tree, without ephemeral znodes, as JSON lines for aiolead import.
    $ aiolead export /app --file app.jsonl
""": "trees:export",
        """
import [OPTIONS] [PATH]
    Create the znodes that aiolead export has written, with their data and ACLs.
    $ aiolead import /app --file app.jsonl
""": "trees:import_",
        """
get [OPTIONS] PATH
    Print the data of a znode.
    $ aiolead get /app/settings > settings.json
""": "znodes:get",
        """
stat [OPTIONS] PATH
    Print what the servers know about a znode, beside its data.
""": "znodes:stat",
        """
set [OPTIONS] PATH [DATA]
    Replace the data of a znode.
    $ aiolead set /app/settings --file settings.json
""": "znodes:set_",
        """
edit [OPTIONS] PATH
    Open the data of a znode in an editor, and write them back.
    $ EDITOR=nano aiolead edit /app/settings
""": "edit:edit",
        """
create [OPTIONS] PATH [DATA]
    Create a znode, and print its path.
    $ aiolead create -p /app/settings '{}'
""": "znodes:create",
        """
rm [OPTIONS] PATH
    Delete a znode.
    $ aiolead rm -r /app/old
""": "znodes:rm",
        """
acl [OPTIONS] PATH [ENTRY...]
    Print who may do what with a znode, or set it.
    $ aiolead acl /app world:anyone:r digest:me:HASH=:cdrwa
""": "znodes:acl",
        """
config COMMAND PATH
    Read, change and roll back a configuration of aiolead.Config.
""": "operators:config",
        """
quota [OPTIONS] PATH
    Print the quota of a znode and its use, or set or delete it.
    $ aiolead quota /app --count 10000 --bytes 100000000
""": "operators:quota",
        """
ephemerals [OPTIONS] [PATH]
    List the ephemeral znodes below a path, with the sessions that own them.
""": "operators:ephemerals",
        """
watch [OPTIONS] PATH
    Print what happens to a znode, until SIGINT or SIGTERM.
    $ aiolead watch -r /app
""": "znodes:watch",
    },
    "Servers": {
        """
ensemble [OPTIONS]
    Print each server's role, and how many failures the ensemble can still take.
    $ aiolead ensemble --hosts zk1,zk2,zk3
""": "ensemble:ensemble",
        """
doctor [OPTIONS] [PATH...]
    Look for what is wrong between here and the servers, and for what is not safe.
    $ aiolead doctor /jobs/scheduler
""": "doctor:doctor",
        """
members [OPTIONS]
    Print the servers of the ensemble's configuration, or change them (reconfig).
    $ aiolead members
    $ aiolead members --add 'server.4=zk4:2888:3888;2181' --remove 1
""": "operators:members",
        """
whoami [OPTIONS]
    Print the identities of this client, as the servers see it. Needs ZooKeeper 3.7.
""": "operators:whoami",
        """
sync [OPTIONS] [PATH]
    Wait until the connected server has all writes that were done before.
""": "operators:sync",
        """
bench [OPTIONS] [PATH]
    Measure how long the servers take for reads, writes and locks, from here.
    $ aiolead bench --seconds 5
""": "bench:bench",
    },
    "Others": {
        """
shell [OPTIONS]
    Take commands at a prompt, with completion and a history, on one session.
    $ aiolead shell --read-only
""": "shell:shell",
        """
server [OPTIONS]
    Run a ZooKeeper server for development, until SIGINT or SIGTERM.
    $ aiolead server --port 0
""": "server:server",
        """
demo [OPTIONS]
    Show a failover; demo herd: the herd effect; demo ensemble: servers that elect.
""": "demo:command",
        """
help [TOPIC]
    Print the help of a command, or the options of all: aiolead help connection.
""": "app:help_",
        """
completion SHELL
    Print what completes this command's options, and paths of znodes, in a shell.
    $ aiolead completion bash > ~/.local/share/bash-completion/completions/aiolead
    $ aiolead completion zsh > ~/.zfunc/_aiolead  # with ~/.zfunc in $fpath
    $ aiolead completion fish > ~/.config/fish/completions/aiolead.fish
""": "app:completion",
    },
}
"""All commands: by group, the usage, the first sentence of the help, examples; the function.

`aiolead --help` imports none of the functions, which are named by their modules.
"""


class _Command(NamedTuple):
    usage: str
    function: str
    """Its import path."""
    group: Group
    help: list[str]
    """The summary, then examples, as they are typed."""


_PATH = "aiolead.cli."


def _commands() -> dict[str, _Command]:
    """The commands of the table, by their names."""
    found: dict[str, _Command] = {}
    for title, commands in _TABLE.items():
        group = Group(title, sort_key=len(found) + 1)
        for text, function in commands.items():
            usage, *lines = text.strip().splitlines()
            about = [line.strip().removeprefix("$ ") for line in lines]
            found[usage.partition(" ")[0]] = _Command(usage, _PATH + function, group, about)
    return found


_COMMANDS = _commands()

_EXAMPLES = """\
aiolead demo                                    # needs no server
export AIOLEAD_HOSTS=zk1,zk2,zk3/app
aiolead run /jobs/mailer -- ./mailer            # one of all machines
aiolead once -q /jobs/nightly "$(date +%F)" -- ./nightly.sh  # once a day
aiolead top                                     # leaders and waiters"""
"""Of the command as a whole."""

_EPILOGUE = "Options of all commands, such as --hosts and --json: aiolead help connection"


def _prologue(examples: Iterable[str]) -> str:
    """The text before a help: a block of code, in Markdown."""
    return "".join(f"    {line}\n" for line in examples)


def _app(**options: Any) -> App:
    return App(
        name="aiolead",
        help="Leader election and locks on ZooKeeper, for any program.",
        version=_version,
        version_flags=("--version", "-V"),
        group_parameters=Group("Options", sort_key=0),
        result_action="return_value",
        exit_on_error=False,
        print_error=False,
        **options,
    )


def _overview() -> App:
    """The same commands without their code, for `aiolead --help`."""
    # The import of a Markdown renderer takes long.
    prologue = _prologue(_EXAMPLES.splitlines())
    overview = _app(help_format="plaintext", help_prologue=prologue, help_epilogue="")
    for name, command in _COMMANDS.items():
        meant = tuple(_SYNONYMS.get(name, "").split())
        overview.command(App(name=name, help=command.help[0], group=command.group, synonym=meant))
    return overview


_SYNONYMS = {
    "acl": "getAcl setAcl chmod",
    "contenders": "holder holders leader leaders queue waiters who",
    "cp": "copy mv move rename",
    "create": "mkdir touch",
    "doctor": "check health ping",
    "ensemble": "health ping servers status",
    "ephemerals": "getEphemerals sessions",
    "export": "backup dump",
    "get": "cat read",
    "import": "load restore",
    "members": "reconfig getConfig",
    "quota": "delquota listquota setquota",
    "revoke": "break handover kill release resign unlock",
    "run": "elect election lead",
    "set": "put write",
    "top": "elections locks",
}
"""Words of zkCli.sh and of other tools that are no commands here, by the command that is meant."""


def _configure(*command_line: Any) -> None:
    """Complete a parsed command line, and check its paths, before any command does anything.

    Options come from a shell and the configuration file. The overview does without.
    """
    from .config_file import fill_in_options
    from .options import AT_PROMPT, check_paths

    _check_behind(*command_line)
    if (prompt := AT_PROMPT.get()) is not None:
        prompt.fill_in(*command_line)
    fill_in_options(set(app), *command_line)
    check_paths(command_line[-1])


_BEHIND: ContextVar[Sequence[str]] = ContextVar("_BEHIND", default=())
"""The arguments after "--"."""


def _check_behind(_: App, names: tuple[str, ...], arguments: Any) -> None:
    """Refuse a PATH or a KEY from after "--": only a part of the command would be run."""
    for argument in arguments:
        if argument.field_info.name == "command" and len(argument.tokens) < len(_BEHIND.get()):
            usage = f"aiolead {_COMMANDS[names[0]].usage}"
            raise CommandError(f"only the command goes after --: {usage}", exits.USAGE)


app: App = _app(config=_configure)
for _name, _command in _COMMANDS.items():
    _help: dict[str, str] = {}
    if _name not in ("demo", "config"):  # which have commands of their own, and so their usage
        _help = {"usage": f"Usage: aiolead {_command.usage}", "help_epilogue": _EPILOGUE}
        if _examples := _prologue(_command.help[1:]):
            _help["help_prologue"] = _examples
    app.command(_command.function, name=_name, group=_command.group, **_help)

SHOWN = sorted(_COMMANDS)
"""The names of all commands that help shows."""


_HIDDEN = {
    "cd": "shell:cd",  # only in a shell
    "pwd": "shell:pwd",
    "delete": "znodes:rm",  # as zkCli.sh has it
    "deleteall": "znodes:deleteall",  # the same
}
for _name, _function in _HIDDEN.items():
    app.command(_PATH + _function, name=_name, show=False)

_NAMES = _COMMANDS.keys() | _HIDDEN.keys()


def dispatch(arguments: Sequence[str], shell: Reporter = Reporter()) -> int:  # noqa: B008 - frozen
    """Run a command line; return the exit code. `shell` is the reporter of a shell that does it."""
    prepare()
    # Composed environments, such as a container's, often cannot leave a variable out.
    for name in [name for name, value in os.environ.items() if not value]:
        if name.startswith("AIOLEAD_"):
            del os.environ[name]
    arguments = list(arguments)
    reporter = _reporter(arguments, shell)
    for name, meant in misspelled(os.environ).items():
        reporter.notice(f"{name} is not read: did you mean {meant}?")
    _BEHIND.set(arguments[arguments.index("--") + 1 :] if "--" in arguments else ())
    try:
        # An empty variable behind it must not change what the command does.
        if arguments[-1:] == ["--"] and next(filter(_NAMES.__contains__, arguments), "") == "run":
            raise CommandError("no command was given; it goes last, after --", exits.USAGE)
        # Without a command there is nothing to run: help, the version, or a mistake.
        code = (_overview() if _NAMES.isdisjoint(arguments) else app)(arguments)
        flush_output()
    except CycloptsError as error:
        reporter.error(_misunderstood(error, arguments))
        return exits.USAGE
    except CommandError as error:
        reporter.error(str(error))
        return error.code
    except BrokenPipeError:
        give_up_output()
        return exits.by_signal(SIGPIPE)
    except AioleadError as error:
        reporter.failure(error, text=complaint(error, arguments[0]))
        return exits.exit_code(error)
    except Exception as error:
        if isinstance(error, OSError) and error.errno == EIO and has_lost_terminal():
            give_up_output()
            return exits.by_signal(SIGHUP)
        # A full disk or a defect of ours: still one line.
        kind = "" if isinstance(error, OSError) else f"{type(error).__name__}: "
        where = "" if reporter.debug else " (--debug shows where)"
        reporter.failure(error, text=f"{kind}{error}{where}")
        try:
            flush_output()
        except OSError:
            give_up_output()
        return exits.FAILED
    return code if isinstance(code, int) else exits.OK


def _misunderstood(error: CycloptsError, arguments: Sequence[str]) -> str:
    """The message for an invalid command line."""
    if isinstance(error, ValidationError) and error.argument is not None:
        return f"{error.argument.name}: {error.exception_message}"
    command = arguments[0] if arguments else ""
    if command not in app:
        if command.startswith("-"):
            return f"Unknown option: {command}. Options go after the command (see: aiolead --help)"
        return f"{error} (see: aiolead --help)"
    if isinstance(error, UnusedCliTokensError) and error.unused_tokens:
        why = f"there is no argument for {error.unused_tokens[0]!r}: put quotes around spaces"
        return f"{why} (see: aiolead {command} --help)"
    if isinstance(error, UnknownOptionError):
        typed = error.token.keyword or error.token.value
        with suppress(ValueError):  # there is no such option with two dashes, either
            error.argument_collection.match(f"-{typed}")
            why = f"Unknown option: {typed}. Did you mean -{typed}?"
            return f"{why} (see: aiolead {command} --help)"
    runs_another = command in ("run", "lock", "once") and "--" not in arguments
    if isinstance(error, UnknownOptionError) and runs_another:
        return f"{error} (a command with options of its own goes after --)"
    return f"{error} (see: aiolead {command} --help)"


def _reporter(arguments: Sequence[str], shell: Reporter) -> Reporter:
    """A reporter for errors, which works before the command line is parsed."""
    ours = arguments[: arguments.index("--")] if "--" in arguments else arguments
    wanted = os.environ.get(variable("AIOLEAD_DEBUG"), "").lower()
    debug = "--debug" in ours or wanted in ("1", "true", "yes", "on")
    return Reporter(as_json=shell.as_json or "--json" in ours, debug=shell.debug or debug)
