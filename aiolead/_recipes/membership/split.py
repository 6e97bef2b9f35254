"""Splitting items over members: a rule that everybody computes alike. Pure.

Every pair of an item and a member has a score, which is a hash of both names. The pairs are gone
through from the best score on, and an item goes to a member if both are free: a member, as long as
it has less than its share. This is rendezvous hashing with bounds: all have the same number of
items, give or take one; and who comes or goes moves little more than its own share.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable


def score(key: str, name: str) -> float:
    """What a name is worth for a key: the same everywhere and for ever; between 0 and 1."""
    text = f"{len(key)}:{key}{name}".encode(errors="surrogatepass")
    digest = hashlib.blake2b(text, digest_size=8).digest()
    return ((int.from_bytes(digest, "big") >> 12) + 0.5) / 2.0**52


class Split:
    """Who is to have which item.

    It remembers the order of the last pairs, since to hash and sort them all takes a while.
    """

    def __init__(self) -> None:
        self._items: frozenset[str] = frozenset()
        self._members: frozenset[str] = frozenset()
        self._ranked: list[tuple[float, str, str]] = []

    def shares(self, items: Iterable[str], members: Iterable[str]) -> dict[str, list[str]]:
        """The items of each member; none, if there is no member."""
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
        """Puts all pairs into order, the best score first."""
        if self._items - items or self._members - members:
            self._ranked = [
                pair for pair in self._ranked if pair[1] in items and pair[2] in members
            ]
        known = self._items & items
        for item in items:
            for member in members - self._members if item in known else members:
                # Equal scores have to be in an order, too, and in the same one for everybody.
                self._ranked.append((-score(item, member), item, member))
        # What was in order is merged with what is new, rather than sorted again.
        self._ranked.sort()
        self._items, self._members = items, members
