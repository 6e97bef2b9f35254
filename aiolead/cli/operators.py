"""Commands of operators: requests to holders, identities, quotas, members, configurations."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import replace
from typing import Annotated, Any

from cyclopts import App, Group, Parameter

from .. import Client, Config, Election, Lock, ReadWriteLock, admin
from ..errors import ConfigurationError, HandOverTimeout, NoAuthError, NoNodeError
from ..model import Quota
from ..types import Layout
from . import exits, render
from .batches import MOST, sync_before, walk
from .contenders import holders_of, read_contenders
from .exits import CommandError
from .options import COMMON, Common, Flag, Positive, Wait, ZnodePath
from .output import is_terminal, write_bytes

_RECIPES = {"election": Election, "lock": Lock, "reader": ReadWriteLock, "writer": ReadWriteLock}
_LAYOUTS = {"curator": Layout.CURATOR, "kazoo": Layout.KAZOO}


def revoke(
    path: ZnodePath,
    /,
    *,
    successor: str | None = None,
    wait: Wait = 20.0,
    common: Common = COMMON,
) -> int:
    """Ask the holders at a path to release, or the leaders to resign. Nobody is forced.

    `aiolead run` and `lock` send SIGTERM to their command then. Other leaders resign by default;
    other programs await `revocation_requested()`. Exits with 1 if nobody holds there, the holders
    are not known, or no successor was ready in time; then nobody was asked.

    If a holder hangs, end its process: the next one holds as soon as its session is over. Only as
    the last resort delete its znode (`aiolead rm`): the next one starts at once, while the other
    may still work.

    With --json, one object per holder that was asked now: identity, path, token, session.

    Args:
        path: The path of the election or lock.
        successor: The name of a contender that has to lead next. The contenders before it step
            behind it, and it gets ready, before the leaders are asked. Of elections only.
        wait: How long to wait for the successor, in seconds.
        common: Where to connect.
    """

    async def work(client: Client) -> None:
        sync_before(client, path)
        found, _ = await read_contenders(client, path, await client.get_children(path))
        first = next((one for one in found if one.place.holds), None)
        if first is None:
            raise CommandError(f"nobody holds {path}", exits.FAILED)
        holder = first.place
        recipe, layout = _RECIPES.get(holder.what), _LAYOUTS.get(holder.layout)
        if recipe is None or layout is None:
            who = f"{path}: {render.escaped(first.identity or 'its holder')} ({holder.what})"
            remedy = "end its process to free its place"
            raise CommandError(f"{who} cannot be asked to release: {remedy}", exits.FAILED)
        if successor is None:
            asked = await recipe(client, path, layout=layout).revoke()
        elif recipe is not Election:
            raise CommandError(f"--successor: {path} is no election", exits.USAGE)
        else:
            leaders = holder.leaders or 1
            election = Election(client, path, layout=layout, leaders=leaders)
            names = [one.identity for one in found if one.identity is not None]
            if wait and successor not in names:
                there = ", ".join(render.escaped(name) for name in names)
                who = f"no contender {render.escaped(successor)} yet (there are: {there})"
                common.note(f"{who}: waiting {wait:g} s for it")
            try:
                asked = await election.revoke(successor=successor, timeout=wait)
            except HandOverTimeout as error:
                raise CommandError(str(error), exits.FAILED) from None
        for one in asked:
            session = render.hexadecimal(one.session_id)
            about = {"identity": one.identity, "path": one.path, "token": one.token}
            common.show({**about, "session": session}, f"asked {render.escaped(one.identity)}")
        if not asked and successor is not None:
            leads = f"{render.escaped(successor)} leads already"
            common.note(f"the holders were asked before, or {leads}")
        elif not asked:
            remedy = "if the holder hangs, end its process (see: aiolead revoke --help)"
            common.note(f"asked before, and still {holders_of(found)}: {remedy}")

    return common.with_client(work)


def whoami(*, common: Common = COMMON) -> int:
    """Print the identities of this client, as the servers see it. Needs ZooKeeper 3.7.

    With --json, one object per identity: scheme, id.

    Args:
        common: Where to connect.
    """

    async def work(client: Client) -> None:
        for one in await admin.whoami(client):
            common.show({"scheme": one.scheme, "id": one.id}, f"{one.scheme}:{one.id}")

    return common.with_client(work)


def ephemerals(
    path: ZnodePath = "/",
    /,
    *,
    session: str | None = None,
    limit: Positive = MOST,
    common: Common = COMMON,
) -> int:
    """List the ephemeral znodes below a path, with the sessions that own them.

    With --json, one object per znode: path, session.

    Args:
        path: The top.
        session: Only those of this session, such as 0x1000a3b5c7d0003.
        limit: How many znodes to read.
        common: Where to connect.
    """
    wanted = None if session is None else session.lower()
    if wanted is not None and not re.fullmatch("0x[0-9a-f]{1,16}", wanted):
        why = f"must be as in 0x1000a3b5c7d0003, not {session!r}"
        raise ConfigurationError(f"--session: {why}")

    async def work(client: Client) -> None:
        async for each, stat, _ in walk(client, path, limit):
            owner = stat.ephemeral_owner if stat is not None else 0
            if owner and wanted in (None, render.hexadecimal(owner)):
                shown = render.hexadecimal(owner)
                common.show({"path": each, "session": shown}, f"{shown}  {render.escaped(each)}")

    return common.with_client(work)


def sync(path: ZnodePath = "/", /, *, common: Common = COMMON) -> int:
    """Wait until the connected server has all writes that were done before.

    Args:
        path: Any znode.
        common: Where to connect.
    """

    async def work(client: Client) -> None:
        await client.sync(path)

    return common.with_client(work)


def quota(
    path: ZnodePath,
    /,
    *,
    count: int | None = None,
    size: Annotated[int | None, Parameter(name="--bytes")] = None,
    count_hard: int | None = None,
    size_hard: Annotated[int | None, Parameter(name="--bytes-hard")] = None,
    delete: Flag = False,
    common: Common = COMMON,
) -> int:
    """Print the quota of a znode and its use, or set or delete it.

    With --json, an object: path, and for each of count and bytes the limits, and the use.

    Args:
        path: The znode.
        count: How many znodes there may be, itself included; more are logged by the servers.
        size: How many bytes their data may have; more are logged.
        count_hard: More znodes than that are refused, from ZooKeeper 3.7 on with enforceQuota.
        size_hard: More bytes than that are refused.
        delete: Delete the quota.
        common: Where to connect.
    """
    limits = {"count": count, "bytes": size, "count_hard": count_hard, "bytes_hard": size_hard}
    named = {name: limit for name, limit in limits.items() if limit is not None}
    wanted = Quota(**named)
    if delete and wanted.has_limit:
        raise ConfigurationError("--delete: without limits")

    async def work(client: Client) -> None:
        if delete:
            await admin.delete_quota(client, path)
        elif wanted.has_limit:
            # As zkCli.sh, and unlike `set_quota`: a limit that is not named stays.
            before = await admin.get_quota(client, path)
            await admin.set_quota(client, path, replace(before[0], **named) if before else wanted)
        found = await admin.get_quota(client, path)
        if found is None:
            with suppress(NoAuthError):  # it is there
                if await client.exists(path) is None:
                    raise NoNodeError(path)
            common.show({"path": path, "quota": None}, "no quota")
            return
        present, usage = found
        about: dict[str, Any] = {"path": path}
        lines: list[str] = []
        exceeded: list[str] = []
        for name, used in (("count", usage.count), ("bytes", usage.bytes)):
            limit, hard = getattr(present, name), getattr(present, f"{name}_hard")
            about |= {name: used, f"{name}_limit": limit, f"{name}_hard": hard}
            shown = ["unlimited" if each is None else f"{each:,}" for each in (limit, hard)]
            lines.append(f"{name}: {used:,}, soft limit {shown[0]}, hard limit {shown[1]}")
            if limit is not None and used > limit:
                exceeded.append(f"{name} exceeds its soft limit")
            if hard is not None and used > hard:
                exceeded.append(f"{name} exceeds its hard limit: {_UNENFORCED}")
        common.show(about, *lines)
        for text in exceeded:
            common.note(text)

    return common.with_client(work)


_UNENFORCED = "it did before, or the servers do not enforce quotas (enforceQuota)"


def members(
    *,
    add: Annotated[list[str] | None, Parameter(negative="", show_default=False)] = None,
    remove: Annotated[list[int] | None, Parameter(negative="", show_default=False)] = None,
    version: int = -1,
    common: Common = COMMON,
) -> int:
    """Print the servers of the ensemble's configuration, or change them (reconfig).

    With --json, an object: version, and servers, as the configuration has them.

    Args:
        add: A server to add or to change, as server.4=zk4:2888:3888;2181. It must run already.
        remove: The number of a server to remove.
        version: Only if the configuration has this version.
        common: Where to connect.
    """

    async def work(client: Client) -> None:
        if add or remove:
            known = {each.id for each in (await admin.get_config(client)).servers}
            if known and (unknown := set(remove or ()) - known):
                raise ConfigurationError(f"--remove: there is no server {min(unknown)}")
            found = await admin.reconfig(
                client, joining=add or (), leaving=remove or (), version=version
            )
        else:
            sync_before(client, "/")
            found = await admin.get_config(client)
        servers = [str(each) for each in found.servers]
        common.show({"version": found.version, "servers": servers}, *servers)
        text = f"the configuration has version {render.hexadecimal(found.version)}"
        common.note(text if servers else "the servers have no configuration of an ensemble")

    return common.with_client(work)


# --- configurations ------------------------------------------------------------------------------


def config_get(path: ZnodePath, key: str = "", /, *, common: Common = COMMON) -> int:
    """Print a configuration that programs publish with `aiolead.Config`, or one of its values.

    With --json, an object: version, and keys, each with encoding and data.

    Args:
        path: The path of the configuration.
        key: Print the value of this key alone, byte by byte.
        common: Where to connect.
    """

    async def work(client: Client) -> None:
        sync_before(client, path)
        found = await Config(client, path).get()
        if key and key not in found.value:
            raise CommandError(f"{path}: there is no key {key}", exits.FAILED)
        if key and not common.as_json and not is_terminal():
            write_bytes(found.value[key])
            return
        chosen = {key: found.value[key]} if key else found.value
        keys = {name: render.data_as_json(value) for name, value in chosen.items()}
        lines = [f"{name} = {render.preview(value)}" for name, value in sorted(chosen.items())]
        common.show({"version": found.version, "keys": keys}, *lines)
        if not found.version:
            common.note(f"no configuration was published at {path}")

    return common.with_client(work)


def config_set(
    path: ZnodePath,
    /,
    *changes: str,
    unset: Annotated[list[str] | None, Parameter(negative="", show_default=False)] = None,
    version: int | None = None,
    common: Common = COMMON,
) -> int:
    """Publish changes of a configuration, all at once, as a new version.

    Programs skip a version that their `parse` function refuses; this command cannot know.

    Args:
        path: The path of the configuration.
        changes: KEY=VALUE.
        unset: A key to delete.
        version: Only if this is the present version.
        common: Where to connect.
    """
    wanted: dict[str, bytes | None] = dict.fromkeys(unset or ())
    for change in changes:
        key, equals, value = change.partition("=")
        if not equals:
            raise ConfigurationError(f"a change must be KEY=VALUE, not {change!r}")
        wanted[key] = value.encode(errors="surrogateescape")
    if not wanted:
        raise ConfigurationError("no change was given: KEY=VALUE, or --unset KEY")

    async def work(client: Client) -> None:
        number = await Config(client, path).publish(wanted, version=version)
        common.show({"version": number}, f"version {number}")

    return common.with_client(work)


def config_history(path: ZnodePath, /, *, common: Common = COMMON) -> int:
    """Print the versions of a configuration that can be published again, the latest first.

    With --json, one object per version: version, time, identity, keys.

    Args:
        path: The path of the configuration.
        common: Where to connect.
    """

    async def work(client: Client) -> None:
        sync_before(client, path)
        versions = await Config(client, path).history()
        if not versions:
            common.note(f"no configuration was published at {path}")
        for one in versions:
            moment = render.moment(one.time)
            about = {"version": one.version, "time": moment, "identity": one.identity}
            who = render.escaped(one.identity)
            line = f"{one.version}  {moment}  {who}  {render.plural(len(one.keys), 'key')}"
            common.show({**about, "keys": sorted(one.keys)}, line)

    return common.with_client(work)


def config_rollback(path: ZnodePath, version: int, /, *, common: Common = COMMON) -> int:
    """Publish an earlier version of a configuration again, as a new one.

    Args:
        path: The path of the configuration.
        version: The version, as `aiolead config history` prints it.
        common: Where to connect.
    """

    async def work(client: Client) -> None:
        number = await Config(client, path).rollback(version)
        common.show({"version": number}, f"version {number}")

    return common.with_client(work)


config: App = App(
    name="config",
    help="Read, change and roll back a configuration of `aiolead.Config`.",
    usage="Usage: aiolead config COMMAND PATH ...",
    group_parameters=Group("Options", sort_key=0),
)
for _name, _command, _usage in (
    ("get", config_get, "PATH [KEY]"),
    ("set", config_set, "PATH KEY=VALUE..."),
    ("history", config_history, "PATH"),
    ("rollback", config_rollback, "PATH VERSION"),
):
    config.command(_command, name=_name, usage=f"Usage: aiolead config {_name} [OPTIONS] {_usage}")
