"""Quotas: how many znodes and bytes there are below a path, and how many there may be.

Limits and counts are znodes themselves, below `/zookeeper/quota`. The server keeps the counts:
their znodes change without a transaction of their own, so that neither their versions nor their
watches tell.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from ...errors import QuotaExceededError
from .tree import QUOTAS, Tree

STATS = "zookeeper_stats"

Change = tuple[str, int, int]
"""A path, and by how many bytes and znodes it has grown."""


def governing(tree: Tree, path: str) -> str | None:
    """The path whose quota counts this one: the deepest that has any."""
    while tree.quotas and path:
        if path in tree.quotas:
            return path
        path = path.rpartition("/")[0]
    return None


def check(tree: Tree, path: str, size: int, count: int) -> None:
    """Raises `QuotaExceededError` if this much more would be above a hard limit."""
    top = governing(tree, path)
    if top is None:
        return
    limits, usage = (_read(tree, f"{QUOTAS}{top}/{name}") for name in ("zookeeper_limits", STATS))
    if limits is None or usage is None:
        return
    for grown, used, limit in (
        (count, "count", "countHardLimit"),
        (size, "bytes", "byteHardLimit"),
    ):
        most = limits.get(limit, -1)
        if grown and -1 < most < usage.get(used, -1) + grown:
            raise QuotaExceededError(path)


def keep_counts(tree: Tree, changes: Iterable[Change]) -> set[str]:
    """Brings the counts up to date after a transaction.

    Returns:
        the znodes of the counts that it has written.
    """
    begun, written = [], set()
    for path, size, count in changes:
        if path.startswith(QUOTAS + "/"):
            if count > 0 and path.endswith("/" + STATS):
                begun.append(path)
        elif top := governing(tree, path):
            name = f"{QUOTAS}{top}/{STATS}"
            if usage := _read(tree, name):
                _write(tree, name, usage["count"] + count, usage["bytes"] + size)
                written.add(name)
    for name in begun:
        top = name[len(QUOTAS) : -len(STATS) - 1]
        # Counted now, when all of the transaction is done.
        if tree.get(name) is not None:
            _write(tree, name, *tree.weigh(top))
            written.add(name)
    return written


def _read(tree: Tree, name: str) -> dict[str, int] | None:
    node = tree.get(name)
    if node is None:
        return None
    values = {"count": -1, "bytes": -1}
    for pair in re.split("[,;]+", (node.data or b"").decode(errors="replace")):
        key, _, value = pair.partition("=")
        # There may be a stray "=" at the end, by which newer servers fool the parser of old ones.
        if re.fullmatch(r"-?[0-9]{1,19}", value := value.rstrip("=")):
            values[key] = int(value)
    return values


def _write(tree: Tree, name: str, count: int, size: int) -> None:
    node = tree.get(name)
    assert node is not None
    tree.set_data(node, f"count={count},bytes={size}".encode())
