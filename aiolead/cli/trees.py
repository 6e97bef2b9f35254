"""Commands on whole trees: `aiolead tree`, `find`, `grep`, `cp`, `export` and `import`."""

from __future__ import annotations

import re
import sys
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Sequence,
)
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import IO, Annotated, Any, TypeVar

from cyclopts import Parameter

from .. import Client
from .._util import parsing
from .._util.parsing import MalformedError
from ..errors import (
    AioleadError,
    ConfigurationError,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    UnimplementedError,
)
from ..model import ACL, Permission, Stat
from ..paths import basename, join, parent, validate
from . import exits, render
from .batches import AT_ONCE, MOST, Denied, read_each, sync_before, walk
from .exits import CommandError
from .options import COMMON, Common, Flag, Positive, ZnodePath, reading
from .output import can_show, is_terminal, progress, write_json

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Entry:
    """A persistent znode of a tree; `path` is below the top of the tree, "/" for the top."""

    path: str
    data: bytes
    acl: list[ACL]


def find(
    path: ZnodePath = "/",
    /,
    *,
    name: str = "*",
    ephemeral: Flag = False,
    limit: Positive = MOST,
    common: Common = COMMON,
) -> int:
    """Print the paths of a znode and of all below it. `ls -R` is the same without conditions.

    With --json, one object per znode: path, and what `stat` says.

    Args:
        path: The top.
        name: Only those whose last name matches this pattern of a shell, such as 'lock-*'.
        ephemeral: Only ephemeral ones.
        limit: How many znodes to read.
        common: Where to connect.
    """

    async def work(client: Client) -> None:
        async for each, stat, _ in walk(client, path, limit):
            if ephemeral and not (stat is not None and stat.ephemeral_owner):
                continue
            if fnmatchcase(basename(each), name):
                common.show({"path": each, **render.stat_as_json(stat)}, each)

    return common.with_client(work)


def grep(
    pattern: str,
    path: ZnodePath = "/",
    /,
    *,
    ignore_case: Annotated[Flag, Parameter(alias="-i")] = False,
    names: Annotated[Flag, Parameter(alias="-l")] = False,
    limit: Positive = MOST,
    common: Common = COMMON,
) -> int:
    """Print the lines of data that match a regular expression, each after its znode's path.

    Exits with 1 if none matches. With --json, one object per line: path, line.

    Args:
        pattern: The expression, as Python has them.
        path: The top.
        ignore_case: Upper and lower case are the same.
        names: Print the paths alone, each once.
        limit: How many znodes to read.
        common: Where to connect.
    """
    try:
        expression = re.compile(pattern, re.IGNORECASE if ignore_case else 0)
    except re.error as error:
        raise ConfigurationError(f"PATTERN: {error}") from None

    async def work(client: Client) -> int:
        code = exits.FAILED
        async for each, _, [found] in walk(client, path, limit, lambda each: [client.get(each)]):
            lines = parsing.lossy_text(found[0]).splitlines() if isinstance(found, tuple) else ()
            for line in filter(expression.search, lines):
                code = exits.OK
                if names:
                    common.show({"path": each}, each)
                    break
                common.show({"path": each, "line": line}, f"{each}: {line}")
        return code

    return common.with_client(work)


def cp(
    source: ZnodePath,
    target: ZnodePath,
    /,
    *,
    recursive: Annotated[Flag, Parameter(alias="-r")] = False,
    limit: Positive = MOST,
    common: Common = COMMON,
) -> int:
    """Copy a znode with its data and ACL, not atomically; ephemeral znodes are left out.

    With --json, an object: path, created, existing (how many of them).

    Args:
        source: The znode.
        target: The path of the copy. Znodes that exist there stay as they are.
        recursive: Copy everything below it as well.
        limit: How many znodes to copy.
        common: Where to connect.
    """
    if recursive and f"{target}/".startswith(f"{source.rstrip('/')}/"):
        raise ConfigurationError(f"{target}: must not be below {source}")

    async def work(client: Client) -> None:
        await client.ensure_path(parent(target))
        entries = _entries(client, source, limit) if recursive else _single(client, source)
        copy = _Target(client, target)
        async for batch in _batches(entries):
            await copy.create(batch)
        copy.report(common)

    return common.with_client(work)


