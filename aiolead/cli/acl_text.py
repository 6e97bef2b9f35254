"""Entries of access control lists as text: `scheme:id:permissions`, as in `zkCli.sh`. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import ConfigurationError
from ..model import ACL, Permission

__all__ = ["format_entry", "parse_entries"]

HIDDEN = "***"
"""What stands in the place of the hash of a password."""

_LETTERS = {
    "c": Permission.CREATE,
    "d": Permission.DELETE,
    "r": Permission.READ,
    "w": Permission.WRITE,
    "a": Permission.ADMIN,
}


def parse_entries(texts: Sequence[str], *, name: str = "ENTRY") -> list[ACL]:
    """The entries that some texts say.

    Args:
        texts: one each.
        name: what an error calls them.

    Raises:
        ConfigurationError: one of them says none.
    """
    return [_parse(text, name) for text in texts]


def _parse(text: str, name: str) -> ACL:
    scheme, colon, rest = text.partition(":")
    id_, colon, letters = rest.rpartition(":")
    if not scheme or not colon or not letters or any(letter not in _LETTERS for letter in letters):
        # There may be a password in it: it is not shown.
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


def format_entry(entry: ACL, *, hashes: bool) -> str:
    """An entry as text.

    Args:
        entry: the entry.
        hashes: whether to show the hashes of passwords, which can be guessed from them.
    """
    letters = "".join(letter for letter, bit in _LETTERS.items() if entry.permissions & bit)
    return f"{entry.scheme}:{shown_id(entry, hashes=hashes)}:{letters}"


def shown_id(entry: ACL, *, hashes: bool) -> str:
    """Whom an entry is for, without the hash of a password unless that is wanted."""
    user, colon, _ = entry.id.partition(":")
    return f"{user}:{HIDDEN}" if entry.scheme == "digest" and colon and not hashes else entry.id
