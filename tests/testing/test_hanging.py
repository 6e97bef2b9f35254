"""A test that hangs is reported as failed, and the others run."""

from __future__ import annotations

from pathlib import Path

import pytest

# Each starts pytest, with workers or without.
pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.exhaustive("checks the test runner"),
]

TESTS = Path(__file__).parents[1]

# Nothing waits for the limit to pass: tests that hang bring it forward.
HEAD = """
import anyio, pytest, signal

def time_is_over():
    # A moment later, as it happens: while the event loop waits.
    signal.setitimer(signal.ITIMER_REAL, 0.1)

@pytest.fixture
async def place():
    await anyio.sleep(0)
    yield "place"
    await anyio.sleep(0)

@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request):
    return request.param

async def wait(task_status=anyio.TASK_STATUS_IGNORED):
    task_status.started()
    await anyio.sleep_forever()
"""

NEXT = """
async def test_next(place):
    await anyio.sleep(0)
"""


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PYTHONPATH", f"{TESTS.parent}:{TESTS}")
    pytester.makeini("[pytest]\nanyio_mode = auto\ntimeout = 50\n")
    pytester.makeconftest(
        "from kit.guards import HangGuard\n"
        "def pytest_configure(config):\n"
        "    config.pluginmanager.register(HangGuard())\n"
    )

    def run(test: str, *options: str) -> pytest.RunResult:
        pytester.makepyfile(HEAD + test + NEXT)
        return pytester.runpytest_subprocess("-p", "no:asyncio", "-p", "no:trio", *options)

    return run


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_one_that_waits_for_ever(run, backend: str) -> None:
    result = run(f"""
@pytest.mark.parametrize("anyio_backend", ["{backend}"])
async def test_hangs(place):
    async with anyio.create_task_group() as tasks:
        await tasks.start(wait)
        time_is_over()
        await anyio.sleep_forever()
""")
    result.assert_outcomes(failed=1, passed=2)
    result.stdout.fnmatch_lines(
        ["*its time is over; it was at", "*in test_hangs*", "*in sleep_forever*"]
    )
    result.stdout.fnmatch_lines(["*in wait*"])


def test_a_fixture_that_waits_for_ever(run) -> None:
    result = run(
        """
@pytest.fixture
async def hangs():
    time_is_over()
    await anyio.sleep_forever()

@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_hangs(hangs):
    pass
""",
    )
    result.assert_outcomes(errors=1, passed=2)


def test_one_that_cannot_be_cancelled_ends_its_worker(run) -> None:
    result = run(
        """
@pytest.mark.parametrize("anyio_backend", ["trio"])
async def test_hangs(place):
    with anyio.CancelScope(shield=True):
        time_is_over()
        await anyio.sleep(0.3)
        time_is_over()
        await anyio.sleep_forever()
""",
        "-n1",
    )
    result.assert_outcomes(failed=1, passed=2)
    result.stdout.fnmatch_lines(["*crashed while running*test_hangs*"])


def test_one_that_ends_meanwhile_has_failed_all_the_same(run) -> None:
    result = run("""
async def test_late(place):
    with anyio.CancelScope(shield=True):
        time_is_over()
        await anyio.sleep(0.3)
""")
    result.assert_outcomes(failed=2, passed=2)
