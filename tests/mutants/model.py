"""What a planted bug is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Change:
    """One replacement in the source.

    Where neither text has more than one line, `old` is any part of a line. Otherwise both are
    blocks of whole lines, written without the indentation that they have in the file.

    Attributes:
        file: which one, from the package's root.
        old: what stands there; exactly once.
        new: what stands there instead.
    """

    file: str
    old: str
    new: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One bug.

    Attributes:
        number: of the failure that it stands for; variants of one have letters.
        name: what the command calls it.
        wrong: what is wrong, in a sentence.
        seen_in: where that was found, if it is known.
        changes: how it is planted.
        kinds: of faults that bring it out, by their names: the schedules have more of them.
        least: how long these faults last at least, in session timeouts.
        tests: those that see it, as arguments of pytest, where a simulation does not.
        note: what is to be said about the result, above all if the simulation does not see it.
        conformance: whether it is a bug of the simulated servers: then only the tests count that
            compare them with real ones.
        simulated: whether the simulation runs the code at all that it is planted in.
    """

    number: str
    name: str
    wrong: str
    seen_in: str = ""
    changes: tuple[Change, ...]
    kinds: tuple[str, ...] = ()
    least: float = 0.0
    tests: tuple[str, ...] = ()
    note: str = ""
    conformance: bool = False
    simulated: bool = True


@dataclass(frozen=True, slots=True)
class Absent:
    """A failure of the list that our architecture has no place for.

    Attributes:
        number: of the failure.
        failure: what it is.
        why: why it cannot be planted.
    """

    number: str
    failure: str
    why: str
