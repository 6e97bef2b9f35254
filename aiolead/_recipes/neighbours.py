"""The other children of a queue that are refused."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from .._util.contender_names import ElectionRules, known_name, rules_of
from ..abc import CoordinationClient
from ..errors import MixedLayoutError, NoAuthError
from ..model import Stat
from ..paths import basename, join
from .kernel import in_order
from .layouts import Names
from .reading import listed

# The patterns are text, and compiled at their first use: few paths have such neighbours.

KAZOOS_PERMIT = "([0-9]{10}-)?[0-9a-f]{32}"
"""A permit in kazoo's layout, a child of a semaphore's path: kazoo's own, or ours."""

LEASES = "leases"
"""The parent of the permits in Curator's layout, a child of a semaphore's path."""

ITEM = r"(?:queue-(?:[01][0-9A-F]{8}|\|[0-9A-F]{8,13}\|)?|qn-|entry-[0-9]{3}-)-?[0-9]{9,10}"
"""An item of a queue: aiolead's and Curator's, and kazoo's."""

_CURATORS_PERMIT = ".*lease-[0-9]{10}"

MOST_READ = 16
"""How many suspicious neighbours are read at most: others may create any number of them."""


async def queue_order(
    client: CoordinationClient, path: str, children: Iterable[str], names: Names
) -> list[str]:
    """The contenders in order, as `in_order`; no checkpoint if all fit.

    A misfit that has gone by the time its owner is read is left out. Raises `MixedLayoutError` with
    the owner's session, also if a semaphore is in use on the path, or it has items of a queue.
    """
    left = list(children)
    while True:
        others: list[str] = []
        try:
            line = in_order(path, left, names, others)
        except MixedLayoutError as misfit:
            stat = await client.exists(misfit.neighbour)
            if stat is not None:
                raise MixedLayoutError(
                    misfit.neighbour, misfit.why, session_id=stat.ephemeral_owner
                ) from None
            left.remove(basename(misfit.neighbour))
        else:
            if others:
                await _refuse_semaphore(client, path, others)
                await refuse_items(client, path, others)
            return line


async def refuse_other_rules(
    client: CoordinationClient, path: str, before: Iterable[str], rules: ElectionRules
) -> None:
    """Raise `MixedLayoutError` if contenders that came before have other rules than we.

    Only the one that comes later is refused: those that are in the queue already stay, since the
    smaller number of leaders counts. No checkpoint if all agree.
    """
    misfits = [(name, said) for name in before if not (said := rules_of(name)).fit(rules)]
    await refuse_owned(client, [(join(path, name), _why(said, rules)) for name, said in misfits])


def _why(theirs: ElectionRules, ours: ElectionRules) -> str:
    if (theirs.priority is None) is not (ours.priority is None):
        whose, others = ("a", "none") if ours.priority is None else ("no", "one")
        return (
            f"contends with {whose} priority, and this contender with {others}: give all contenders"
            " on the path a priority, or none"
        )
    return (
        f"contends with leaders={theirs.leaders}, and this contender with leaders={ours.leaders}: "
        "pass the same number in all programs; to change it while they run, start the new ones "
        f"with changing_from={theirs.leaders}"
    )


async def _refuse_semaphore(client: CoordinationClient, path: str, others: Iterable[str]) -> None:
    """Raise `MixedLayoutError` if a session holds a permit of a semaphore on the path."""
    permits = []
    for name in others:
        if re.fullmatch(KAZOOS_PERMIT, name):
            permits.append(join(path, name))
        elif name == LEASES:
            folder = join(path, LEASES)
            with suppress(NoAuthError):
                below = await listed(client.get_children(folder))
                permits += [
                    join(folder, each) for each in below if re.fullmatch(_CURATORS_PERMIT, each)
                ]
    why = "is a permit of a semaphore on the same path: give each recipe a path of its own"
    await refuse_owned(client, [(permit, why) for permit in permits])


async def refuse_items(client: CoordinationClient, path: str, names: Iterable[str]) -> None:
    """Raise `MixedLayoutError` if an item of a queue is among the children.

    An item has a number as a contender has, and no session owns it: all behind it would wait until
    it is consumed.
    """
    why = "is an item of a queue on the same path: give each recipe a path of its own"
    items = [(join(path, name), why) for name in names if re.fullmatch(ITEM, name)]
    await _refuse(client, items, lambda stat: not stat.ephemeral_owner)


async def refuse_holders(client: CoordinationClient, path: str, names: Iterable[str]) -> None:
    """Raise `MixedLayoutError` if contenders or permits are among the children: for queues."""
    names = list(names)
    await refuse_owned(client, contenders_among(path, names))
    await _refuse_semaphore(client, path, names)


def contenders_among(path: str, names: Iterable[str]) -> list[tuple[str, str]]:
    """The children that contend for a lock or an election, each with why others refuse it."""
    why = (
        "contends for {} on the same path (in the layout of {}): give each recipe a path of its own"
    )
    known = [(name, known_name(name)) for name in names]
    return [(join(path, name), why.format(k.what, k.library)) for name, k in known if k]


async def refuse_owned(client: CoordinationClient, misfits: Sequence[tuple[str, str]]) -> None:
    """Raise `MixedLayoutError` for the first of the paths that a session owns.

    Each comes with why it does not fit. One that no session owns holds nothing. A few are read.
    """
    await _refuse(client, misfits, lambda stat: stat.ephemeral_owner)


async def _refuse(
    client: CoordinationClient,
    misfits: Sequence[tuple[str, str]],
    counts: Callable[[Stat], object],
) -> None:
    looks = [(path, why, client.exists(path)) for path, why in misfits[:MOST_READ]]
    for path, why, look in looks:
        stat = await look
        if stat is not None and counts(stat):
            raise MixedLayoutError(path, why, session_id=stat.ephemeral_owner)
