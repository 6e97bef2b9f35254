"""Tests that failed while the machine had stopped their process are repeated; no others are."""

from __future__ import annotations

from pathlib import Path

import pytest

pytestmark = pytest.mark.exhaustive("checks the test runner")

TESTS = Path(__file__).parents[1]

STOP = """
import os, subprocess, pytest

ATTEMPTS = []

def stop(seconds):
    # As a machine does that has no time for this process: nothing in it runs, no thread either.
    own = os.getpid()
    subprocess.run(["sh", "-c", f"kill -STOP {own}; sleep {seconds}; kill -CONT {own}"])
"""


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PYTHONPATH", f"{TESTS.parent}:{TESTS}")
    pytester.makeconftest(
        "from kit.guards import StallGuard\n"
        "def pytest_configure(config):\n"
        "    config.addinivalue_line('markers', 'keeps_time(session_timeout): as in aiolead')\n"
        "    config.addinivalue_line('markers', 'real: as in aiolead')\n"
        "    config.pluginmanager.register(StallGuard())\n"
    )

    def run(test: str, *options: str) -> pytest.RunResult:
        pytester.makepyfile(STOP + test)
        return pytester.runpytest_inprocess("-p", "no:anyio", "-p", "no:asyncio", *options)

    return run


def test_one_that_failed_while_the_process_was_stopped_is_repeated(run) -> None:
    result = run("""
@pytest.mark.keeps_time(1.2)
def test_it(request):
    ATTEMPTS.append(1)
    if len(ATTEMPTS) == 1:
        stop(0.5)
        assert False, "its session has expired"
""")
    assert result.ret == 0
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        ["*REPEATED: failed while this process was stopped*", "*::test_it: stopped for 0.* s"]
    )


def test_one_that_fails_while_the_process_runs_is_red_at_once(run) -> None:
    result = run("""
@pytest.mark.keeps_time(1.2)
def test_it():
    ATTEMPTS.append(1)
    assert len(ATTEMPTS) != 1, "a real failure"
""")
    result.assert_outcomes(failed=1)
    result.stdout.no_fnmatch_line("*REPEATED*")


@pytest.mark.parametrize("when", ["1", "1, 2, 3, 4"])
def test_a_failure_that_is_there_every_time_stays_red(run, when: str) -> None:
    """Whether the machine stops the process once, or every time."""
    result = run(f"""
@pytest.mark.keeps_time(1.2)
def test_it():
    ATTEMPTS.append(1)
    if len(ATTEMPTS) in ({when},):
        stop(0.5)
    assert len(ATTEMPTS) > 3, "a real failure"
""")
    result.assert_outcomes(failed=1)
    assert result.ret == 1


def test_a_passing_test_is_not_repeated(run) -> None:
    result = run("""
@pytest.mark.keeps_time(1.2)
def test_it():
    stop(0.5)
    ATTEMPTS.append(1)

def test_how_often():
    assert len(ATTEMPTS) == 1
""")
    result.assert_outcomes(passed=2)


def test_fixtures_are_new_each_time(run) -> None:
    """Also those of a wider scope that had failed."""
    result = run("""
@pytest.fixture
def path():
    return object()

@pytest.fixture(scope="module")
def server():
    ATTEMPTS.append("server")
    if len(ATTEMPTS) == 1:
        stop(0.5)
        raise OSError("it does not start")
    return "server"

PATHS = []

@pytest.mark.real
@pytest.mark.keeps_time(1.2)
def test_it(server, path):
    PATHS.append(path)
    if len(PATHS) == 1:
        stop(0.5)
        assert False, "its session has expired"
    assert PATHS[0] is not PATHS[1]
    assert len(ATTEMPTS) > 1
""")
    result.assert_outcomes(passed=1)
    assert result.ret == 0


def test_one_without_a_mark_is_never_repeated(run) -> None:
    result = run("""
def test_it():
    ATTEMPTS.append(1)
    if len(ATTEMPTS) == 1:
        stop(0.5)
        assert False
""")
    result.assert_outcomes(failed=1)


def test_with_workers_it_is_seen_as_well(run) -> None:
    result = run(
        """
@pytest.mark.keeps_time(1.2)
def test_it():
    ATTEMPTS.append(1)
    if len(ATTEMPTS) == 1:
        stop(0.5)
        assert False
""",
        "-n",
        "1",
    )
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*::test_it: stopped for 0.* s"])
