"""The command `aiolead`.

It needs the extra `cli`. Nothing else in the package imports this, and this module imports nothing
of the extra before `main` is called.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

__all__ = ["main"]

_EXTRA = {"attrs", "cyclopts", "rich"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return the exit code.

    Args:
        arguments: the command line, without the program's name; that of the process by default.
    """
    try:
        from .app import dispatch

        return dispatch(sys.argv[1:] if arguments is None else arguments)
    except ModuleNotFoundError as missing:
        # At once, or only when it is used.
        package = (missing.name or "").partition(".")[0]
        if package not in _EXTRA:
            raise
        print(
            f'aiolead: the command needs {package}: pip install "aiolead[cli]"',
            file=sys.stderr,
        )
        return 2
    except KeyboardInterrupt:
        return 130
