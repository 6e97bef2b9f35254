"""What each suite does in its second test."""

import os
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))

from work import ELECTION, work

import aiolead


async def hold_until_stopped(client: aiolead.Client) -> None:
    """Leads until a signal comes; or only for a moment, for a suite that is to pass."""
    async with aiolead.Election(client, ELECTION).leadership() as term:
        if os.environ.get("STOPPED_BY") == "signal":
            print()  # pytest and unittest have begun a line
            await work(client)(term)
