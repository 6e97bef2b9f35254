"""The command `aiolead`, which needs the extra `cli`.

Nothing else in the package imports this; nothing of the extra is imported before `main` runs.
"""

from __future__ import annotations

import atexit
import gc
import sys
from collections.abc import Sequence
from signal import SIGINT

__all__ = ["main"]

_EXTRA = {"attrs", "cyclopts", "rich"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command with `arguments` (default: the process's); return the exit code.

    With those of the process, it dies of the signal that has ended it, or the command that it ran.
    """
    code = _main(arguments)
    if arguments is None and (number := getattr(code, "number", 0)):
        from .exits import die_of

        die_of(number)
    return code


def _main(arguments: Sequence[str] | None) -> int:
    if arguments is None:
        # Modules stay until the process ends. To look for garbage in them, at the exit as well,
        # takes a tenth of a short command's time. `Basics.run` enables it for event loops.
        gc.disable()
        atexit.register(gc.freeze)
    try:
        from .app import dispatch

        return dispatch(sys.argv[1:] if arguments is None else arguments)
    except ModuleNotFoundError as missing:
        # Raised by the import above, or later by the first use.
        package = (missing.name or "").partition(".")[0]
        if package not in _EXTRA:
            raise
        print(
            f'aiolead: the command needs {package}: pip install "aiolead[cli]"',
            file=sys.stderr,
        )
        return 2
    except KeyboardInterrupt:
        from .exits import by_signal

        return by_signal(SIGINT)
