"""The Pythons that are supported, each in an environment of its own: `nox`, `nox -s tests-3.13`.

`make test` does everything on one Python. This does what depends on the Python: the tests of pure
code and of the recipes, on the embedded server. More tests: `nox -s tests-3.13 -- tests/client`.
"""

import nox

nox.options.error_on_missing_interpreters = False
nox.needs_version = ">=2025.2"

PYTHONS = ["3.11", "3.12", "3.13", "3.14"]
PROJECT = nox.project.load_toml("pyproject.toml")
QUICK = ["tests/unit", "tests/recipes", "-m", "not real"]


@nox.session(python=PYTHONS)
def tests(session: nox.Session) -> None:
    """The tests that need no real server; or those that are named."""
    session.install("-e", ".[cli,trio]", *nox.project.dependency_groups(PROJECT, "test"))
    session.run("python", "-m", "pytest", *(session.posargs or QUICK))
