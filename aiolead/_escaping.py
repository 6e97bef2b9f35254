"""Text from elsewhere, made safe to print: in the log, in errors, on a terminal. Pure."""

from __future__ import annotations

__all__ = ["described", "escaped"]


def escaped(text: str, *, keep: str = "") -> str:
    r"""Text with everything escaped that is not to be seen as it is.

    Control characters move the cursor, or make a terminal run commands. Line separators forge lines
    of a log. Characters that change the direction of writing make one name look like another. They
    are shown as `\x1b`, `\u2028`, `\u202e`.

    Args:
        text: whatever somebody has written somewhere.
        keep: what is left as it is, such as newlines.
    """
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() or character in keep else _escape(character)
        for character in text
    )


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def described(value: object) -> str:
    """An argument for an error's message: its `repr`, if it has one.

    A number may have too many digits for that, and a list too many levels.
    """
    try:
        return repr(value)
    except Exception:
        return f"what cannot be shown, of the type {type(value).__name__}"
