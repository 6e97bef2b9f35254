"""Requests and locks work with the plain versions of `_client.fast`, too: those by anyio alone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from aiolead._client.fast import IS_PLAIN

ROOT = Path(__file__).resolve().parents[2]

FILES = ("client/test_watches", "recipes/locks/test_lock", "recipes/test_leaving")

CHOICE = """
from aiolead._client import fast
print(fast.IS_PLAIN, fast.Wakeup.__module__, fast.reply_future.__module__)
"""


def in_new_process(*arguments: str, is_plain: bool) -> str:
    env = os.environ | {"AIOLEAD_PLAIN": "1" if is_plain else "0"}
    command = [sys.executable, "-P", *arguments]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("is_plain", "expected"),
    [
        (False, "False aiolead._client.fast.waiting aiolead._client.fast.waiting"),
        (True, "True anyio aiolead._client.fast.plain"),
    ],
)
def test_environment_chooses_the_versions(is_plain: bool, expected: str) -> None:
    assert in_new_process("-c", CHOICE, is_plain=is_plain).strip() == expected


@pytest.mark.skipif(IS_PLAIN, reason="these are such tests")
@pytest.mark.timeout(240)
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_tests_pass_with_the_plain_versions(backend: str) -> None:
    files = [f"tests/{name}.py" for name in FILES]
    pytest_run = ("-m", "pytest", "-q", "-n0", "-pno:cacheprovider", "--promises")
    chosen = f"{backend} and not uvloop and not ensemble"
    last = in_new_process(*pytest_run, "-k", chosen, *files, is_plain=True)
    assert " passed" in last
