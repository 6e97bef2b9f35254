"""The guards of the test suite itself."""

from __future__ import annotations

import asyncio
import shlex
import sys
from pathlib import Path

import pytest
import trio
import uvloop


async def test_each_backend_is_the_one_that_it_is_called(request: pytest.FixtureRequest) -> None:
    name = request.node.callspec.id
    if name == "trio":
        assert trio.lowlevel.in_trio_run()
    else:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, uvloop.Loop) == (name == "asyncio+uvloop")


_LEAKY = """
import pytest

@pytest.fixture(scope="session")
async def keeps_the_first_event_loop_alive():
    yield

async def test_one(keeps_the_first_event_loop_alive):
    pass
"""


def test_a_coroutine_test_on_the_wrong_backend_fails(pytester: pytest.Pytester) -> None:
    tests = Path(__file__).parent.parent
    pytester.makeconftest((tests / "conftest.py").read_text("utf-8"))
    pytester.makepyfile(_LEAKY)
    pytester.makeini(
        f"""
        [pytest]
        anyio_mode = auto
        pythonpath = {shlex.quote(str(tests))} {shlex.quote(str(tests.parent))}
        """
    )
    result = pytester.runpytest_subprocess()
    # On the first backend all is well; on all others the guard speaks up.
    result.assert_outcomes(passed=1, errors=3 if sys.version_info >= (3, 12) else 2)
