"""`aiolead demo`: an election of three processes, a crash and a resignation, in ten seconds."""

from __future__ import annotations

from . import exits
from .options import COMMON, Common
from .signals import Signals, until_signal

__all__ = ["demo"]


def demo(*, common: Common = COMMON) -> int:
    """Show an election: three processes, a crash, a resignation. Takes ten seconds.

    Starts a ZooKeeper server of its own, unless --hosts says where there is one. The session
    timeout is 3 seconds here, unless given. Exits with 1 if something did not happen as promised.

    Args:
        common: Where to connect.
    """
    from .demo_story import play  # with servers and a screen: nothing for the other commands

    code = exits.OK

    async def perform() -> None:
        nonlocal code
        code = await play(common)

    async def work() -> int:
        return await until_signal(signals, perform)

    with Signals() as signals:
        number = common.run(work)
    return exits.by_signal(number) if number else code
