"""`python -m aiolead.testing.simulation soak`: what it says, writes, and exits with."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from assurance.simulation.schedules import SCENARIOS

from aiolead.testing.simulation.command import app

CARELESS = f"{Path(__file__).with_name('test_replay.py')}:careless"
"""A scenario with a planted bug."""


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """A soak takes SIGINT and SIGTERM for itself."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_soak_without_violations(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scenario = f"{SCENARIOS}:contend"
    code = app(["soak", scenario, "--seeds", "3", "--jobs", "1", "--report", str(tmp_path)])
    assert code == 0
    assert "6 schedules, " in capsys.readouterr().out
    page = (tmp_path / "report.md").read_text("utf-8")
    assert "**0 schedules with violations.**" in page
    assert "| asyncio | 3 | 0 to 2 |\n| trio | 3 | 0 to 2 |" in page
    assert "\nNone.\n" in page


def test_violation_is_reported_with_its_command(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    options = ["--seeds", "12", "--first", "40", "--backend", "trio", "--jobs", "1"]
    assert app(["soak", CARELESS, *options, "--report", str(tmp_path)]) == 1
    told = capfd.readouterr().err
    assert "VIOLATION " in told
    page = (tmp_path / "report.md").read_text("utf-8")
    replay = next(line.strip() for line in page.splitlines() if line.strip().startswith("python"))
    assert replay in told
    assert "| trio | 12 | 40 to 51 |" in page


@pytest.mark.parametrize("arguments", [[], ["--seeds", "1"], [f"{SCENARIOS}:contend"]])
def test_missing_arguments_are_reported(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert app(["soak", *arguments]) == 2
    assert "Needed: at least one scenario" in capsys.readouterr().out
