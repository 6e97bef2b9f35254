"""`aiolead ls`, `get`, `stat`, `set`, `create`, `rm`, `watch` and `acl`: one znode, or a few."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

import aiolead

from .. import Client, CreateMode
from .._util import parsing
from .._util.parsing import MalformedError
from ..errors import ConfigurationError, NoAuthError, NoNodeError
from ..model import ACL, Created, EventType, Missed, Permission, Stat, WatchEvent
from ..paths import basename, join, parent
from . import exits, render
from .batches import Denied, read_each, sync_before
from .options import (
    COMMON,
    Common,
    Flag,
    Positive,
    Seconds,
    ZnodePath,
    check_one_of,
    reading,
    within,
)
from .output import is_terminal, write_bytes, write_json, write_line


def ls(
    path: ZnodePath = "/",
    /,
    *,
    long: Annotated[Flag, Parameter(alias="-l")] = False,
    recursive: Annotated[Flag, Parameter(alias="-R")] = False,
    common: Common = COMMON,
) -> int:
    """List the children of a znode.

    With --json, one object per child: name, path, and with --long what `stat` says. Where the
    servers do not say it (see `stat`), that is null, and without --json a question mark.

    Args:
        path: The znode.
        long: Show owner, version, bytes, children and time of each as well.
        recursive: Print the paths of the znode and of all below it, as `aiolead find`.
        common: Where to connect.
    """
    check_one_of(long=long, recursive=recursive)
    if recursive:
        from .trees import find

        return find(path, common=common)

    async def work(client: Client) -> None:
        sync_before(client, path)
        names = sorted(await client.get_children(path))
        if not long:
            for name in names:
                common.show({"name": name, "path": join(path, name)}, name)
            return
        paths = [join(path, name) for name in names]
        stats = [stat async for _, stat in read_each(paths, client.exists)]
        found = [
            (name, None if isinstance(stat, Denied) else stat)
            for name, stat in zip(names, stats, strict=True)
            if stat is not None
        ]
        objects = [
            {"name": name, "path": join(path, name), **render.stat_as_json(stat)}
            for name, stat in found
        ]
        rows = [_row(*each) for each in found]
        common.show_table(objects, _HEADINGS, rows, right=_HEADINGS[1:4])

    return common.with_client(work)


_HEADINGS = ("owner", "version", "bytes", "children", "changed", "name")


def _row(name: str, stat: Stat | None) -> list[str]:
    if stat is None:
        return [*("?" for _ in _HEADINGS[:-1]), render.escaped(name)]
    owner = render.hexadecimal(stat.ephemeral_owner) if stat.ephemeral_owner else "-"
    numbers = [str(stat.version), str(stat.data_length), str(stat.num_children)]
    return [owner, *numbers, render.moment(stat.mtime), render.escaped(name)]


def get(
    path: ZnodePath,
    /,
    *,
    raw: Flag = False,
    hex: Flag = False,  # noqa: A002 - the name of the option
    limit: Positive = 4096,
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
    check_one_of(raw=raw, hex=hex)

    async def work(client: Client) -> None:
        sync_before(client, path)
        data, stat = await client.get(path)
        if common.as_json:
            write_json({"path": path, **render.data_as_json(data), **render.stat_as_json(stat)})
        elif raw or not (hex or is_terminal()):
            write_bytes(data)
        else:
            _show(data, limit, as_text=not hex and render.text_of(data) is not None)
            if len(data) > limit:
                common.reporter.state(
                    f"these are the first {limit:,} of {render.plural(len(data), 'byte')} (--limit)"
                )

    return common.with_client(work)


def _show(data: bytes, limit: int, *, as_text: bool) -> None:
    """Show the beginning: `limit` bytes, or the characters that fit into them."""
    if as_text:
        while limit < len(data) and data[limit] & 0xC0 == 0x80:
            limit -= 1  # do not cut a character into two
        write_line(parsing.text(data[:limit]), keep="\n\t")
        return
    for line in render.hex_dump(data[:limit]):
        write_line(line)


def stat(path: ZnodePath, /, *, common: Common = COMMON) -> int:
    """Print what the servers know about a znode, beside its data.

    Needs READ from ZooKeeper 3.8.4 and 3.9.2 on, and before that no permission.

    With --json, an object: path, czxid, mzxid, pzxid, ctime, mtime, version, cversion, aversion,
    ephemeral_owner (null if it is no ephemeral one), data_length, num_children.

    Args:
        path: The znode.
        common: Where to connect.
    """

    async def work(client: Client) -> None:
        sync_before(client, path)
        found = await client.exists(path)
        if found is None:
            raise NoNodeError(path)
        lines = (f"{name + ':':<10}{value}" for name, value in _described(path, found))
        common.show({"path": path, **render.stat_as_json(found)}, *lines)

    return common.with_client(work)


def _described(path: str, stat: Stat) -> list[tuple[str, str]]:
    owner = stat.ephemeral_owner
    return [
        ("path", render.escaped(path)),
        ("kind", f"ephemeral, of session {render.hexadecimal(owner)}" if owner else "persistent"),
        ("data", f"{render.plural(stat.data_length, 'byte')}, version {stat.version}"),
        ("children", f"{stat.num_children:,}, version {stat.cversion}"),
        ("acl", f"version {stat.aversion}"),
        ("created", _when(stat.ctime, stat.czxid)),
        ("changed", _when(stat.mtime, stat.mzxid)),
    ]


def _when(milliseconds: int, zxid: int) -> str:
    ago = render.age(milliseconds)
    return f"{render.moment(milliseconds)}, {ago} ago, zxid {render.hexadecimal(zxid)}"


def set_(
    path: ZnodePath,
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
    content = _content(data, file)
    if content is None:
        raise ConfigurationError("no data were given: DATA, or --file (- for standard input)")

    async def work(client: Client) -> None:
        now = await client.set(path, content, version=version)
        common.show({"path": path, **render.stat_as_json(now)})
        common.note(f"{path} has version {now.version}")

    return common.with_client(work)


def create(
    path: ZnodePath,
    data: str | None = None,
    /,
    *,
    file: Annotated[Path | None, Parameter(alias="-f", allow_leading_hyphen=True)] = None,
    ephemeral: Annotated[Flag, Parameter(alias="-e")] = False,
    sequential: Annotated[Flag, Parameter(alias="-s")] = False,
    container: Flag = False,
    ttl: Annotated[Seconds, within(0.001, unit=" seconds")] | None = None,
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
        acl: The ACL entries, as `aiolead acl` shows them. May be given several times.
        common: Where to connect.
    """
    content = _content(data, file) or b""
    mode = _MODES.get((ephemeral, sequential, container, ttl is not None))
    if mode is None:
        raise ConfigurationError(
            "--ephemeral, --container, --ttl: one of them; and a container has no --sequential"
        )
    entries = parse_entries(acl, name="--acl") if acl else None

    async def work(client: Client) -> int:
        if parents:
            await client.ensure_path(parent(path))
        created = await client.create(path, content, mode=mode, acl=entries, ttl=ttl)
        common.show({"path": created.path, **render.stat_as_json(created.stat)}, created.path)
        if not ephemeral:
            return exits.OK
        common.reporter.state(f"{created.path} exists until Ctrl-C: this command holds it")
        await _until_gone(client, created)
        common.reporter.error(f"{created.path} is gone, although we did not delete it")
        return exits.LOST

    return common.with_client(work, endless=ephemeral)


