"""`aiolead ls`, `get`, `stat`, `set`, `create` and `rm`: one znode, or a few."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from .. import Client, CreateMode, _parsing
from ..errors import ConfigurationError, NoAuthError, NoNodeError
from ..model import Created, EventType, Stat
from ..paths import basename, join, parent, validate
from . import exits, shown
from .acl_text import parse_entries
from .options import COMMON, Common, Flag, Seconds
from .output import is_terminal, table, write_bytes, write_json, write_line
from .recognize import can_be_asked_for

__all__ = ["create", "get", "ls", "rm", "set", "stat"]

AT_ONCE = 256
"""How many znodes are asked for in one go."""


def ls(
    path: str = "/",
    /,
    *,
    long: Annotated[Flag, Parameter(alias="-l")] = False,
    common: Common = COMMON,
) -> int:
    """List the children of a znode.

    With --json, one object per child: name, path, and with --long what `stat` says. Where the
    servers do not say it (see `stat`), that is null, and without --json a question mark.

    Args:
        path: The znode.
        long: Show owner, version, bytes, children and time of each as well.
        common: Where to connect.
    """
    validate(path)

    async def work(client: Client) -> int:
        client.sync(path)
        names = sorted(await client.get_children(path))
        if not long:
            for name in names:
                if common.as_json:
                    write_json({"name": name, "path": join(path, name)})
                else:
                    write_line(shown.escaped(name))
            return exits.OK
        found = await _stats(client, path, names)
        if common.as_json:
            for name, stat in found:
                about = shown.stat_as_json(stat)
                write_json({"name": name, "path": join(path, name), **about})
        elif found:
            for line in table(_HEADINGS, [_row(*each) for each in found], right=_HEADINGS[1:4]):
                write_line(line)
        return exits.OK

    return common.with_client(work)


async def _stats(client: Client, path: str, names: list[str]) -> list[tuple[str, Stat | None]]:
    """Of those that are there still; None of those that may not be read, on newer servers, and of
    those that no path can name.
    """
    found: list[tuple[str, Stat | None]] = []
    for begin in range(0, len(names), AT_ONCE):
        some = [(name, join(path, name)) for name in names[begin : begin + AT_ONCE]]
        asked = [
            (name, client.exists(where) if can_be_asked_for(where) else None)
            for name, where in some
        ]
        for name, reply in asked:
            if reply is None:
                found.append((name, None))
                continue
            try:
                if (stat := await reply) is not None:
                    found.append((name, stat))
            except NoAuthError:
                found.append((name, None))
    return found


_HEADINGS = ("owner", "version", "bytes", "children", "changed", "name")


def _row(name: str, stat: Stat | None) -> list[str]:
    if stat is None:
        return [*("?" for _ in _HEADINGS[:-1]), shown.escaped(name)]
    owner = shown.hexadecimal(stat.ephemeral_owner) if stat.ephemeral_owner else "-"
    numbers = [str(stat.version), str(stat.data_length), str(stat.num_children)]
    return [owner, *numbers, shown.moment(stat.mtime), shown.escaped(name)]


def get(
    path: str,
    /,
    *,
    raw: Flag = False,
    hex: Flag = False,  # noqa: A002 - the name of the option
    limit: int = 4096,
    common: Common = COMMON,
) -> int:
    """Print the data of a znode.

    In a pipe or a file, they are what they are, byte by byte. On a terminal, text is shown with its
    control characters escaped, anything else in hexadecimal, up to --limit.

    With --json: path, encoding (utf-8 or base64), data, and what `stat` says.

    Args:
        path: The znode.
        raw: Write them as they are, on a terminal, too.
        hex: Show them in hexadecimal.
        limit: How many bytes to show on a terminal, or in hexadecimal.
        common: Where to connect.
    """
    validate(path)
    if raw and hex:
        raise ConfigurationError("--raw, --hex: one or the other")
    if limit < 1:
        raise ConfigurationError(f"--limit: must be 1 or more, not {limit}")

    async def work(client: Client) -> int:
        client.sync(path)
        data, stat = await client.get(path)
        if common.as_json:
            write_json({"path": path, **shown.data_as_json(data), **shown.stat_as_json(stat)})
        elif raw or not (hex or is_terminal()):
            write_bytes(data)
        else:
            _show(data, limit, as_text=not hex and shown.text_of(data) is not None)
            if len(data) > limit:
                common.reporter.state(
                    f"these are the first {limit:,} of {shown.plural(len(data), 'byte')} (--limit)"
                )
        return exits.OK

    return common.with_client(work)


def _show(data: bytes, limit: int, *, as_text: bool) -> None:
    """Shows the beginning: so many bytes, or characters that have no more."""
    if as_text:
        while limit < len(data) and data[limit] & 0xC0 == 0x80:
            limit -= 1  # it would cut a character into two
        write_line(_parsing.text(data[:limit]), keep="\n\t")
        return
    for line in shown.hex_dump(data[:limit]):
        write_line(line)


def stat(path: str, /, *, common: Common = COMMON) -> int:
    """Print what the servers know about a znode, beside its data.

    Needs READ from ZooKeeper 3.8.4 and 3.9.2 on, and before that no permission.

    With --json, an object: path, czxid, mzxid, pzxid, ctime, mtime, version, cversion, aversion,
    ephemeral_owner (null if it is no ephemeral one), data_length, num_children.

    Args:
        path: The znode.
        common: Where to connect.
    """
    validate(path)

    async def work(client: Client) -> int:
        client.sync(path)
        found = await client.exists(path)
        if found is None:
            raise NoNodeError(path)
        if common.as_json:
            write_json({"path": path, **shown.stat_as_json(found)})
        else:
            for name, value in _described(path, found):
                write_line(f"{name + ':':<10}{value}")
        return exits.OK

    return common.with_client(work)


def _described(path: str, stat: Stat) -> list[tuple[str, str]]:
    owner = stat.ephemeral_owner
    return [
        ("path", shown.escaped(path)),
        ("kind", f"ephemeral, of session {shown.hexadecimal(owner)}" if owner else "persistent"),
        ("data", f"{shown.plural(stat.data_length, 'byte')}, version {stat.version}"),
        ("children", f"{stat.num_children:,}, version {stat.cversion}"),
        ("acl", f"version {stat.aversion}"),
        ("created", _when(stat.ctime, stat.czxid)),
        ("changed", _when(stat.mtime, stat.mzxid)),
    ]


def _when(milliseconds: int, zxid: int) -> str:
    ago = shown.age(milliseconds)
    return f"{shown.moment(milliseconds)}, {ago} ago, zxid {shown.hexadecimal(zxid)}"


def set(  # noqa: A001 - the name of the command
    path: str,
    data: str | None = None,
    /,
    *,
    file: Annotated[Path | None, Parameter(alias="-f", allow_leading_hyphen=True)] = None,
    version: int = -1,
    common: Common = COMMON,
) -> int:
    """Replace the data of a znode.

    With --json, what `stat` says of it now.

    Args:
        path: The znode.
        data: The data, in UTF-8.
        file: Read the data from this file; from standard input if it is -.
        version: Only if the data have this version.
        common: Where to connect.
    """
    validate(path)
    content = _content(data, file)
    if content is None:
        raise ConfigurationError("no data were given: DATA, or --file (- for standard input)")

    async def work(client: Client) -> int:
        now = await client.set(path, content, version=version)
        if common.as_json:
            write_json({"path": path, **shown.stat_as_json(now)})
        else:
            common.reporter.state(f"{path} has version {now.version}")
        return exits.OK

    return common.with_client(work)


def create(
    path: str,
    data: str | None = None,
    /,
    *,
    file: Annotated[Path | None, Parameter(alias="-f", allow_leading_hyphen=True)] = None,
    ephemeral: Annotated[Flag, Parameter(alias="-e")] = False,
    sequential: Annotated[Flag, Parameter(alias="-s")] = False,
    container: Flag = False,
    ttl: Seconds | None = None,
    parents: Annotated[Flag, Parameter(alias="-p")] = False,
    acl: Annotated[list[str] | None, Parameter(negative="", show_default=False)] = None,
    common: Common = COMMON,
) -> int:
    """Create a znode, and print its path.

    An ephemeral one is there as long as this command runs, that is, until SIGINT or SIGTERM; if the
    servers delete it before, the exit code is 74.

    With --json, an object: path, and what `stat` says.

    Args:
        path: The znode.
        data: The data, in UTF-8.
        file: Read the data from this file; from standard input if it is -.
        ephemeral: It vanishes with our session.
        sequential: The servers append a number of ten digits.
        container: The servers delete it when its last child has gone.
        ttl: The servers delete it if it has no children and was not changed for so many seconds.
        parents: Create what is missing above it.
        acl: Who may do what, as `aiolead acl` shows it. May be given several times.
        common: Where to connect.
    """
    validate(path)
    content = _content(data, file) or b""
    mode = _mode(ephemeral, sequential, container, ttl is not None)
    entries = parse_entries(acl, name="--acl") if acl else None

    async def work(client: Client) -> int:
        if parents:
            await client.ensure_path(parent(path))
        created = await client.create(path, content, mode=mode, acl=entries, ttl=ttl)
        if common.as_json:
            write_json({"path": created.path, **shown.stat_as_json(created.stat)})
        else:
            write_line(shown.escaped(created.path))
        if ephemeral:
            await _until_gone(client, created)
            common.reporter.error(f"{created.path} is gone, although we did not delete it")
            return exits.LOST
        return exits.OK

    return common.with_client(work, endless=ephemeral)


async def _until_gone(client: Client, created: Created) -> None:
    """Returns when an ephemeral znode of ours is gone."""
    event = None
    while event not in (EventType.DELETED, EventType.NONE):
        watch = client.make_watch()
        try:
            _, found = await client.get(created.path, watch=watch)
            if found.czxid != created.stat.czxid:
                return
        except NoNodeError:
            return
        except NoAuthError:
            # Some servers would withhold its events; not those of the list that it is in.
            watch = client.make_watch()
            names = await client.get_children(parent(created.path), watch=watch)
            if basename(created.path) not in names:
                return
        event = (await watch.wait()).type


def _mode(ephemeral: bool, sequential: bool, container: bool, has_ttl: bool) -> CreateMode:
    match ephemeral, sequential, container, has_ttl:
        case False, False, False, False:
            return CreateMode.PERSISTENT
        case False, True, False, False:
            return CreateMode.PERSISTENT_SEQUENTIAL
        case True, False, False, False:
            return CreateMode.EPHEMERAL
        case True, True, False, False:
            return CreateMode.EPHEMERAL_SEQUENTIAL
        case False, False, True, False:
            return CreateMode.CONTAINER
        case False, False, False, True:
            return CreateMode.PERSISTENT_WITH_TTL
        case False, True, False, True:
            return CreateMode.PERSISTENT_SEQUENTIAL_WITH_TTL
    raise ConfigurationError(
        "--ephemeral, --container, --ttl: one of them; and a container has no --sequential"
    )


def _content(data: str | None, file: Path | None) -> bytes | None:
    """The data for a znode; None if none were given.

    Raises:
        ConfigurationError: they were given twice, or cannot be read.
    """
    if file is None:
        # Bytes of the command line that are no UTF-8 are given to us as surrogates.
        return None if data is None else data.encode(errors="surrogateescape")
    if data is not None:
        raise ConfigurationError("DATA, --file: one or the other")
    if str(file) == "-" and sys.stdin is None:
        raise ConfigurationError("--file: standard input is closed")
    try:
        return sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise ConfigurationError(f"--file: cannot read {file}: {why}") from None


def rm(
    path: str,
    /,
    *,
    recursive: Annotated[Flag, Parameter(alias="-r")] = False,
    force: Annotated[Flag, Parameter(alias="-f")] = False,
    version: int = -1,
    common: Common = COMMON,
) -> int:
    """Delete a znode.

    With --json, an object: path, and deleted, the number of znodes that were.

    Args:
        path: The znode.
        recursive: Delete everything below it as well; not as one transaction.
        force: Be content if there is no such znode.
        version: Only if the data have this version.
        common: Where to connect.
    """
    validate(path)
    if recursive and version != -1:
        raise ConfigurationError("--recursive, --version: one or the other")

    async def work(client: Client) -> int:
        deleted = 0
        try:
            if recursive:
                deleted = await client.delete_all(path)
                if not deleted and path != "/":
                    raise NoNodeError(path)
            else:
                await client.delete(path, version=version)
                deleted = 1
        except NoNodeError:
            if not force:
                raise
        if common.as_json:
            write_json({"path": path, "deleted": deleted})
        else:
            common.reporter.state(f"deleted {shown.plural(deleted, 'znode')}")
        return exits.OK

    return common.with_client(work)
