"""The table of commands, and how errors become exit codes."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from errno import EIO
from importlib.metadata import PackageNotFoundError, version
from signal import SIGHUP, SIGPIPE
from typing import Any

from cyclopts import App, CycloptsError, Group, UnknownOptionError

from ..errors import AioleadError
from . import exits
from .acl import acl
from .bench import bench
from .completion import completion
from .config_file import ConfigurationFile
from .contenders import contenders
from .dashboard import dashboard
from .demo import demo
from .doctor import doctor
from .elect import elect
from .ensemble import ensemble
from .environment import variable
from .exits import CommandError, complaint
from .herd import herd
from .lock import lock
from .observe import observe
from .options import BASIC_OPTIONS, COMMON_OPTIONS
from .output import Reporter, flush_output, give_up_output, has_lost_terminal, prepare
from .rehearse import rehearse
from .run import run
from .server import server
from .top import top
from .tree import tree
from .watch import watch
from .znodes import create, deleteall, get, ls, rm, set_, stat


def _version() -> str:
    try:
        return version("aiolead")
    except PackageNotFoundError:
        return "unknown: run from a source tree that is not installed"


HOLDING = Group("Leading and locking", sort_key=1)
ZNODES = Group("Znodes", sort_key=2)
SERVERS = Group("Servers", sort_key=3)
OTHERS = Group("Others", sort_key=4)

_COMMANDS: tuple[tuple[Group, Callable[..., Any], str], ...] = (
    (HOLDING, run, "run [OPTIONS] PATH -- COMMAND..."),
    (HOLDING, lock, "lock [OPTIONS] PATH -- COMMAND..."),
    (HOLDING, elect, "elect [OPTIONS] PATH"),
    (HOLDING, observe, "observe [OPTIONS] PATH"),
    (HOLDING, contenders, "contenders [OPTIONS] PATH"),
    (HOLDING, top, "top [OPTIONS] [PATH...]"),
    (HOLDING, dashboard, "dashboard [OPTIONS] [PATH...]"),
    (ZNODES, ls, "ls [OPTIONS] [PATH]"),
    (ZNODES, tree, "tree [OPTIONS] [PATH]"),
    (ZNODES, get, "get [OPTIONS] PATH"),
    (ZNODES, stat, "stat [OPTIONS] PATH"),
    (ZNODES, set_, "set [OPTIONS] PATH DATA"),
    (ZNODES, create, "create [OPTIONS] PATH [DATA]"),
    (ZNODES, rm, "rm [OPTIONS] PATH"),
    (ZNODES, rm, "delete [OPTIONS] PATH"),
    (ZNODES, deleteall, "deleteall [OPTIONS] PATH"),
    (ZNODES, acl, "acl [OPTIONS] PATH [ENTRY...]"),
    (ZNODES, watch, "watch [OPTIONS] PATH"),
    (SERVERS, ensemble, "ensemble [OPTIONS]"),
    (SERVERS, doctor, "doctor [OPTIONS] [PATH...]"),
    (SERVERS, bench, "bench [OPTIONS] [PATH]"),
    (OTHERS, server, "server [OPTIONS]"),
    (OTHERS, demo, "demo [OPTIONS]"),
    (OTHERS, herd, "herd [OPTIONS]"),
    (OTHERS, completion, "completion SHELL"),
)

app: App = App(
    name="aiolead",
    help="Leader election and locks on ZooKeeper, for any program.",
    version=_version,
    group_parameters=Group("Options", sort_key=0),
    result_action="return_value",
    exit_on_error=False,
    print_error=False,
    config=ConfigurationFile(COMMON_OPTIONS, lambda: app, BASIC_OPTIONS),
)
for _group, _command, _usage in _COMMANDS:
    app.command(
        _command, name=_usage.partition(" ")[0], group=_group, usage=f"Usage: aiolead {_usage}"
    )
app["ensemble"].command(
    rehearse, name="rehearse", usage="Usage: aiolead ensemble rehearse [OPTIONS]"
)


def dispatch(arguments: Sequence[str]) -> int:
    """Run a command line; return the exit code."""
    prepare()
    # Composed environments, such as a container's, often cannot leave a variable out.
    for name in [name for name, value in os.environ.items() if not value]:
        if name.startswith("AIOLEAD_"):
            del os.environ[name]
    arguments = list(arguments)
    reporter = _reporter(arguments)
    try:
        code = app(arguments)
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
    command = arguments[0] if arguments else ""
    if command not in app:
        if command.startswith("-"):
            return f"Unknown option: {command}. Options go after the command (see: aiolead --help)"
        return f"{error} (see: aiolead --help)"
    runs_another = command in ("run", "lock") and "--" not in arguments
    if isinstance(error, UnknownOptionError) and runs_another:
        return f"{error} (a command with options of its own goes after --)"
    return f"{error} (see: aiolead {command} --help)"


def _reporter(arguments: Sequence[str]) -> Reporter:
    """A reporter for errors, which works before the command line is parsed."""
    ours = arguments[: arguments.index("--")] if "--" in arguments else arguments
    wanted = os.environ.get(variable("AIOLEAD_DEBUG"), "").lower()
    debug = "--debug" in ours or wanted in ("1", "true", "yes", "on")
    return Reporter(as_json="--json" in ours, debug=debug)