async def _until_gone(client: Client, created: Created) -> None:
    """Wait until an ephemeral znode of this session is gone."""
    event = None
    while event not in (EventType.DELETED, EventType.NONE):
        watch = client.backend.make_watch()
        try:
            _, found = await client.get(created.path, watch=watch)
            if found.czxid != created.stat.czxid:
                return
        except NoNodeError:
            return
        except NoAuthError:
            # Some servers withhold its events then, but not those of its parent's children.
            watch = client.backend.make_watch()
            names = await client.get_children(parent(created.path), watch=watch)
            if basename(created.path) not in names:
                return
        event = (await watch.wait()).type


_MODES = {
    # ephemeral, sequential, container, TTL
    (False, False, False, False): CreateMode.PERSISTENT,
    (False, True, False, False): CreateMode.PERSISTENT_SEQUENTIAL,
    (True, False, False, False): CreateMode.EPHEMERAL,
    (True, True, False, False): CreateMode.EPHEMERAL_SEQUENTIAL,
    (False, False, True, False): CreateMode.CONTAINER,
    (False, False, False, True): CreateMode.PERSISTENT_WITH_TTL,
    (False, True, False, True): CreateMode.PERSISTENT_SEQUENTIAL_WITH_TTL,
}


def _content(data: str | None, file: Path | None) -> bytes | None:
    """The data for a znode; None if none were given."""
    if file is None:
        # Python decodes bytes of the command line that are no UTF-8 to surrogates.
        return None if data is None else data.encode(errors="surrogateescape")
    if data is not None:
        raise ConfigurationError("DATA, --file: one or the other")
    if str(file) == "-" and sys.stdin is None:
        raise ConfigurationError("--file: standard input is closed")
    with reading("--file", file):
        return sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()