def export(
    path: ZnodePath = "/",
    /,
    *,
    file: Annotated[Path | None, Parameter(alias="-f")] = None,
    resume: Flag = False,
    limit: Positive = MOST,
    common: Common = COMMON,
) -> int:
    """Write a tree, without ephemeral znodes, as JSON lines for `aiolead import`.

    One object per znode, parents first: path (below the top), encoding (utf-8 or base64), data, and
    acl. The hashes of passwords in ACLs are included. Znodes that change meanwhile may be of
    different times.

    Args:
        path: The top.
        file: Write to this file instead of standard output.
        resume: Keep the znodes that the file has from an export that was interrupted.
        limit: How many znodes to write.
        common: Where to connect.
    """
    if resume and file is None:
        raise ConfigurationError("--resume: needs --file")

    async def work(client: Client) -> None:
        with ExitStack() as stack:
            done: set[str] = set()
            output: IO[bytes] | None = None
            if file is not None:
                begun = resume and file.exists()
                with reading("--file", file):
                    output = stack.enter_context(file.open("r+b" if begun else "wb"))
                done = _continue(output, file) if begun else done
            reporter = common.reporter
            if output is None and is_terminal():
                reporter = replace(reporter, quiet=True)  # no bar among the results
            size = await _size(client, path) if reporter.shows_progress else None
            advance = stack.enter_context(progress(reporter, "exported", size))
            count = 0
            async for entry in _entries(client, path, limit, done, advance):
                count += 1
                line = _as_json(entry)
                if output is None:
                    write_json(line)
                else:
                    output.write(render.as_json(line).encode() + b"\n")
        more = f", after {len(done):,} in the file" if done else ""
        common.reporter.state(f"exported {render.plural(count, 'znode')}{more}")

    return common.with_client(work)


def import_(
    path: ZnodePath = "/",
    /,
    *,
    file: Annotated[Path | None, Parameter(alias="-f")] = None,
    common: Common = COMMON,
) -> int:
    """Create the znodes that `aiolead export` has written, with their data and ACLs.

    Existing znodes stay as they are, so an import that was interrupted may be repeated.

    With --json, an object: path, created, existing (how many of them).

    Args:
        path: Where to create the top of the tree.
        file: Read this file instead of standard input.
        common: Where to connect.
    """

    async def work(client: Client) -> None:
        await client.ensure_path(parent(path))
        with ExitStack() as stack:
            source: IO[bytes] = sys.stdin.buffer
            size = None
            if file is not None:
                with reading("--file", file):
                    source = stack.enter_context(file.open("rb"))
                    size = file.stat().st_size
            advance = stack.enter_context(progress(common.reporter, "bytes read", size))
            target = _Target(client, path)
            async for batch in _batches(_parsed(source, advance)):
                await target.create(batch)
        target.report(common)

    return common.with_client(work)


# --- reading and writing -------------------------------------------------------------------------


async def _batches(items: AsyncIterator[T]) -> AsyncIterator[list[T]]:
    batch: list[T] = []
    async for item in items:
        batch.append(item)
        if len(batch) == AT_ONCE:
            yield batch
            batch = []
    yield batch


async def _size(client: Client, path: str) -> int | None:
    """How many znodes a tree has, for a progress bar; None if the servers do not say."""
    try:
        return await client.get_all_children_number(path) + 1
    except UnimplementedError:
        return None


async def _single(client: Client, path: str) -> AsyncIterator[Entry]:
    sync_before(client, path)
    data, _ = await client.get(path)
    entries, _ = await client.get_acl(path)
    yield Entry("/", data, entries)


async def _entries(
    client: Client,
    top: str,
    limit: int,
    done: Collection[str] = (),
    advance: Callable[[int], None] = lambda _: None,
) -> AsyncIterator[Entry]:
    """The persistent znodes of a tree, except those that are done, parents first."""

    def read(path: str) -> Sequence[Awaitable[Any]]:
        if _below(top, path) in done:
            return [client.get_children_and_stat(path)]
        return [client.get(path), client.get_acl(path)]

    async for path, stat, found in walk(client, top, limit, read):
        if stat is None or any(isinstance(each, Denied) for each in found):
            raise CommandError(f"not allowed to read {path}", exits.REFUSED)
        match found:
            case [(data, _), (entries, _)] if not stat.ephemeral_owner:
                yield Entry(_below(top, path), data, entries)
        advance(1)


def _below(top: str, path: str) -> str:
    return path.removeprefix(top.rstrip("/")) or "/"


class _Target:
    """Creates the znodes of a tree below a path, and counts those that existed.

    A copy that was interrupted is repeated from its beginning. Reads find what exists: they are for
    one server alone, while a create that is refused is a transaction of the ensemble.
    """

    def __init__(self, client: Client, top: str) -> None:
        self._client = client
        self._top = top
        self._looks_first = True
        self.created = 0
        self.existing = 0

    async def create(self, entries: Iterable[Entry]) -> None:
        """Create some znodes, parents before their children, with all requests under way."""
        wanted = {(self._top.rstrip("/") + each.path).rstrip("/") or "/": each for each in entries}
        known: set[str] = {"/"} & wanted.keys()  # which exists always
        if self._looks_first:
            async for path, found in read_each([*wanted], self._client.exists):
                if isinstance(found, Stat):
                    known.add(path)
        asked = [
            self._client.create(path, each.data, acl=each.acl)
            for path, each in wanted.items()
            if path not in known
        ]
        existing, failures = len(known), list[AioleadError]()
        for reply in asked:
            try:
                await reply
            except NodeExistsError:
                existing += 1
            except AioleadError as error:
                failures.append(error)
        if failures:
            raise failures[0]
        self._looks_first = existing > 0
        self.created += len(wanted) - existing
        self.existing += existing

    def report(self, common: Common) -> None:
        created, existing = self.created, self.existing
        common.show({"path": self._top, "created": created, "existing": existing})
        kept = f"; {existing:,} existed, and stay as they are" if existing else ""
        common.note(f"created {render.plural(created, 'znode')}{kept}")


