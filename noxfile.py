"""Checks that depend on versions, each in an environment of its own: `nox`, `nox -s tests-3.13`.

`make test` does everything on one Python. These sessions run the tests of pure code and of the
recipes on each Python (more tests: `nox -s tests-3.13 -- tests/client`), and the tests of code that
calls other packages with their oldest and newest versions: `nox -s oldest newest`.
"""

from pathlib import Path

import nox

nox.options.error_on_missing_interpreters = False
nox.options.sessions = ["tests"]
nox.needs_version = ">=2025.2"

PYTHONS = ["3.11", "3.12", "3.13", "3.14"]
PROJECT = nox.project.load_toml("pyproject.toml")
PURE = ["tests/root", "tests/parsing", "tests/session", "tests/wire"]
QUICK = [*PURE, "tests/recipes", "-m", "not real"]
DEPENDING = [
    *PURE,
    "tests/recipes/locks",
    "tests/recipes/election",
    "tests/client/test_connect.py",
    "tests/client/test_hosts.py",
    "tests/blocking",
    "tests/cli/test_arguments.py",
    "tests/cli/test_output.py",
    "tests/cli/test_top.py",
    "tests/cli/test_dashboard.py",
]
"""Tests of what calls a dependency: event loops, the command, the dashboard, the sinks."""


@nox.session(python=PYTHONS)
def tests(session: nox.Session) -> None:
    """The tests that need no real server; or those that are named."""
    session.install("-e", ".[cli,trio]", *nox.project.dependency_groups(PROJECT, "test"))
    session.run("python", "-m", "pytest", *(session.posargs or QUICK))


@nox.session
def oldest(session: nox.Session) -> None:
    """With the lowest versions of the dependencies that pyproject.toml allows."""
    constraints = Path(session.create_tmp(), "oldest.txt")
    with constraints.open("w") as file:
        session.run("python", "tests/tools/constraints.py", stdout=file)
    _with_dependencies(session, "--constraint", str(constraints))


@nox.session
def newest(session: nox.Session) -> None:
    """With the newest versions of the dependencies."""
    _with_dependencies(session, "--upgrade-strategy", "eager")


def _with_dependencies(session: nox.Session, *how: str) -> None:
    session.install("--upgrade", "pip>=25.1")
    session.install("--upgrade", *how, "--editable", ".[cli,trio]", "--group", "check")
    session.run("python", "-m", "pytest", "-n", "2", "--dist", "loadfile", "--promises", *DEPENDING)
