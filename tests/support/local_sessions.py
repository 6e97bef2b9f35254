"""What servers do whose sessions are local and are not upgraded."""

from __future__ import annotations

import pytest

import aiolead
from aiolead import CreateMode, Lock
from aiolead.errors import EphemeralOnLocalSessionError


async def refuses_ephemerals(hosts: str) -> None:
    """Checks that one of them has everything but ephemeral znodes."""
    async with aiolead.connect(hosts, session_timeout=4) as client:
        for mode in (CreateMode.EPHEMERAL, CreateMode.EPHEMERAL_SEQUENTIAL):
            with pytest.raises(EphemeralOnLocalSessionError):
                await client.create("/e", mode=mode)
        with pytest.raises(EphemeralOnLocalSessionError):
            async with Lock(client, "/lock").acquire():
                raise AssertionError
        await client.create("/a")
        await client.delete("/a")