Force = Annotated[Flag, Parameter(alias="-f")]


def rm(
    path: ZnodePath,
    /,
    *,
    recursive: Annotated[Flag, Parameter(alias="-r")] = False,
    force: Force = False,
    version: int = -1,
    common: Common = COMMON,
) -> int:
    """Delete a znode.

    With --json, an object: path, and deleted, the number of znodes that were.

    Args:
        path: The znode.
        recursive: Delete everything below it as well; not as one transaction.
        force: Succeed also if there is no such znode.
        version: Only if the data have this version.
        common: Where to connect.
    """
    check_one_of(recursive=recursive, version=version != -1)

    async def work(client: Client) -> None:
        deleted = 0
        try:
            if recursive:
                deleted = await aiolead.admin.delete_all(client, path)
                if not deleted and path != "/":
                    raise NoNodeError(path)
            else:
                await client.delete(path, version=version)
                deleted = 1
        except NoNodeError:
            if not force:
                raise
        common.show({"path": path, "deleted": deleted})
        common.note(f"deleted {render.plural(deleted, 'znode')}")

    return common.with_client(work)


def deleteall(path: ZnodePath, /, *, force: Force = False, common: Common = COMMON) -> int:
    """Delete a znode and everything below it; not as one transaction. The same as `rm -r`.

    Args:
        path: The znode.
        force: Succeed also if there is no such znode.
        common: Where to connect.
    """
    return rm(path, recursive=True, force=force, common=common)


def watch(
    path: ZnodePath,
    /,
    *,
    recursive: Annotated[Flag, Parameter(alias="-r")] = False,
    count: Annotated[Positive | None, Parameter(alias="-n")] = None,
    common: Common = COMMON,
) -> int:
    """Print what happens to a znode, until SIGINT or SIGTERM.

    The znode need not exist. Where something may have been missed, that is printed. Needs servers
    of ZooKeeper 3.6.

    With --json: time (UTC), event (created, deleted, data changed, children changed, missed), path,
    zxid (null before ZooKeeper 3.9), reason (of what was missed, else null).

    Args:
        path: The znode.
        recursive: Watch everything below it, too; then there is an event for each child itself.
        count: End after so many events.
        common: Where to connect.
    """

    async def work(client: Client) -> None:
        left = count
        async with client.watch(path, recursive=recursive) as events:
            common.reporter.state(f"watches {path}")
            async for event in events:
                common.show(_event_as_json(event), _event_as_text(event))
                if left is not None:
                    left -= 1
                    if not left:
                        break

    return common.with_client(work, endless=True, followed=True)


def _event_as_json(event: WatchEvent | Missed) -> dict[str, Any]:
    about: dict[str, Any]
    if isinstance(event, Missed):
        about = {"event": "missed", "path": None, "zxid": None, "reason": event.reason.value}
    else:
        zxid = event.zxid if event.zxid > 0 else None
        about = {"event": _name(event), "path": event.path, "zxid": zxid, "reason": None}
    return {"time": render.now(), **about}


def _event_as_text(event: WatchEvent | Missed) -> str:
    if isinstance(event, Missed):
        return f"{render.now()}  some may be missing here: {event.reason.value}"
    return f"{render.now()}  {_name(event):<16}  {render.escaped(event.path)}"


def _name(event: WatchEvent) -> str:
    return event.type.name.lower().replace("_", " ")


# --- access control lists -----------------------------------------------------------------------

HIDDEN = "***"
"""Replaces the hash of a password."""

_LETTERS = {
    "c": Permission.CREATE,
    "d": Permission.DELETE,
    "r": Permission.READ,
    "w": Permission.WRITE,
    "a": Permission.ADMIN,
}


