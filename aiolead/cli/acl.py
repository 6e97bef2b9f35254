"""`aiolead acl`."""

from __future__ import annotations

from .. import Client
from ..errors import ConfigurationError
from ..paths import validate
from . import exits, shown
from .acl_text import format_entry, parse_entries, shown_id
from .options import COMMON, Common, Flag
from .output import write_json, write_line

__all__ = ["acl"]


def acl(
    path: str,
    /,
    *entry: str,
    version: int = -1,
    hashes: Flag = False,
    common: Common = COMMON,
) -> int:
    """Print who may do what with a znode, or set it.

    An entry is SCHEME:ID:PERMISSIONS, as zkCli.sh has it; permissions are some of the letters
    cdrwa: create, delete, read, write, administer. Such as world:anyone:r, and auth::cdrwa for
    whoever we are ourselves.

    With --json, an object: path, version, and acl, a list of scheme, id, permissions.

    Args:
        path: The znode.
        entry: What to set, in the place of all that there is.
        version: Only if the ACL has this version.
        hashes: Show the hashes of passwords, too.
        common: Where to connect.
    """
    validate(path)
    wanted = parse_entries(entry)
    if version != -1 and not wanted:
        raise ConfigurationError("--version: is for setting entries")

    async def work(client: Client) -> int:
        if wanted:
            changed = await client.set_acl(path, wanted, version=version)
            if not common.as_json:
                common.reporter.state(f"the ACL of {path} has version {changed.aversion}")
                return exits.OK
        else:
            client.sync(path)
        entries, stat = await client.get_acl(path)
        if common.as_json:
            said = [
                {
                    "scheme": each.scheme,
                    "id": shown_id(each, hashes=hashes),
                    "permissions": format_entry(each, hashes=False).rpartition(":")[2],
                }
                for each in entries
            ]
            write_json({"path": path, "version": stat.aversion, "acl": said})
        else:
            for each in entries:
                write_line(shown.escaped(format_entry(each, hashes=hashes)))
        return exits.OK

    return common.with_client(work)
