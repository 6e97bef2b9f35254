"""How many steps a backtracking matcher takes for a regular expression: the same on each machine.

`re` counts nothing, and time depends on the machine. This matches as `re` does, character by
character, without its shortcuts: slowly, but how the number of steps grows with the text is the
same. `worst_growth` looks for a text for which it grows faster than the text does.
"""

from __future__ import annotations

import math
import random
import re
import re._constants as sre  # type: ignore[import-not-found]
import re._parser as sre_parser  # type: ignore[import-not-found]
from collections.abc import Iterator
from typing import Any

Item = tuple[Any, Any]

PUMPED = 20
"""How often a part of a text is repeated, for the shorter one of two texts."""

TRIVIAL = 300
"""So few steps say nothing about growth."""


TOO_MANY = 200_000
"""What takes more steps for these texts is not linear."""


class TooManyStepsError(Exception):
    """It may never end."""


class Steps:
    """Matches a regular expression, and counts.

    Args:
        pattern: the expression.
        anchored: whether it is matched at the beginning alone, else searched for everywhere.
        whole: whether all of a text has to match.
    """

    def __init__(self, pattern: re.Pattern[Any], *, anchored: bool, whole: bool) -> None:
        text = pattern.pattern
        flags = pattern.flags
        if isinstance(text, bytes):
            text = text.decode("latin-1")
        elif flags & re.ASCII:
            flags &= ~re.UNICODE
        self._flags = flags
        self._anchored = anchored
        self.items: list[Item] = list(sre_parser.parse(text, flags))
        if whole:
            self.items.append((sre.AT, sre.AT_END_STRING))
        self._count = 0

    def of(self, text: str) -> int:
        """The number of steps for a text, with all matches in it."""
        self._count = 0
        at = 0
        while at <= len(text):
            end = next(self._sequence(self.items, 0, text, at), None)
            if self._anchored:
                break
            at = at + 1 if end is None or end == at else end
        return self._count

    def _step(self) -> None:
        self._count += 1
        if self._count > TOO_MANY:
            raise TooManyStepsError

    # --- matching: each function gives the ends of all matches, the preferred one first ----------

    def _sequence(self, items: list[Item], i: int, text: str, at: int) -> Iterator[int]:
        while i < len(items) and items[i][0] in _SINGLE:
            self._step()
            if at >= len(text) or not self._is_one(items[i], text[at]):
                return
            i, at = i + 1, at + 1
        if i == len(items):
            yield at
            return
        for end in self._item(items[i], text, at):
            yield from self._sequence(items, i + 1, text, end)

    def _item(self, item: Item, text: str, at: int) -> Iterator[int]:
        op, argument = item
        self._step()
        if op is sre.BRANCH:
            for branch in argument[1]:
                yield from self._sequence(list(branch), 0, text, at)
        elif op is sre.SUBPATTERN:
            yield from self._sequence(list(argument[3]), 0, text, at)
        elif op in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT):
            least, most, inner = argument
            inner = list(inner)
            if len(inner) == 1 and inner[0][0] in _SINGLE:
                yield from self._run(op, least, most, inner[0], text, at)
            else:
                yield from self._repeat(op, least, most, inner, text, at)
        elif op is sre.AT:
            if self._is_at(argument, text, at):
                yield at
        elif op in (sre.ASSERT, sre.ASSERT_NOT):
            direction, inner = argument
            inner = list(inner)
            start = at - sre_parser.SubPattern(sre_parser.State(), inner).getwidth()[0]
            begin = at if direction > 0 else start
            found = begin >= 0 and next(self._sequence(inner, 0, text, begin), None) is not None
            if found == (op is sre.ASSERT):
                yield at
        else:
            raise NotImplementedError(op)

    def _run(self, op: Any, least: int, most: int, one: Item, text: str, at: int) -> Iterator[int]:
        """One character, repeated."""
        longest = 0
        while longest < most and at + longest < len(text) and self._is_one(one, text[at + longest]):
            self._step()
            longest += 1
            if op is sre.MIN_REPEAT and longest > least:
                yield at + longest - 1
        ends = range(longest, least - 1, -1) if op is not sre.MIN_REPEAT else (longest,)
        for length in ends:
            if length >= least:
                self._step()
                yield at + length

    def _repeat(
        self, op: Any, least: int, most: int, inner: list[Item], text: str, at: int
    ) -> Iterator[int]:
        self._step()
        if op is sre.MIN_REPEAT and least <= 0:
            yield at
        if most > 0:
            for end in self._sequence(inner, 0, text, at):
                if end > at or least > 0:
                    yield from self._repeat(op, least - 1, most - 1, inner, text, end)
        if op is not sre.MIN_REPEAT and least <= 0:
            yield at

    def _is_one(self, item: Item, character: str) -> bool:
        op, argument = item
        if op is sre.ANY:
            return character != "\n" or bool(self._flags & re.DOTALL)
        if op is sre.IN:
            negated = argument[0][0] is sre.NEGATE
            return any(self._is_in(each, character) for each in argument[negated:]) != negated
        return self._is_in(item, character)

    def _is_in(self, item: Item, character: str) -> bool:
        op, argument = item
        if op is sre.LITERAL:
            return ord(character) == argument
        if op is sre.NOT_LITERAL:
            return ord(character) != argument
        if op is sre.RANGE:
            return bool(argument[0] <= ord(character) <= argument[1])
        return bool(re.match(_CATEGORIES[argument], character, self._flags & re.ASCII))

    def _is_at(self, where: Any, text: str, at: int) -> bool:
        lines = bool(self._flags & re.MULTILINE)
        match where:
            case sre.AT_BEGINNING:
                return at == 0 or (lines and text[at - 1] == "\n")
            case sre.AT_BEGINNING_STRING:
                return at == 0
            case sre.AT_END:
                return at == len(text) or (lines and text[at] == "\n") or text[at:] == "\n"
            case sre.AT_END_STRING:
                return at == len(text)
            case sre.AT_BOUNDARY | sre.AT_NON_BOUNDARY:
                is_boundary = bool(re.compile(r"\b").match(text, at))
                return is_boundary == (where is sre.AT_BOUNDARY)
        raise NotImplementedError(where)

    # --- texts that fit --------------------------------------------------------------------------

    def sample(self, rng: random.Random) -> str:
        """A text that matches, nearly: with a few repetitions of what may be repeated."""
        return self._sampled(self.items, rng)

    def _sampled(self, items: list[Item], rng: random.Random) -> str:
        text = ""
        for op, argument in items:
            if op is sre.BRANCH:
                text += self._sampled(list(rng.choice(argument[1])), rng)
            elif op is sre.SUBPATTERN:
                text += self._sampled(list(argument[3]), rng)
            elif op in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT):
                least, most, inner = argument
                times = min(most, max(least, rng.randint(1, 2)))
                text += "".join(self._sampled(list(inner), rng) for _ in range(times))
            elif op in _SINGLE:
                fitting = [each for each in _ALPHABET if self._is_one((op, argument), each)]
                text += rng.choice(fitting) if fitting else self._other(op, argument)
        return text

    def _other(self, op: Any, argument: Any) -> str:
        first = argument if op is sre.LITERAL else argument[0][1]
        return chr(first[0] if isinstance(first, tuple) else first)


