#!/usr/bin/env python3
"""Fetches ZooKeeper distributions for the tests, without installing them:

    fetch_zookeeper.py DIRECTORY [VERSION...] [--sha512 HEX]

Without a version, each that docs/reference/support.md calls tested. Each is unpacked to
DIRECTORY/VERSION, where `ZOOKEEPER_HOMES=DIRECTORY` finds it; one that is there is left alone. On
Debian it is the package of the suite that has this version, from the mirror that apt is configured
with, whose signatures apt checks. Elsewhere it is Apache's binary release, over
the proxy of the environment (`https_proxy`), with the checksum below or the one that is given.

Exits with 1 and says which are missing if any could not be fetched. Needs nothing but Python.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import urllib.request
from pathlib import Path

SUITES = {"3.8.0": "bookworm", "3.9.3": "trixie", "3.9.6": "sid"}
"""Debian's suite with each version. Unstable moves on: then it is Apache's release."""

ARCHIVE = "https://archive.apache.org/dist/zookeeper/zookeeper-{0}/apache-zookeeper-{0}-bin.tar.gz"
SHA512 = {
    "3.9.3": "d44d870c1691662efbf1a8baf1859c901b820dc5ff163b36e81beb27b6fbf3cd"
    "31b5f1f075697edaaf6d3e7a4cb0cc92f924dcff64b294ef13d535589bdaf143",
}

KEYS = Path("/usr/share/keyrings/debian-archive-keyring.gpg")

# Of all that the package depends on, what a server loads.
PACKAGES = re.compile(r"(lib.*-java|zookeeper)_")
JARS = re.compile(
    r"(zookeeper|zookeeper-jute|slf4j-(api|simple)|log4j-1\.2|netty(-[a-z][a-z0-9]*)*|metrics-core|snappy-java|"
    r"commons-(io|cli)|jackson-(core|databind|annotations)|jline2?|"
    r"jetty9-(server|servlet|util|http|io))\.jar"
)


class NotFetchedError(Exception):
    """Why a version could not be had from a place."""


def run(*command: str | Path, cwd: Path | None = None) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr.strip() or done.stdout.strip() or "no output").splitlines()[-1]
        raise NotFetchedError(f"{command[0]} failed: {last}")
    return done.stdout


def from_debian(version: str, lib: Path, scratch: Path) -> None:
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise NotFetchedError("this is no Debian")
    suite = SUITES.get(version)
    if suite is None:
        raise NotFetchedError(f"no suite of Debian is known to have {version}")
    apt = ["apt-get", "-qq", *apt_options(suite, scratch)]
    run(*apt, "update")
    listed = run(*apt, "--no-install-recommends", "--print-uris", "install", "zookeeper")
    files = re.findall(r"^'[^']*' (\S+) ", listed, re.MULTILINE)
    names = sorted({name.partition("_")[0] for name in files if PACKAGES.match(name)})
    run(*apt, "download", *names, cwd=scratch)
    for package in scratch.glob("*.deb"):
        run("dpkg-deb", "-x", package, scratch / "root")
    jars = scratch / "root" / "usr" / "share" / "java"
    if not (jars / f"zookeeper-{version}.jar").exists():
        found = re.findall(r"^'[^']*' zookeeper_([0-9.]+)", listed, re.MULTILINE)
        raise NotFetchedError(f"Debian {suite} has {' '.join(found) or 'no ZooKeeper'}")
    for jar in jars.iterdir():
        if JARS.fullmatch(jar.name) and jar.exists():
            is_server = jar.name == "zookeeper.jar"
            shutil.copy(jar, lib / (f"zookeeper-{version}.jar" if is_server else jar.name))


def apt_options(suite: str, scratch: Path) -> list[str]:
    """Options with which apt sees only this suite, on the machine's mirror, nothing installed."""
    told = run("apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages")
    mirrors = [uri for uri in told.splitlines() if uri.rstrip("/").endswith("/debian")]
    if not mirrors:
        raise NotFetchedError("apt knows no mirror of Debian")
    (scratch / "lists").mkdir()
    (scratch / "cache" / "archives" / "partial").mkdir(parents=True)
    (scratch / "status").touch()
    signed = f"[signed-by={KEYS}] " if KEYS.exists() else ""
    (scratch / "sources.list").write_text(f"deb {signed}{mirrors[0]} {suite} main\n", "utf-8")
    settings = {
        "Dir::Etc::sourcelist": scratch / "sources.list",
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::State::lists": scratch / "lists",
        "Dir::State::status": scratch / "status",
        "Dir::Cache": scratch / "cache",
        # The sandbox's user could not read the scratch folder.
        "APT::Sandbox::User": "root",
    }
    return [part for name, value in settings.items() for part in ("-o", f"{name}={value}")]


def from_apache(version: str, lib: Path, scratch: Path, sha512: str | None) -> None:
    expected = sha512 or SHA512.get(version)
    if expected is None:
        raise NotFetchedError(f"no checksum of Apache's {version} is known: pass --sha512")
    archive = scratch / "release.tar.gz"
    try:
        with urllib.request.urlopen(ARCHIVE.format(version), timeout=60) as answer:
            archive.write_bytes(answer.read())
    except OSError as error:
        raise NotFetchedError(f"{ARCHIVE.format(version)}: {error}") from error
    found = hashlib.sha512(archive.read_bytes()).hexdigest()
    if found != expected.lower():
        raise NotFetchedError(f"{ARCHIVE.format(version)} has another checksum: {found}")
    with tarfile.open(archive) as release:
        for member in release:
            parts = Path(member.name).parts
            source = release.extractfile(member) if member.isfile() else None
            if source is not None and len(parts) == 3 and parts[1] == "lib":
                (lib / parts[2]).write_bytes(source.read())


def fetch(version: str, directory: Path, sha512: str | None) -> None:
    home = directory / version
    if list(home.glob("lib/zookeeper-[0-9]*.jar")):
        return
    problems = []
    for place in ("Debian", "Apache"):
        with tempfile.TemporaryDirectory(prefix="zookeeper-") as name:
            scratch = Path(name)
            lib = scratch / "home" / "lib"
            lib.mkdir(parents=True)
            try:
                if place == "Debian":
                    from_debian(version, lib, scratch)
                else:
                    from_apache(version, lib, scratch, sha512)
            except NotFetchedError as problem:
                problems.append(str(problem))
                continue
            directory.mkdir(parents=True, exist_ok=True)
            shutil.copytree(lib.parent, home, dirs_exist_ok=True)
            print(f"ZooKeeper {version}, from {place}: {home}")
            return
    raise NotFetchedError(f"ZooKeeper {version} was not fetched: {'; '.join(problems)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("versions", nargs="*", metavar="version", help="such as 3.9.3")
    parser.add_argument("--sha512", help="the checksum of Apache's binary release")
    given = parser.parse_args()
    missing = []
    for version in given.versions or SUITES:
        if not re.fullmatch(r"[0-9]+\.[0-9]+\.[0-9]+", version):
            parser.error(f"version: must be such as 3.9.3, not {version!r}")
        try:
            fetch(version, given.directory, given.sha512)
        except NotFetchedError as problem:
            missing.append(str(problem))
    if missing:
        sys.exit("\n".join(missing))


if __name__ == "__main__":
    main()
