"""`aiolead tree`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

from cyclopts import Parameter

from .. import Client
from ..errors import NoAuthError, NoNodeError
from ..model import Stat
from ..paths import join, validate
from . import render
from .batches import Denied, read_each, sync_before
from .options import COMMON, Common, Flag, ZnodePath, check_range
from .output import can_show, write_json, write_line

AT_ONCE = 128
"""How many znodes are read in one batch."""


@dataclass(slots=True, eq=False)
class Branch:
    """A znode and what is below it.

    Attributes:
        stat: None if it may not be read, or is gone.
        data: None if they were not requested, or may not be read.
        is_denied: whether its children may not be listed.
        hidden: how many of its children were left out; None if unknown.
        children: the others, sorted by name.
    """

    path: str
    name: str
    depth: int
    stat: Stat | None = None
    data: bytes | None = None
    is_denied: bool = False
    hidden: int | None = 0
    children: list[Branch] = field(default_factory=list)


def tree(
    path: ZnodePath = "/",
    /,
    *,
    depth: Annotated[int | None, Parameter(alias="-L")] = None,
    data: Annotated[Flag, Parameter(alias="-d")] = False,
    limit: int = 10_000,
    common: Common = COMMON,
) -> int:
    """Show a znode with everything below it.

    Marks show znodes that may not be listed, and where some were left out. With --json, one object
    per znode, from the top: path, depth, children (how many; null if not known), owner (null if it
    is no ephemeral one), denied (whether its children may not be listed), hidden (how many of them
    were left out; null if not known), and with --data encoding and data (null if they may not be
    read). From ZooKeeper 3.8.4 and 3.9.2 on, servers say neither owner nor children of what may not
    be read.

    Args:
        path: The top.
        depth: How many levels to show below it.
        data: Show the data, too.
        limit: How many znodes to show.
        common: Where to connect.
    """
    validate(path)
    check_range(1, depth=depth, limit=limit)

    async def work(client: Client) -> None:
        top = Branch(path, path, 0)
        sync_before(client, path)
        try:
            if await client.exists(path) is None:
                raise NoNodeError(path)
        except NoAuthError:
            pass  # it is there
        await _grow(client, top, depth, limit, with_data=data)
        if common.as_json:
            for branch in _all(top):
                write_json(_as_json(branch, with_data=data))
        else:
            for line in _drawn(top):
                write_line(line)

    return common.with_client(work)


async def _grow(
    client: Client, top: Branch, depth: int | None, limit: int, *, with_data: bool
) -> None:
    """Read a tree level by level, so that the limit leaves out the deepest znodes."""
    level, room = [top], limit - 1
    while level:
        below: list[Branch] = []
        for begin in range(0, len(level), AT_ONCE):
            group = level[begin : begin + AT_ONCE]
            is_last = depth is not None and group[0].depth >= depth
            listed = await _read(client, group, is_last=is_last, with_data=with_data)
            for branch, names in zip(group, listed, strict=True):
                shown_names = names[: max(0, room)]
                room -= len(shown_names)
                if len(shown_names) < len(names):
                    branch.hidden = len(names) - len(shown_names)
                branch.children = [
                    Branch(join(branch.path, name), name, branch.depth + 1) for name in shown_names
                ]
                below += branch.children
        level = below


async def _read(
    client: Client, group: Sequence[Branch], *, is_last: bool, with_data: bool
) -> list[list[str]]:
    """Fill in some branches; return the names of their children, except at the last level."""
    paths = [branch.path for branch in group]
    stats = [stat async for _, stat in read_each(paths, client.exists)]
    for branch, stat in zip(group, stats, strict=True):
        if isinstance(stat, Denied):
            branch.hidden = None
        else:
            branch.stat = stat
        if is_last and stat is not None:
            branch.hidden = branch.stat.num_children if branch.stat else None
    names: list[list[str]] = [[] for _ in group]
    if not is_last:
        listed = [found async for _, found in read_each(paths, client.get_children)]
        for n, (branch, found) in enumerate(zip(group, listed, strict=True)):
            if isinstance(found, Denied):
                branch.is_denied = True
                branch.hidden = branch.stat.num_children if branch.stat else None
            else:
                branch.hidden = 0
                names[n] = sorted(found or ())
                branch.stat = None if found is None else branch.stat
    if with_data:
        contents = [content async for _, content in read_each(paths, client.get)]
        for branch, content in zip(group, contents, strict=True):
            branch.data = content[0] if isinstance(content, tuple) else None
    return names


def _all(top: Branch) -> Iterator[Branch]:
    left = [top]
    while left:
        branch = left.pop()
        yield branch
        left += reversed(branch.children)


def _as_json(branch: Branch, *, with_data: bool) -> dict[str, Any]:
    stat = branch.stat
    about: dict[str, Any] = {
        "path": branch.path,
        "depth": branch.depth,
        "children": stat and stat.num_children,
        "owner": stat and render.session(stat.ephemeral_owner),
        "denied": branch.is_denied,
        "hidden": branch.hidden,
    }
    if with_data:
        nothing = {"encoding": None, "data": None}
        about |= nothing if branch.data is None else render.data_as_json(branch.data)
    return about


def _drawn(top: Branch) -> Iterator[str]:
    tee, corner, bar = ("├── ", "└── ", "│   ") if can_show("├└│─") else ("|-- ", "`-- ", "|   ")
    left: list[tuple[Branch | int, str, str]] = [(top, "", "")]
    while left:
        branch, before, indent = left.pop()
        if isinstance(branch, int):
            yield f"{before}({branch:,} more)"
            continue
        yield before + _text(branch)
        below: list[Branch | int] = [*branch.children]
        if branch.hidden:
            below.append(branch.hidden)
        for n, child in reversed(list(enumerate(below))):
            is_last = n == len(below) - 1
            before_it, below_it = (corner, "    ") if is_last else (tee, bar)
            left.append((child, indent + before_it, indent + below_it))


def _text(branch: Branch) -> str:
    text = render.escaped(branch.name)
    if branch.stat is not None and branch.stat.ephemeral_owner:
        text += f"  (ephemeral, of {render.hexadecimal(branch.stat.ephemeral_owner)})"
    if branch.is_denied:
        text += "  (not allowed to list its children)"
    if branch.data:
        text += f"  = {render.preview(branch.data)}"
    return text
