"""A fault: its kind, its time, its target."""

from __future__ import annotations

import enum
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..levers import Levers

Undo = Callable[[], object]

MANY = 60
"""Targets are numbers below this, taken modulo how many there are: the same for 2, 3, 4, 5 ..."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One thing that goes wrong.

    Attributes:
        number: which one of its schedule.
        kind: the name of its `Kind`.
        start: when, in seconds from the start of the run.
        duration: how long it lasts, in seconds; kinds that are over at once do not mind.
        target: to whom, as `Target` draws it.
        on: the event that it waits for from its start on, at most for its duration: `entered`,
            `left` or `joined`, by its name in the history; empty for nothing.
        amount: 0 to 1: how much, or which; each kind makes something of it.
    """

    number: int
    kind: str
    start: float
    duration: float
    target: str = ""
    on: str = ""
    amount: float = 0.5

    def __str__(self) -> str:
        end = self.start + self.duration
        text = f"{self.number}: {self.start:.3f} to {end:.3f} s  {self.kind}"
        if self.target:
            text += f" of {self.target}"
        if self.on:
            text += f", at once when somebody has {self.on}"
        return text


class Target(enum.Enum):
    """The type of target of a kind of fault."""

    NONE = "none"
    PROCESS = "process"
    SERVER = "server"
    LINE = "line"

    def draw(self, rng: random.Random) -> str:
        """One of them, by its number or by the part that it plays when the fault begins."""
        number = rng.randrange(MANY)
        match self:
            case Target.PROCESS:
                some = f"p{number}"
                return rng.choices((some, "holder", "waiter", "all"), (4, 4, 2, 1))[0]
            case Target.SERVER:
                some = f"s{number}"
                parts = (some, "leader", "follower", "of-holder", "of-waiter")
                return rng.choices(parts, (3, 3, 2, 3, 2))[0]
            case Target.LINE:
                return rng.choice((f"p{number}", "holder", "waiter"))
            case _:
                return ""


Act = Callable[["Levers", Fault], "Undo | None"]
"""Does a fault; gives what undoes it, or None if there is nothing to undo."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of fault.

    Attributes:
        name: a word or two.
        meaning: a sentence.
        target: its target.
        act: does it.
        weight: how often it is drawn, compared with others.
        stretch: by what its durations are multiplied.
        severe: whether it may cost sessions however short it is; see `history.FaultBegan`.
        closes: whether a server may see a connection closed before its client does.
    """

    name: str
    meaning: str
    target: Target
    act: Act
    weight: float = 1.0
    stretch: float = 1.0
    severe: bool = False
    closes: bool = False


@dataclass(frozen=True, slots=True)
class Composite:
    """Several faults that are drawn together.

    Attributes:
        name: a word or two.
        meaning: a sentence.
        draw: from a generator, the start in seconds and the session timeout, the faults.
        weight: how often it is drawn, compared with others.
    """

    name: str
    meaning: str
    draw: Callable[[random.Random, float, float], Sequence[Fault]]
    weight: float = 0.5
