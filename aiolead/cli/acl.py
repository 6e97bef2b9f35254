"""`aiolead acl`, and entries of access control lists as text: `scheme:id:permissions`."""

from __future__ import annotations

from collections.abc import Sequence

from .. import Client
from ..errors import ConfigurationError
from ..model import ACL, Permission
from ..paths import validate
from .batches import sync_before
from .options import COMMON, Common, Flag, ZnodePath

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
    the identities of this command itself.

    With --json, an object: path, version, and acl, a list of scheme, id, permissions.

    Args:
        path: The znode.
        entry: The entries to set; they replace all existing ones.
        version: Only if the ACL has this version.
        hashes: Show the hashes of passwords, too.
        common: Where to connect.
    """
    validate(path)
    wanted = parse_entries(entry)
    if version != -1 and not wanted:
        raise ConfigurationError("--version: is for setting entries")

    async def work(client: Client) -> None:
        if wanted:
            changed = await client.set_acl(path, wanted, version=version)
            if not common.as_json:
                common.reporter.state(f"the ACL of {path} has version {changed.aversion}")
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
    return [_parse(text, name) for text in texts]


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


def _parse(text: str, name: str) -> ACL:
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
    permissions = Permission(0)
    for letter in letters:
        permissions |= _LETTERS[letter]
    return ACL(permissions, scheme, id_)


def _shown_id(entry: ACL, *, hashes: bool) -> str:
    """The id of an entry, without the hash of a password unless it is wanted."""
    user, colon, _ = entry.id.partition(":")
    return f"{user}:{HIDDEN}" if entry.scheme == "digest" and colon and not hashes else entry.id
