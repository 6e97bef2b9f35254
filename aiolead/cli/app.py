"""The command line: what commands there are, and what becomes of their errors."""

from __future__ import annotations

import os
from collections.abc import Sequence
from errno import EIO
from importlib.metadata import PackageNotFoundError, version
from signal import SIGHUP, SIGPIPE

from cyclopts import App, CycloptsError, Group, UnknownOptionError

from ..errors import AioleadError
from . import exits
from .acl import acl
from .bench import bench
from .child import CommandError
from .complaints import complaint
from .completion import completion
from .contenders import contenders
from .dashboard import dashboard
from .demo import demo
from .doctor import doctor
from .elect import elect
from .ensemble import ensemble
from .environment import variable
from .lock import lock
from .observe import observe
from .options import BASIC_OPTIONS, COMMON_OPTIONS
from .output import Reporter, flush_output, give_up_output, has_lost_terminal, prepare
from .run import run
from .server import server
from .settings import ConfigurationFile
from .top import top
from .tree import tree
from .watch import watch
from .znodes import create, get, ls, rm, stat
from .znodes import set as set_

__all__ = ["dispatch"]


def _version() -> str:
    try:
        return version("aiolead")
    except PackageNotFoundError:
        return "unknown: run from a source tree that is not installed"


HOLDING: Group = Group("Leading and locking", sort_key=1)
ZNODES: Group = Group("Znodes", sort_key=2)
SERVERS: Group = Group("Servers", sort_key=3)
OTHERS: Group = Group("Others", sort_key=4)

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
app.command(run, group=HOLDING, usage="Usage: aiolead run [OPTIONS] PATH -- COMMAND...")
app.command(lock, group=HOLDING, usage="Usage: aiolead lock [OPTIONS] PATH -- COMMAND...")
app.command(elect, group=HOLDING, usage="Usage: aiolead elect [OPTIONS] PATH")
app.command(observe, group=HOLDING, usage="Usage: aiolead observe [OPTIONS] PATH")
app.command(contenders, group=HOLDING, usage="Usage: aiolead contenders [OPTIONS] PATH")
app.command(top, group=HOLDING, usage="Usage: aiolead top [OPTIONS] [PATH...]")
app.command(dashboard, group=HOLDING, usage="Usage: aiolead dashboard [OPTIONS] [PATH...]")
app.command(ls, group=ZNODES, usage="Usage: aiolead ls [OPTIONS] [PATH]")
app.command(tree, group=ZNODES, usage="Usage: aiolead tree [OPTIONS] [PATH]")
app.command(get, group=ZNODES, usage="Usage: aiolead get [OPTIONS] PATH")
app.command(stat, group=ZNODES, usage="Usage: aiolead stat [OPTIONS] PATH")
app.command(set_, name="set", group=ZNODES, usage="Usage: aiolead set [OPTIONS] PATH DATA")
app.command(create, group=ZNODES, usage="Usage: aiolead create [OPTIONS] PATH [DATA]")
app.command(rm, group=ZNODES, usage="Usage: aiolead rm [OPTIONS] PATH")
app.command(acl, group=ZNODES, usage="Usage: aiolead acl [OPTIONS] PATH [ENTRY...]")
app.command(watch, group=ZNODES, usage="Usage: aiolead watch [OPTIONS] PATH")
app.command(ensemble, group=SERVERS, usage="Usage: aiolead ensemble [OPTIONS]")
app.command(doctor, group=SERVERS, usage="Usage: aiolead doctor [OPTIONS] [PATH...]")
app.command(bench, group=SERVERS, usage="Usage: aiolead bench [OPTIONS] [PATH]")
app.command(server, group=OTHERS)
app.command(demo, group=OTHERS)
app.command(completion, group=OTHERS, usage="Usage: aiolead completion SHELL")


def dispatch(arguments: Sequence[str]) -> int:
    """Runs a command line; returns the exit code."""
    prepare()
    _forget_empty_variables()
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
        # A disk that is full, or a defect of ours: one line all the same.
        kind = "" if isinstance(error, OSError) else f"{type(error).__name__}: "
        where = "" if reporter.debug else " (--debug shows where)"
        reporter.failure(error, text=f"{kind}{error}{where}")
        try:
            flush_output()
        except OSError:
            give_up_output()
        return exits.FAILED
    return code if isinstance(code, int) else exits.OK


def _forget_empty_variables() -> None:
    """Whoever composes an environment may have no better way to leave a variable out."""
    for name in [name for name, value in os.environ.items() if not value]:
        if name.startswith("AIOLEAD_"):
            del os.environ[name]


def _misunderstood(error: CycloptsError, arguments: Sequence[str]) -> str:
    """What to say of a command line that makes no sense."""
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
    """For what goes wrong, also before the command line is understood."""
    ours = arguments[: arguments.index("--")] if "--" in arguments else arguments
    wanted = os.environ.get(variable("AIOLEAD_DEBUG"), "").lower()
    debug = "--debug" in ours or wanted in ("1", "true", "yes", "on")
    return Reporter(as_json="--json" in ours, debug=debug)