_SINGLE = frozenset({sre.LITERAL, sre.NOT_LITERAL, sre.ANY, sre.IN, sre.CATEGORY})

_CATEGORIES = {
    sre.CATEGORY_DIGIT: r"\d",
    sre.CATEGORY_NOT_DIGIT: r"\D",
    sre.CATEGORY_SPACE: r"\s",
    sre.CATEGORY_NOT_SPACE: r"\S",
    sre.CATEGORY_WORD: r"\w",
    sre.CATEGORY_NOT_WORD: r"\W",
}

_ALPHABET = "a0-_.:/ =,;\n[]{}()|x\"'\\%+@é\x00"


def worst_growth(
    pattern: re.Pattern[Any], *, anchored: bool, whole: bool, samples: int = 4
) -> tuple[float, str]:
    """By how much the steps grow where a part of a text is repeated twice as often; and which text.

    2 is linear, 4 quadratic.
    """
    steps = Steps(pattern, anchored=anchored, whole=whole)
    rng = random.Random(1)
    worst = (0.0, "")
    for _ in range(samples):
        sample = steps.sample(rng)[:60]
        parts = {
            (i, j) for i in range(len(sample)) for j in range(i + 1, min(len(sample), i + 4) + 1)
        }
        parts |= {(i, len(sample)) for i in range(min(3, len(sample)))}
        for i, j in sorted(parts):
            text = sample[:i] + sample[i:j] * 3
            try:
                shorter, longer = (
                    steps.of(f"{sample[:i]}{sample[i:j] * times}\x01")
                    for times in (PUMPED, 2 * PUMPED)
                )
            except TooManyStepsError:
                return math.inf, text
            if longer > TRIVIAL:
                worst = max(worst, (longer / shorter, text))
    return worst
