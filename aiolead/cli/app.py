"""The command line: what commands there are, and what becomes of their errors."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from signal import SIGPIPE

from cyclopts import App, CycloptsError, UnknownOptionError

from ..errors import AioleadError
from . import exits
from .child import CommandError
from .demo import demo
from .lock import lock
from .observe import observe
from .output import Reporter
from .run import run
from .server import server

__all__ = ["dispatch"]


def _version() -> str:
    try:
        return version("aiolead")
    except PackageNotFoundError:
        return "unknown: run from a source tree that is not installed"


app = App(
    name="aiolead",
    help="Leader election and locks on ZooKeeper, for any program.",
    version=_version,
    result_action="return_value",
    exit_on_error=False,
    print_error=False,
)
app.command(run, usage="Usage: aiolead run [OPTIONS] PATH -- COMMAND...")
app.command(lock, usage="Usage: aiolead lock [OPTIONS] PATH -- COMMAND...")
app.command(observe, usage="Usage: aiolead observe [OPTIONS] PATH")
app.command(server)
app.command(demo)


def dispatch(arguments: Sequence[str]) -> int:
    """Runs a command line; returns the exit code."""
    reporter = Reporter()
    try:
        code = app(list(arguments))
    except CycloptsError as error:
        hint = "see: aiolead --help"
        if isinstance(error, UnknownOptionError) and "--" not in arguments:
            hint = "a command with options of its own goes after --"
        reporter.error(f"{error} ({hint})")
        return exits.USAGE
    except CommandError as error:
        reporter.error(str(error))
        return error.code
    except BrokenPipeError:
        # Whoever read has gone. Python would try once more to flush.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return exits.by_signal(SIGPIPE)
    except AioleadError as error:
        reporter.error(str(error))
        return exits.exit_code(error)
    return code if isinstance(code, int) else exits.OK