def acl(
    path: ZnodePath,
    /,
    *entry: str,
    version: int = -1,
    hashes: Flag = False,
    common: Common = COMMON,
) -> int:
    """Print who may do what with a znode, or set it.

    An entry is SCHEME:ID:PERMISSIONS, as zkCli.sh has it; permissions are some of the letters
    cdrwa: create, delete, read, write, administer. Such as world:anyone:r, and auth::cdrwa for
    the identities of this command itself, which needs --auth, --sasl or --tls-cert. HASH of digest
    is what `printf USER:PASSWORD | openssl sha1 -binary | base64` prints.

    With --json, an object: path, version, and acl, a list of scheme, id, permissions.

    Args:
        path: The znode.
        entry: The entries to set; they replace all existing ones.
        version: Only if the ACL has this version.
        hashes: Show the hashes of passwords, too.
        common: Where to connect.
    """
    wanted = parse_entries(entry)
    if version != -1 and not wanted:
        raise ConfigurationError("--version: is for setting entries")

    async def work(client: Client) -> None:
        if wanted:
            changed = await client.set_acl(path, wanted, version=version)
            if not common.as_json:
                common.reporter.state(f"the ACL of {path} has version {changed.aversion}")
                if not any(each.permissions & Permission.ADMIN for each in wanted):
                    common.note("no entry has a: only the servers' super user can change it again")
                return
        else:
            sync_before(client, path)
        entries, stat = await client.get_acl(path)
        found = [
            {
                "scheme": each.scheme,
                "id": _shown_id(each, hashes=hashes),
                "permissions": "".join(
                    letter for letter, bit in _LETTERS.items() if each.permissions & bit
                ),
            }
            for each in entries
        ]
        lines = (":".join(each.values()) for each in found)
        common.show({"path": path, "version": stat.aversion, "acl": found}, *lines)

    return common.with_client(work)


def parse_entries(texts: Sequence[str], *, name: str = "ENTRY") -> list[ACL]:
    """Parse ACL entries; a `ConfigurationError` calls them `name`."""
    return [_parse_entry(text, name) for text in texts]


def split_entries(text: str, *, name: str) -> list[ACL]:
    """Parse ACL entries with commas between them; a `ConfigurationError` calls them `name`.

    A comma before anything but a scheme belongs to an id, such as x509:CN=app,O=Example:r.
    """
    texts: list[str] = []
    for part in text.split(","):
        scheme, colon, _ = part.partition(":")
        if texts and not (colon and scheme.isalnum()):
            texts[-1] += f",{part}"
        else:
            texts.append(part)
    return parse_entries(texts, name=name)


def _parse_entry(text: str, name: str) -> ACL:
    scheme, colon, rest = text.partition(":")
    id_, colon, letters = rest.rpartition(":")
    if not scheme or not colon or not letters or any(letter not in _LETTERS for letter in letters):
        # Not shown: it may contain a password.
        raise ConfigurationError(
            f"{name}: must be SCHEME:ID:PERMISSIONS, such as world:anyone:r or auth::cdrwa; "
            "permissions are some of the letters cdrwa"
        )
    if HIDDEN in id_:
        raise ConfigurationError(
            f"{name}: {HIDDEN} stands for a hash that was not shown (--hashes)"
        )
    if scheme == "digest" and not _has_hash(id_):
        raise ConfigurationError(
            f"{name}: an id of digest must be USER:HASH, with the base64 of a hash of "
            "USER:PASSWORD: write auth::PERMISSIONS, and log in with --auth, to do without it"
        )
    permissions = Permission(0)
    for letter in letters:
        permissions |= _LETTERS[letter]
    return ACL(permissions, scheme, id_)


def _has_hash(id_: str) -> bool:
    """Whether an id of `digest` has a hash. The servers take a password, which lets nobody in."""
    user, _, hashed = id_.partition(":")
    try:
        return bool(user) and len(parsing.base64_data(hashed)) >= _SHORTEST_HASH
    except MalformedError:
        return False


_SHORTEST_HASH = 16
"""In bytes, that of MD5. Servers use SHA-1, unless they are configured with another algorithm."""


def _shown_id(entry: ACL, *, hashes: bool) -> str:
    """The id of an entry, without the hash of a password unless it is wanted."""
    user, colon, _ = entry.id.partition(":")
    return f"{user}:{HIDDEN}" if entry.scheme == "digest" and colon and not hashes else entry.id
