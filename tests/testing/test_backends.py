"""The guards of the test suite itself."""

from __future__ import annotations

import asyncio
import shlex
import sys
from pathlib import Path

import pytest
import trio
import uvloop
from kit.selection import BACKENDS

pytestmark = pytest.mark.exhaustive("checks the test runner")


async def test_each_backend_is_the_one_that_it_is_called(request: pytest.FixtureRequest) -> None:
    name = request.node.callspec.id
    if name == "trio":
        assert trio.lowlevel.in_trio_run()
    else:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, uvloop.Loop) == (name == "asyncio+uvloop")


@pytest.mark.parametrize("anyio_backend", BACKENDS[:1], indirect=True)
async def test_mistakes_are_found_on_asyncio() -> None:
    loop = asyncio.get_running_loop()
    with pytest.raises(TypeError, match="coroutines cannot be used"):
        loop.call_soon(asyncio.sleep)
    with pytest.raises(RuntimeError, match="Non-thread-safe"):
        await asyncio.to_thread(loop.call_soon, print)
    forgotten = asyncio.sleep(0)
    assert forgotten.cr_origin is not None
    forgotten.close()


_LEAKY = """
import pytest

@pytest.fixture(scope="session")
async def keeps_the_first_event_loop_alive():
    yield

async def test_one(keeps_the_first_event_loop_alive):
    pass
"""


def _with_the_guards(pytester: pytest.Pytester) -> None:
    tests = Path(__file__).parent.parent
    pytester.makeconftest((tests / "conftest.py").read_text("utf-8"))
    pytester.makeini(
        f"""
        [pytest]
        anyio_mode = auto
        pythonpath = {shlex.quote(str(tests))} {shlex.quote(str(tests.parent))}
        """
    )


def test_a_coroutine_test_on_the_wrong_backend_fails(pytester: pytest.Pytester) -> None:
    _with_the_guards(pytester)
    pytester.makepyfile(_LEAKY)
    result = pytester.runpytest_subprocess()
    # On the first backend all is well; on all others the guard speaks up.
    result.assert_outcomes(passed=1, errors=3 if sys.version_info >= (3, 12) else 2)


_REAL = ("standalone", "ensemble")
_ON_SERVERS = """
import pytest

def test_on_each(server): pass

@pytest.mark.parametrize("server", ["standalone", "ensemble", "embedded"], indirect=True)
def test_on_chosen(server): pass

def test_by_fixture(zookeeper): pass

def test_of_none(): pass
"""


@pytest.mark.parametrize(
    ("expression", "found"),
    [
        ("not real", {"test_on_each[embedded]", "test_on_chosen[embedded]", "test_of_none"}),
        (
            "real",
            {
                *(f"test_on_{test}[{kind}]" for test in ("each", "chosen") for kind in _REAL),
                "test_by_fixture",
            },
        ),
    ],
)
def test_what_reaches_a_real_server_is_marked(
    pytester: pytest.Pytester, expression: str, found: set[str]
) -> None:
    _with_the_guards(pytester)
    pytester.makepyfile(_ON_SERVERS)
    result = pytester.runpytest_subprocess("--collect-only", "-q", "-m", expression)
    assert {line.partition("::")[2] for line in result.outlines if "::" in line} == found


@pytest.mark.usefixtures("zookeeper_installed")
def test_a_real_server_is_not_reached_without_the_mark(pytester: pytest.Pytester) -> None:
    _with_the_guards(pytester)
    pytester.makepyfile("def test_it(request): request.getfixturevalue('zookeeper')")
    result = pytester.runpytest_subprocess()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*reaches a real server, and is not marked `real`"])
