"""A trio program that asks for an aiozk client."""

from __future__ import annotations

import aiozk
import pytest
from kit.faults import only_on

from aiolead.adapters.aiozk import adapt
from aiolead.errors import UsageError

pytestmark = [
    only_on("trio"),
    pytest.mark.exhaustive("the recipes' promises over a client that is not ours"),
]


async def test_aiozk_lives_on_asyncio() -> None:
    with pytest.raises(UsageError, match="aiozk lives on asyncio"):
        async with adapt(aiozk.ZKClient("127.0.0.1:1")):
            raise AssertionError("it was refused")
