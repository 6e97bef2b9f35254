"""unittest: `asyncSetUp` opens the client, and a clean-up closes it."""

import unittest

from held import hold_until_stopped

import aiolead


class Case(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self) -> None:
        self.client = await self.enterAsyncContext(aiolead.connect())

    async def test_it_is_open(self) -> None:
        assert await self.client.exists("/") is not None

    async def test_lead(self) -> None:
        await hold_until_stopped(self.client)


if __name__ == "__main__":
    unittest.main()
