"""What every error has: the root of the tree of `aiolead.errors`."""

from __future__ import annotations

import enum

from ._escaping import escaped


class Blame(enum.Enum):
    """Whose fault an error is."""

    CALLER = "caller"
    """The program passed or did something wrong; the same call fails again."""
    NETWORK = "network"
    """A link, or the other end of it, failed; the same call may succeed later."""
    SERVER = "server"
    """The ensemble said no, or said something that makes no sense."""
    RIVAL = "rival"
    """Nobody's fault: somebody else was first, or took over."""


class Outcome(enum.Enum):
    """Whether the write that failed may have been applied."""

    NOT_APPLIED = "not applied"
    UNKNOWN = "unknown"
    APPLIED = "applied"


class AioleadError(Exception):
    """The root of the tree.

    `str(error)` is one printable line: it may quote names that other processes wrote, and ends up
    in logs and on terminals. Attributes such as `path` have them as they are.

    Attributes:
        blame: whose fault it is.
        outcome: whether the write that failed may have been applied.
        session_over: whether the session ended, and with it its ephemeral znodes.
    """

    blame: Blame = Blame.SERVER
    outcome: Outcome = Outcome.NOT_APPLIED
    session_over: bool = False

    def __str__(self) -> str:
        return escaped(super().__str__())

    def __reduce__(self) -> tuple[object, ...]:
        # The default passes the finished message to `__init__`, which wants what it is made from.
        return _rebuild, (type(self), self.args), self.__dict__


def _rebuild(cls: type[AioleadError], args: tuple[object, ...]) -> AioleadError:
    error = cls.__new__(cls)
    error.args = args
    return error
