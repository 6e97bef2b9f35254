"""How far a run is, and how long it will take."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Hashable, Sequence
from typing import TextIO

_EVERY = 10.0
"""How often something is said where it cannot be said in place, in seconds."""


class Progress:
    """Reports the progress of a list of steps.

    The expected time of a step is that of earlier steps of its kind. Before there was one, it is a
    guess, times the error of the guesses so far.

    Args:
        steps: the kind of each, and a guess, in seconds.
        out: the stream of the report; in place if that is a terminal.
    """

    def __init__(self, steps: Sequence[tuple[Hashable, float]], out: TextIO = sys.stderr) -> None:
        self._steps = steps
        self._out = out
        self._done = 0
        self._taken: dict[Hashable, list[float]] = {}
        self._guessed = self._spent = 0.0
        self._said_at = -_EVERY
        self._began = time.monotonic()

    def begin(self, what: str) -> None:
        """The next step begins."""
        self._started = time.monotonic()
        here = self._out.isatty()
        if not here and self._started - self._said_at < _EVERY:
            return
        self._said_at = self._started
        text = f"{self._done + 1:4}/{len(self._steps)}  {what:60.60}  {clock(self.left())} left"
        self._out.write(f"\r\x1b[K{text}" if here else f"{text}\n")
        self._out.flush()

    def end(self) -> None:
        """It is over."""
        kind, guess = self._steps[self._done]
        taken = time.monotonic() - self._started
        self._taken.setdefault(kind, []).append(taken)
        self._guessed += guess
        self._spent += taken
        self._done += 1

    def say(self, text: str) -> None:
        """Something else, on a line of its own."""
        clear = "\r\x1b[K" if self._out.isatty() else ""
        self._out.write(f"{clear}{text}\n")
        self._out.flush()

    def left(self) -> float:
        """How long the rest will take, in seconds."""
        wrong = self._spent / self._guessed if self._guessed else 1.0
        known = {kind: statistics.fmean(taken) for kind, taken in self._taken.items()}
        return sum(known.get(kind, guess * wrong) for kind, guess in self._steps[self._done :])

    def finish(self) -> None:
        """All is done."""
        self.say(f"{self._done} samples in {clock(time.monotonic() - self._began)}")


def clock(seconds: float) -> str:
    """Hours, minutes and seconds."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
