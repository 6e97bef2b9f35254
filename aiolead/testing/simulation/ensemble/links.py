"""Connections between servers."""

from __future__ import annotations

from collections.abc import Callable

from ..connection import Wire
from ..network import Network
from .life import Life
from .messages import Message


class Link:
    """One end of a connection to another server, as an endpoint of the network.

    Args:
        life: of the process that has it.
        take: called with each message.
        gone: called once when the peer, or the connection, is gone; not if we closed it.

    Attributes:
        is_open: whether the connection stands.
    """

    def __init__(
        self, life: Life, take: Callable[[Message], None], gone: Callable[[], None]
    ) -> None:
        self.take = take
        self.gone = gone
        self.is_open: bool = False
        self._life = life
        self._wire: Wire | None = None
        self._abandon: Callable[[], None] | None = None
        self._is_closed = False
        life.opened(self)

    def connect(
        self, network: Network, source: str, target: str, opened: Callable[[], None]
    ) -> None:
        """Opens the connection; `gone` is called if it is refused."""

        def answered(wire: Wire | None) -> None:
            self._abandon = None
            self._wire = wire
            self._life.run(self._answered, opened)

        self._abandon = network.connect(source, target, self, answered)

    def accepted(self, wire: Wire) -> None:
        """The connection was opened by the peer."""
        self._wire = wire
        self.is_open = True

    def send(self, message: Message) -> None:
        """Without effect if the connection does not stand."""
        if self.is_open and self._wire is not None:
            self._wire.send(message)

    def close(self) -> None:
        """Closes it, or gives up opening it."""
        if self._is_closed:
            return
        self._leave()
        if self._wire is not None:
            self._wire.close()
        elif self._abandon is not None:
            self._abandon()

    def reset(self) -> None:
        """The process has died."""
        self._leave()
        if self._wire is not None:
            self._wire.reset()
        elif self._abandon is not None:
            self._abandon()

    # --- what the network says -----------------------------------------------------------------

    def received(self, data: Message, /) -> None:
        life = self._life
        if life.is_stopped or life.is_over:
            life.run(self._received, data)
        else:
            self.take(data)
            if life.unsent:
                life.settle()

    def ended(self) -> None:
        self._life.run(self._ended)

    def broken(self) -> None:
        self._life.run(self._ended)

    def _answered(self, opened: Callable[[], None]) -> None:
        if self._wire is None:
            self._ended()
        elif not self._is_closed:
            self.is_open = True
            opened()

    def _received(self, message: Message) -> None:
        if not self._is_closed:
            self.take(message)

    def _ended(self) -> None:
        if not self._is_closed:
            self.close()
            self.gone()

    def _leave(self) -> None:
        self._is_closed = True
        self.is_open = False
        self._life.closed(self)
