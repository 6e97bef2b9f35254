"""`aiolead tree`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any

from cyclopts import Parameter

from .. import Client
from ..errors import ConfigurationError, NoAuthError, NoNodeError
from ..model import Stat
from ..paths import join, validate
from . import exits, shown
from .options import COMMON, Common, Flag
from .output import can_show, write_json, write_line
from .recognize import can_be_asked_for

__all__ = ["tree"]

AT_ONCE = 128
"""How many znodes are asked for in one go."""


@dataclass(slots=True, eq=False)
class Branch:
    """A znode with what is below it.

    Attributes:
        path: where it is.
        name: what it is called there.
        depth: how far below the top.
        stat: what the servers know about it; None if it may not be read, or is gone.
        data: its data; None if they were not asked for, or may not be read.
        is_denied: whether its children may not be listed.
        hidden: how many of its children were left out; None if that is not known.
        children: the others, in the order of their names.
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
    path: str = "/",
    /,
    *,
    depth: Annotated[int | None, Parameter(alias="-L")] = None,
    data: Annotated[Flag, Parameter(alias="-d")] = False,
    limit: int = 10_000,
    common: Common = COMMON,
) -> int:
    """Show a znode with everything below it.

    What may not be listed is said, and what was left out. With --json, one object per znode, from
    the top: path, depth, children (how many; null if not known), owner (null if it is no ephemeral
    one), denied (whether its children may not be listed), hidden (how many of them were left out;
    null if not known), and with --data encoding and data (null if they may not be read). From
    ZooKeeper 3.8.4 and 3.9.2 on, servers say neither owner nor children of what may not be read.

    Args:
        path: The top.
        depth: How many levels to show below it.
        data: Show the data, too.
        limit: How many znodes to show.
        common: Where to connect.
    """
    validate(path)
    for name, value in (("--depth", depth), ("--limit", limit)):
        if value is not None and value < 1:
            raise ConfigurationError(f"{name}: must be 1 or more, not {value}")

    async def work(client: Client) -> int:
        top = Branch(path, path, 0)
        client.sync(path)
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
        return exits.OK

    return common.with_client(work)


async def _grow(
    client: Client, top: Branch, depth: int | None, limit: int, *, with_data: bool
) -> None:
    """Reads a tree, level by level, so that a limit leaves out what is deepest."""
    level, room = [top], limit - 1
    while level:
        below: list[Branch] = []
        for begin in range(0, len(level), AT_ONCE):
            group = level[begin : begin + AT_ONCE]
            is_last = depth is not None and group[0].depth >= depth
            for branch, names in await _look(client, group, is_last=is_last, with_data=with_data):
                shown_names = names[: max(0, room)]
                room -= len(shown_names)
                if len(shown_names) < len(names):
                    branch.hidden = len(names) - len(shown_names)
                branch.children = [
                    Branch(join(branch.path, name), name, branch.depth + 1) for name in shown_names
                ]
                below += branch.children
        level = below


async def _look(
    client: Client, group: list[Branch], *, is_last: bool, with_data: bool
) -> list[tuple[Branch, list[str]]]:
    """Asks for some znodes at once; returns them with the names of their children."""
    for branch in group:
        if not can_be_asked_for(branch.path):
            branch.hidden = None
    asked = [
        (
            branch,
            client.exists(branch.path),
            None if is_last else client.get_children(branch.path),
            client.get(branch.path) if with_data else None,
        )
        for branch in group
        if can_be_asked_for(branch.path)
    ]
    found: list[tuple[Branch, list[str]]] = []
    for branch, stat, listing, content in asked:
        names: list[str] = []
        unknown: int | None = 0
        try:
            branch.stat = await stat
        except NoAuthError:
            unknown = None
        if listing is None:
            branch.hidden = branch.stat.num_children if branch.stat else unknown
        else:
            try:
                names = sorted(await listing)
            except NoAuthError:
                branch.is_denied = True
                branch.hidden = branch.stat.num_children if branch.stat else unknown
            except NoNodeError:
                branch.stat = None
        if content is not None:
            try:
                branch.data, _ = await content
            except (NoAuthError, NoNodeError):
                branch.data = None
        found.append((branch, names))
    return found


def _all(top: Branch) -> Iterator[Branch]:
    """Everything, from the top."""
    left = [top]
    while left:
        branch = left.pop()
        yield branch
        left += reversed(branch.children)


def _as_json(branch: Branch, *, with_data: bool) -> dict[str, Any]:
    stat = branch.stat
    said: dict[str, Any] = {
        "path": branch.path,
        "depth": branch.depth,
        "children": stat and stat.num_children,
        "owner": shown.hexadecimal(stat.ephemeral_owner) if stat and stat.ephemeral_owner else None,
        "denied": branch.is_denied,
        "hidden": branch.hidden,
    }
    if with_data:
        nothing = {"encoding": None, "data": None}
        said |= nothing if branch.data is None else shown.data_as_json(branch.data)
    return said


def _drawn(top: Branch) -> Iterator[str]:
    """The lines of a drawing."""
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
    text = shown.escaped(branch.name)
    if branch.stat is not None and branch.stat.ephemeral_owner:
        text += f"  (ephemeral, of {shown.hexadecimal(branch.stat.ephemeral_owner)})"
    if branch.is_denied:
        text += "  (not allowed to list its children)"
    if branch.data:
        text += f"  = {shown.preview(branch.data)}"
    return text
