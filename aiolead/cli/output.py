"""What the command says for itself: on standard error, one line at a time."""

from __future__ import annotations

import logging
import os
import sys
from dataclasses import dataclass

__all__ = ["Reporter", "is_fancy", "write_line"]


@dataclass(frozen=True, slots=True)
class Reporter:
    """Says what happens.

    Attributes:
        quiet: leave out everything but errors and warnings.
    """

    quiet: bool = False

    def state(self, text: str) -> None:
        """Something has changed."""
        if not self.quiet:
            self.error(text)

    def error(self, text: str) -> None:
        """Something is wrong, or ends the command."""
        line = " ".join(text.split())
        try:
            print(f"aiolead: {line}", file=sys.stderr, flush=True)
        except OSError:
            # Nobody can be told; what the command is there for goes on.
            return


def write_line(text: str) -> None:
    """A result, on standard output; there at once, also in a pipe.

    Raises:
        BrokenPipeError: nobody reads any more.
    """
    print(text, flush=True)


def is_fancy() -> bool:
    """Whether standard output is a terminal that colours and moving text are welcome on."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM", "dumb") in ("", "dumb")
    return sys.stdout.isatty() and not plain


def show_log() -> None:
    """Shows what the library logs, on standard error."""
    logging.basicConfig(
        level=logging.DEBUG, stream=sys.stderr, format="%(asctime)s %(name)s %(message)s"
    )
