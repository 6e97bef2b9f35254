"""`aiolead demo`: an election of four processes, two crashes, a resignation."""

from __future__ import annotations

from .options import DemoOptions

LOCAL = DemoOptions()


def demo(*, common: DemoOptions = LOCAL) -> int:
    """Show an election: four processes, two crashes, a resignation. Takes ten seconds.

    Starts a ZooKeeper server of its own, also where AIOLEAD_HOSTS is set, unless --hosts is given
    on the command line. The session timeout is 3 seconds here by default. Exits with 1 if
    something did not happen as promised.

    Args:
        common: Where to connect.
    """
    from .demo_story import play  # imports a server and a screen, which other commands do not need

    return common.run_until_signal(lambda: play(common))
