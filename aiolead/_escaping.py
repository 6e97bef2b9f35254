"""Escaping text of other processes for logs, errors and terminals. Pure."""

from __future__ import annotations


def escaped(text: str, *, keep: str = "") -> str:
    r"""Escape unprintable characters, as `\x1b`, `\u2028`, `\u202e`, except those in `keep`.

    Control characters move the cursor or make a terminal run commands, line separators forge log
    lines, and changes of direction make one name look like another.
    """
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() or each in keep else _escape(each) for each in text)


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def described(value: object) -> str:
    """An argument's `repr` for an error message, even if `repr` fails (on a huge number, say)."""
    try:
        return repr(value)
    except Exception:
        return f"a value that cannot be shown, of type {type(value).__name__}"


def in_seconds(value: float | None) -> str:
    """A number of seconds for a message: `1 second`, `2.5 seconds`."""
    return f"{value:g} second" if value == 1 else f"{value:g} seconds"
