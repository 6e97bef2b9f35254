"""Runs the tests with real servers on every ZooKeeper that is found, one version after the other:

    python tests/tools/every_zookeeper.py [--others] [pytest's arguments ...]

Versions are looked for as always (`find_installations`), and in build/zookeepers, where
`python tests/tools/fetch_zookeeper.py build/zookeepers` puts them. `--others` leaves out the
version that the tests have by default. At the end a table says what passed, failed and was skipped
on which version, and which version that docs/reference/support.md calls tested was not found: a
failure if AIOLEAD_REQUIRE_ZOOKEEPERS=1.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree

from aiolead._wire.versions import TESTED
from aiolead.testing.installation import (
    Installation,
    ZooKeeperNotFoundError,
    find_installation,
    find_installations,
)

ROOT = Path(__file__).parents[2]
FETCHED = ROOT / "build" / "zookeepers"
REQUIRED = "AIOLEAD_REQUIRE_ZOOKEEPERS"
TIER = tuple(
    f"tests/{name}"
    for name in (
        *("assurance/conformance", "assurance/simulation"),
        *("client", "recipes", "cli", "costs", "testing"),
    )
)
COUNTS = ("tests", "failures", "errors", "skipped")


def with_fetched(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment, with the distributions that the tests have fetched."""
    homes = [environ.get("ZOOKEEPER_HOMES", ""), *[str(FETCHED)] * FETCHED.is_dir()]
    return {**environ, "ZOOKEEPER_HOMES": os.pathsep.join(filter(None, homes))}


def only(one: Installation, environ: Mapping[str, str]) -> dict[str, str]:
    """The environment in which this distribution is the default."""
    others = {"ZOOKEEPER_HOME", "ZOOKEEPER_PATH"}
    kept = {name: value for name, value in environ.items() if name not in others}
    return kept if find_installation(kept) == one else {**kept, "ZOOKEEPER_HOME": str(one.home)}


def run(one: Installation, environ: Mapping[str, str], arguments: list[str]) -> tuple[int, str]:
    """Pytest's exit status on this distribution, and how many tests had which outcome."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", "--real-servers", f"--junitxml={report}"]
        status = subprocess.run(
            [*command, *(arguments or TIER)], cwd=ROOT, env=only(one, environ), check=False
        ).returncode
        if not report.exists():
            return status or 1, "no report"
        suites = ElementTree.parse(report).getroot().iter("testsuite")
        counts = [[int(suite.get(name, "0")) for name in COUNTS] for suite in suites]
    tests, failures, errors, skipped = map(sum, zip(*counts, strict=True))
    passed = tests - failures - errors - skipped
    if not passed:
        status = status or 1
    return status, f"{passed} passed, {failures + errors} failed, {skipped} skipped"


def main(arguments: list[str]) -> int:
    environ = with_fetched(os.environ)
    is_others = arguments[:1] == ["--others"]
    try:
        found = find_installations(environ)
        default = find_installation(environ).version if is_others else None
    except ZooKeeperNotFoundError as missing:
        print(missing)
        return int(os.environ.get(REQUIRED) == "1")
    table: dict[str, str] = {}
    statuses = []
    for one in found:
        if one.version == default:
            table[one.version] = "in the rest of the run"
            continue
        print(f"ZooKeeper {one.version}, in {one.home}", flush=True)
        status, table[one.version] = run(one, environ, arguments[is_others:])
        statuses.append(status)
    missing = {".".join(map(str, version)) for version in TESTED} - table.keys()
    table |= dict.fromkeys(
        sorted(missing), "NOT RUN: not found; see tests/tools/fetch_zookeeper.py"
    )
    for version, outcome in table.items():
        print(f"ZooKeeper {version:8} {outcome}")
    return max([*statuses, int(bool(missing) and os.environ.get(REQUIRED) == "1"), 0])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