def _as_json(entry: Entry) -> dict[str, Any]:
    acl = [[each.permissions.value, each.scheme, each.id] for each in entry.acl]
    return {"path": entry.path, **render.data_as_json(entry.data), "acl": acl}


async def _parsed(lines: Iterable[bytes], advance: Callable[[int], None]) -> AsyncIterator[Entry]:
    for numbered in enumerate(lines, start=1):
        yield _parse(numbered)
        advance(len(numbered[1]))


def _parse(numbered: tuple[int, bytes]) -> Entry:
    """A line of an export."""
    number, line = numbered
    try:
        match parsing.json_object(line):
            case {"path": str(path), "encoding": str(encoding), "data": str(data), "acl": [*acl]}:
                validate(path)
                content = parsing.base64_data(data) if encoding == "base64" else data.encode()
                return Entry(path, content, [_parse_entry(each) for each in acl])
        why = "must have path, encoding, data and acl"
    except (MalformedError, ConfigurationError, UnicodeEncodeError) as error:
        why = str(error)
        if not line.endswith(b"\n"):
            why = "the export was interrupted there: aiolead export --resume completes it"
    raise CommandError(f"line {number} is not of an export: {why}", exits.FAILED)


def _parse_entry(entry: object) -> ACL:
    match entry:
        case [int(bits), str(scheme), str(id_)] if 0 <= bits <= Permission.ALL:
            return ACL(Permission(bits), scheme, id_)
    raise MalformedError("an entry of acl must be permissions, scheme and id")


def _continue(output: IO[bytes], file: Path) -> set[str]:
    """The paths that an export has; the file is cut after its last whole line."""
    done: set[str] = set()
    end = number = 0
    for number, line in enumerate(output, start=1):
        if not line.endswith(b"\n"):
            break
        done.add(_parse((number, line)).path)
        end += len(line)
    output.seek(end)
    output.truncate()
    if number and not done:
        raise CommandError(f"--resume: {file} has no whole line", exits.FAILED)
    return done


# --- a picture of a tree ------------------------------------------------------------------------


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
    depth: Annotated[Positive | None, Parameter(alias="-L")] = None,
    data: Annotated[Flag, Parameter(alias="-d")] = False,
    limit: Positive = 10_000,
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

    async def work(client: Client) -> None:
        top = Branch(path, path, 0)
        sync_before(client, path)
        try:
            if await client.exists(path) is None:
                raise NoNodeError(path)
        except NoAuthError:
            pass  # it is there
        await _grow(client, top, depth, limit, with_data=data)
        objects = (_branch_as_json(branch, with_data=data) for branch in _all(top))
        common.show_all(objects, _drawn(top))

    return common.with_client(work)


async def _grow(
    client: Client, top: Branch, depth: int | None, limit: int, *, with_data: bool
) -> None:
    """Read a tree level by level, so that the limit leaves out the deepest znodes."""
    level, room = [top], limit - 1
    while level:
        for branch, stat in await _each(level, client.exists):
            branch.stat = stat if isinstance(stat, Stat) else None
            branch.hidden = None if isinstance(stat, Denied) else stat.num_children if stat else 0
        if with_data:
            for branch, content in await _each(level, client.get):
                branch.data = content[0] if isinstance(content, tuple) else None
        if level[0].depth == depth:
            return
        below: list[Branch] = []
        for branch, names in await _each(level, client.get_children):
            branch.is_denied = isinstance(names, Denied)
            if names is None:
                branch.stat, branch.hidden = None, 0
            elif not isinstance(names, Denied):
                shown = sorted(names)[: max(0, room)]
                room -= len(shown)
                branch.hidden = len(names) - len(shown)
                branch.children = [
                    Branch(join(branch.path, name), name, branch.depth + 1) for name in shown
                ]
                below += branch.children
        level = below


async def _each(
    level: Sequence[Branch], read: Callable[[str], Awaitable[T]]
) -> list[tuple[Branch, T | Denied | None]]:
    """Some branches, each with what was read there: see `read_each`."""
    found = [one async for _, one in read_each([branch.path for branch in level], read)]
    return list(zip(level, found, strict=True))


def _all(top: Branch) -> Iterator[Branch]:
    left = [top]
    while left:
        branch = left.pop()
        yield branch
        left += reversed(branch.children)


def _branch_as_json(branch: Branch, *, with_data: bool) -> dict[str, Any]:
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
