"""The page of supported versions says what the code, the tools and the workflows have."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import yaml
from tools.fetch_zookeeper import SUITES

from aiolead._wire.versions import OLDEST, TESTED, Feature, Version
from aiolead.cli.doctor import server_checks

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "support.md").read_text("utf-8")


def matrix(workflow: str, job: str) -> Any:
    """What a job of a workflow runs with."""
    text = (ROOT / ".github" / "workflows" / f"{workflow}.yml").read_text("utf-8")
    return yaml.safe_load(text)["jobs"][job]["strategy"]["matrix"]


def text_of(version: Version) -> str:
    return ".".join(map(str, version))


def rows(heading: str) -> list[str]:
    """The rows of the first table below a heading."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return re.findall(r"^\|.*\|$", section, re.MULTILINE)[2:]


def called_tested(heading: str) -> list[str]:
    """The first cell of the rows that say "tested" in the second."""
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows(heading)]
    return [first for first, state, *_ in cells if state == "tested"]


def test_the_differences_are_those_of_the_table() -> None:
    assert rows("Differences between ZooKeeper versions") == [
        f"| `{feature.name}`: {feature.label} | {', '.join(map(text_of, feature.releases))} "
        f"| {feature.before} |"
        for feature in Feature
    ]


def test_the_versions_of_zookeeper_are_those_of_the_tests() -> None:
    versions = [text_of(version) for version in TESTED]
    assert called_tested("ZooKeeper") == versions[::-1]
    assert list(SUITES) == versions
    assert f"| other releases from {text_of(OLDEST)} on | expected |" in PAGE
    assert f"| before {text_of(OLDEST)} | not supported |" in PAGE
    assert OLDEST[:2] == server_checks.OLDEST
    since = Feature.JOINING_KEEPS_COMMITS.releases
    assert f"use {', '.join(map(text_of, since))} or newer" in PAGE
    # The other jobs run with the oldest one, which Debian 12 has.
    assert matrix("ci", "zookeeper")["zookeeper"] == list(SUITES)[1:]


def test_the_versions_of_python_are_those_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    pythons = [
        classifier.rpartition(" ")[2]
        for classifier in project["classifiers"]
        if re.fullmatch(r".*Python :: 3\.\d+", classifier)
    ]
    assert called_tested("Python") == pythons
    assert matrix("ci", "test")["python"] == pythons
    assert matrix("release", "try")["python"] == pythons
    assert f"PYTHONS = {pythons}".replace("'", '"') in (ROOT / "noxfile.py").read_text("utf-8")
    assert project["requires-python"] == f">={pythons[0]}"


def test_the_event_loops_are_those_that_the_package_asks_for() -> None:
    metadata = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    (trio,) = metadata["project"]["optional-dependencies"]["trio"]
    (uvloop,) = [
        line
        for group in metadata["dependency-groups"].values()
        for line in group
        if isinstance(line, str) and line.startswith("uvloop")
    ]
    for needed in (trio, uvloop):
        name, _, least = needed.partition(">=")
        assert f"{name}, from {least} on" in called_tested("Event loops")
