"""Workers share the rewriting of test modules, and what they collect is no garbage."""

from __future__ import annotations

from pathlib import Path

import pytest

# It starts pytest with workers.
pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.exhaustive("checks the test runner"),
]

TESTS = Path(__file__).parents[1]
MODULES = 7

CONFTEST = """
from pathlib import Path
from kit import collecting

def pytest_configure(config):
    config.pluginmanager.register(collecting.QuickCollection())

share = collecting.rewrite_share

def counted(config):
    count = share(config)
    if hasattr(config, "workerinput"):
        (config.rootpath / f"{config.workerinput['workerid']}.count").write_text(str(count))

collecting.rewrite_share = counted
"""

MODULE = """
import gc

def test_garbage():
    assert gc.isenabled()
    assert gc.get_freeze_count() > 10_000

def test_fails():
    number = 3
    assert number == 4
"""


def test_each_worker_rewrites_a_share(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", f"{TESTS.parent}:{TESTS}")
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    pytester.makeini("[pytest]\naddopts = --import-mode=importlib\n")
    pytester.makeconftest(CONFTEST)
    pytester.mkdir("tests")
    for number in range(MODULES):
        pytester.path.joinpath(f"tests/test_{number}.py").write_text(MODULE)

    def run() -> list[int]:
        options = ("-n", "2", "-p", "no:asyncio", "-p", "no:trio", "tests")
        result = pytester.runpytest_subprocess(*options)
        result.assert_outcomes(passed=MODULES, failed=MODULES)
        result.stdout.fnmatch_lines(["E*assert 3 == 4"])
        return [int(path.read_text()) for path in sorted(pytester.path.glob("*.count"))]

    first, second = run()
    # Fewer than its share, if another one has collected a module before this one came to it.
    assert 0 < first + second <= MODULES
    assert first <= 4
    assert second <= 3
    assert run() == [0, 0]
