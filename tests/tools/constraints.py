"""Prints constraints for pip: the lowest versions of the package's own dependencies.

`nox -s oldest` installs by them. Packages for tests alone are not constrained, so pip chooses the
newest that goes with the rest. Each lower bound has to name a release that exists.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"
_BOUND = re.compile(r"(?P<name>[A-Za-z0-9._-]+)(\[[^]]*\])?>=(?P<least>[0-9.]+)(,<[0-9.]+)?")


def lowest(requirements: Iterator[str]) -> Iterator[str]:
    """The constraints of requirements of the form `name>=least` or `name>=least,<most`."""
    for requirement in requirements:
        if "==" in requirement or requirement.startswith("aiolead["):
            continue  # it has one version, or is the package itself
        found = _BOUND.fullmatch(requirement.replace(" ", ""))
        if found is None:
            raise SystemExit(f"no lower bound: {requirement!r}")
        yield f"{found['name']}=={found['least']}"


def own_requirements() -> Iterator[str]:
    project = tomllib.loads(PYPROJECT.read_text("utf-8"))["project"]
    yield from project["dependencies"]
    for requirements in project["optional-dependencies"].values():
        yield from requirements


if __name__ == "__main__":
    print(*lowest(own_requirements()), sep="\n")
