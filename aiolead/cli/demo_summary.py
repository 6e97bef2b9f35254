"""What `aiolead demo` has shown, and whether it was what was promised."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from .demo_troupe import Reign

__all__ = ["NEXT_STEPS", "HandOver", "broken_promises", "summary"]


@dataclass(frozen=True, slots=True)
class HandOver:
    """From one leader to the next one.

    Attributes:
        left: who led before.
        came: who led next.
        ended: when the one before had stopped for sure: dead, or by its own words.
        began: when the next one began to lead.
        timeout: the session timeout that had to pass, in seconds; None for a resignation.
    """

    left: str
    came: str
    ended: float
    began: float
    timeout: float | None

    @property
    def took(self) -> float:
        """Seconds that nobody led."""
        return self.began - self.ended


def broken_promises(reigns: Sequence[Reign], hand_overs: Sequence[HandOver]) -> list[str]:
    """What did not happen as it should have; empty if all did."""
    broken = [
        f"{one.name} and {next_one.name} led at once"
        for one, next_one in pairwise(reigns)
        if next_one.begin <= one.end
    ]
    broken += [
        f"the token fell, from {one.token} to {next_one.token}"
        for one, next_one in pairwise(reigns)
        if next_one.token <= one.token
    ]
    broken += [
        f"{each.came} led before {each.left} had stopped" for each in hand_overs if each.took <= 0
    ]
    return broken


def summary(
    reigns: Sequence[Reign], hand_overs: Sequence[HandOver], start: float
) -> list[tuple[str, str]]:
    """Lines and their styles; times are counted from `start`."""
    lines = [("", ""), ("What you just saw", "bold")]
    for number, reign in enumerate(reigns):
        begin, end = reign.begin - start, reign.end - start
        how = "was killed" if number == 0 else "resigned"
        line = f"  {reign.name:<5} led from {begin:5.2f} s to {end:5.2f} s, token {reign.token}, "
        lines.append((line + how, ""))
    if not broken_promises(reigns, hand_overs):
        tokens = " < ".join(str(reign.token) for reign in reigns)
        lines += [
            ("  One leader at a time, by the clocks of the processes themselves.", "green"),
            (f"  Tokens rise ({tokens}), so that stores can refuse leaders of the past.", "green"),
        ]
    for each in hand_overs:
        if each.timeout is None:
            text = f"  After a resignation the next one led {each.took * 1000:.1f} ms later."
        else:
            text = (
                f"  After a crash the next one led {each.took:.2f} s later: when the session "
                f"({each.timeout:g} s) was out."
            )
        lines.append((text, "green"))
    return lines


NEXT_STEPS = [
    ("", ""),
    ("What to do next", "bold"),
    ("  aiolead server                        a ZooKeeper server to play with", ""),
    ("  export AIOLEAD_HOSTS=127.0.0.1:2181   where it is, for all that follows", ""),
    ("  aiolead run /demo -- sleep 60         in two terminals; then stop one of them", ""),
    ("  aiolead observe /demo                 who leads, as it changes", ""),
    ("  aiolead run --help                    for your own program, in any language", ""),
    ("In Python: async with aiolead.Election(client, path).leadership() as term: ...", ""),
]
