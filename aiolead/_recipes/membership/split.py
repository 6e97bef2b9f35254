"""Splits items among members, by rendezvous hashing with bounds. Pure.

Each pair of an item and a member has a score, a hash of both names. In the order of scores, an item
goes to a member that has less than its share. So all members have the same number of items, give or
take one; a member that comes or goes moves little more than its own share; and every process
computes the same.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable


def score(key: str, name: str) -> float:
    """The score of a pair, between 0 and 1: the same everywhere and forever."""
    text = f"{len(key)}:{key}{name}".encode(errors="surrogatepass")
    digest = hashlib.blake2b(text, digest_size=8).digest()
    return ((int.from_bytes(digest, "big") >> 12) + 0.5) / 2.0**52


class Split:
    """Which member gets which item. Caches the sorted pairs, since sorting is slow."""

    def __init__(self) -> None:
        self._items: frozenset[str] = frozenset()
        self._members: frozenset[str] = frozenset()
        self._ranked: list[tuple[float, str, str]] = []

    def shares(self, items: Iterable[str], members: Iterable[str]) -> dict[str, list[str]]:
        """The items of each member."""
        self._rank(frozenset(items), frozenset(members))
        shares: dict[str, list[str]] = {member: [] for member in self._members}
        if not shares:
            return shares
        left = set(self._items)
        least, extra = divmod(len(left), len(shares))
        for _, item, member in self._ranked:
            share = shares[member]
            if item not in left or len(share) > least:
                continue
            if len(share) == least:
                if extra == 0:
                    continue
                extra -= 1
            share.append(item)
            left.discard(item)
        return shares

    def _rank(self, items: frozenset[str], members: frozenset[str]) -> None:
        """Sort all pairs, the best score first."""
        if self._items - items or self._members - members:
            self._ranked = [
                pair for pair in self._ranked if pair[1] in items and pair[2] in members
            ]
        known = self._items & items
        for item in items:
            for member in members - self._members if item in known else members:
                # Names break ties, so that the order is the same in every process.
                self._ranked.append((-score(item, member), item, member))
        # Fast: timsort merges the new pairs into the sorted ones.
        self._ranked.sort()
        self._items, self._members = items, members
