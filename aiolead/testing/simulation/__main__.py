"""`python -m aiolead.testing.simulation`: one schedule again, or a great many.

Needs the extra `cli`.
"""

from __future__ import annotations

import sys


def main() -> int:
    """Runs the command line of this process; returns the exit code."""
    try:
        from .command import app
    except ModuleNotFoundError as missing:
        package = (missing.name or "").partition(".")[0]
        if package not in {"attrs", "cyclopts", "rich"}:
            raise
        print(  # noqa: T201
            f'simulation: the command needs {package}: pip install "aiolead[cli]"', file=sys.stderr
        )
        return 2
    code = app()
    return code if isinstance(code, int) else 0


if __name__ == "__main__":
    sys.exit(main())
