"""The election: leading, handing over, and asking who leads.

The promises that all holds make are in `locks/test_every_hold.py`.
"""

from __future__ import annotations

import anyio
import pytest
from kit.clients import PATIENCE, joined
from kit.selection import on_embedded
from recipes.crowd import crowd

from aiolead import Client, Election, Lock
from aiolead.errors import MixedLayoutError

pytestmark = [pytest.mark.timeout(60), pytest.mark.both_loops]

PATH = "/election"


async def test_leadership_is_handed_over_in_order(a: Client, b: Client) -> None:
    election = Election(a, PATH, identity="0")
    assert await election.leader() is None
    assert await election.contenders() == []
    async with crowd() as them:
        for number in range(4):
            identity = str(number)
            contender = Election((a, b)[number % 2], PATH, identity=identity)
            them.come(identity, to=contender.leadership())
            await joined(a, PATH, number + 1)
        await them.are_inside("0")
        term = them.inside["0"]
        await term.verify()
        leader = await Election(b, PATH).leader()
        assert leader is not None
        assert (leader.identity, leader.path, leader.token) == ("0", term.path, term.token)
        contenders = await election.contenders()
        assert leader == contenders[0]
        assert [each.identity for each in contenders] == ["0", "1", "2", "3"]
        assert [each.is_holder for each in contenders] == [True, False, False, False]
        tokens = []
        for name in ("0", "1", "2", "3"):
            await them.are_inside(name)
            tokens.append(them.inside[name].token)
            them.leave(name)
    assert tokens == sorted(tokens)


@on_embedded
async def test_lock_on_the_path_of_an_election_is_refused(a: Client, b: Client) -> None:
    """They do not see each other."""
    async with Election(a, PATH).leadership() as term:
        with anyio.fail_after(PATIENCE), pytest.raises(MixedLayoutError) as caught:
            async with Lock(b, PATH):
                pytest.fail("not excluded")
        assert caught.value.neighbour == term.path
        term.check()
        await joined(a, PATH, 1)
