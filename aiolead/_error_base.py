"""The root of the error tree of `aiolead.errors`, and the enumerations that errors use."""

from __future__ import annotations

import enum

from ._escaping import escaped


class Blame(enum.Enum):
    """The party that caused an error."""

    CALLER = "caller"
    """The program passed or did something wrong; the same call fails again."""
    NETWORK = "network"
    """A connection or its other end failed; the same call may succeed later."""
    SERVER = "server"
    """The ensemble refused, or its answer makes no sense."""
    RIVAL = "rival"
    """Nobody's fault: another process was first, or took over."""


class Outcome(enum.Enum):
    """Whether the write that failed may have been applied."""

    NOT_APPLIED = "not applied"
    UNKNOWN = "unknown"
    APPLIED = "applied"


class LossReason(enum.Enum):
    """Why a hold ended before its holder released it."""

    EXPIRED = "the session expired"
    UNCONFIRMED = "the lease ran out before the quorum confirmed it"
    DISCONNECTED = "the connection was lost, and the hold does not outlast it"
    REFUSED = "the servers refused to confirm the znode"
    DELETED = "the znode was deleted by somebody else"
    CLOSED = "the client was closed"
    INTERNAL = "an unexpected error inside aiolead, which is in its log"

    def __str__(self) -> str:
        return self.value

    @property
    def blame(self) -> Blame:
        """The party that caused the loss."""
        return _BLAME[self]

    @property
    def znode_remains(self) -> bool:
        """Whether the znode still exists as far as is known, so nobody else holds the path yet."""
        return self not in (LossReason.EXPIRED, LossReason.DELETED, LossReason.CLOSED)


_BLAME = {
    LossReason.EXPIRED: Blame.NETWORK,
    LossReason.UNCONFIRMED: Blame.NETWORK,
    LossReason.DISCONNECTED: Blame.NETWORK,
    LossReason.REFUSED: Blame.SERVER,
    LossReason.DELETED: Blame.RIVAL,
    LossReason.CLOSED: Blame.CALLER,
    LossReason.INTERNAL: Blame.CALLER,
}


class AioleadError(Exception):
    """The root of the error tree.

    `str(error)` is one printable line: names that other processes wrote are escaped there, since it
    ends up in logs and on terminals, and unescaped in attributes such as `path`.

    Attributes:
        blame: the party that caused it.
        outcome: whether the write that failed may have been applied.
        session_over: whether the session ended, and with it its ephemeral znodes.
    """

    blame: Blame = Blame.SERVER
    outcome: Outcome = Outcome.NOT_APPLIED
    session_over: bool = False

    def __init_subclass__(
        cls, *, blame: Blame | None = None, outcome: Outcome | None = None
    ) -> None:
        """Set `blame` and `outcome` where they differ from the base's."""
        super().__init_subclass__()
        if blame is not None:
            cls.blame = blame
        if outcome is not None:
            cls.outcome = outcome

    def __str__(self) -> str:
        return escaped(super().__str__())

    def __reduce__(self) -> tuple[object, ...]:
        # The default passes the finished message to `__init__`, which takes its parts.
        return _rebuild, (type(self), self.args), self.__dict__


def _rebuild(cls: type[AioleadError], args: tuple[object, ...]) -> AioleadError:
    error = cls.__new__(cls)
    error.args = args
    return error
