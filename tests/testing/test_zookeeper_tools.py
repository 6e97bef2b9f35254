"""The tools that fetch several versions of ZooKeeper, and run the tests on each of them."""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
from pathlib import Path

import pytest
from tools import every_zookeeper, fetch_zookeeper

from aiolead.testing import installation
from aiolead.testing.installation import Installation, find_installation

pytestmark = pytest.mark.exhaustive("checks the test runner")


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What Apache's archive has, in a machine that is no Debian."""
    file = tmp_path / "release-3.9.9.tar.gz"
    with tarfile.open(file, "w:gz") as release:
        for name in ("lib/zookeeper-3.9.9.jar", "lib/netty.jar", "bin/zkServer.sh", "../evil.jar"):
            member = tarfile.TarInfo(f"apache-zookeeper-3.9.9-bin/{name}")
            member.size = len(name)
            release.addfile(member, io.BytesIO(name.encode()))
    monkeypatch.setattr(fetch_zookeeper, "ARCHIVE", file.as_uri().replace("3.9.9", "{0}"))
    monkeypatch.setattr(fetch_zookeeper.shutil, "which", lambda name: None)
    return file


def test_a_release_of_apache_is_unpacked_where_it_is_found(
    archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = hashlib.sha512(archive.read_bytes()).hexdigest()
    fetch_zookeeper.fetch("3.9.9", tmp_path / "homes", digest)
    found = [
        file.relative_to(tmp_path) for file in (tmp_path / "homes").rglob("*") if file.is_file()
    ]
    lib = Path("homes/3.9.9/lib")
    assert sorted(found) == [lib / "netty.jar", lib / "zookeeper-3.9.9.jar"]
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.touch(0o755)
    environ = {"ZOOKEEPER_HOMES": str(tmp_path / "homes"), "JAVA_HOME": str(tmp_path)}
    assert find_installation(environ, version="3.9.9").home == tmp_path / "homes" / "3.9.9"
    archive.unlink()
    fetch_zookeeper.fetch("3.9.9", tmp_path / "homes", None)  # it is there


def test_another_checksum_is_refused(archive: Path, tmp_path: Path) -> None:
    with pytest.raises(fetch_zookeeper.NotFetchedError, match="another checksum"):
        fetch_zookeeper.fetch("3.9.9", tmp_path / "homes", "0" * 128)
    with pytest.raises(fetch_zookeeper.NotFetchedError, match=r"no checksum .* --sha512"):
        fetch_zookeeper.fetch("3.9.9", tmp_path / "homes", None)
    assert not (tmp_path / "homes").exists()


@pytest.fixture
def two_versions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A machine with 3.8.0 and 3.9.3, and neither packages nor fetched distributions."""
    for version in ("3.8.0", "3.9.3"):
        (tmp_path / version / "lib").mkdir(parents=True)
        (tmp_path / version / "lib" / f"zookeeper-{version}.jar").touch()
    (tmp_path / "java").touch(0o755)
    monkeypatch.setattr(installation, "_SYSTEM_JARS", tmp_path / "system")
    monkeypatch.setattr(every_zookeeper, "FETCHED", tmp_path / "fetched")
    environ = {"PATH": str(tmp_path), "ZOOKEEPER_HOMES": str(tmp_path)}
    for name in ("ZOOKEEPER_HOME", "ZOOKEEPER_PATH", "JAVA_HOME", every_zookeeper.REQUIRED):
        monkeypatch.delenv(name, raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    return environ


def test_each_version_is_run_as_the_default(two_versions: dict[str, str]) -> None:
    for one in installation.find_installations(two_versions):
        assert find_installation(every_zookeeper.only(one, two_versions)) == one


def test_the_table_says_what_was_run_and_what_was_not(
    two_versions: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    ran = []

    def run(one: Installation, environ: object, arguments: list[str]) -> tuple[int, str]:
        ran.append((one.version, arguments))
        return int(one.version == "3.9.3"), "1 passed, 1 failed, 0 skipped"

    monkeypatch.setattr(every_zookeeper, "run", run)
    assert every_zookeeper.main(["tests/client"]) == 1
    assert ran == [("3.8.0", ["tests/client"]), ("3.9.3", ["tests/client"])]
    said = capsys.readouterr().out
    assert "ZooKeeper 3.9.6    NOT RUN: not found" in said
    ran.clear()
    monkeypatch.setenv("ZOOKEEPER_HOME", f"{two_versions['ZOOKEEPER_HOMES']}/3.9.3")
    assert every_zookeeper.main(["--others"]) == 0
    assert ran == [("3.8.0", [])]
    assert "ZooKeeper 3.9.3    in the rest of the run" in capsys.readouterr().out
    monkeypatch.setenv(every_zookeeper.REQUIRED, "1")
    assert every_zookeeper.main(["--others"]) == 1  # without 3.9.6


@pytest.mark.parametrize(
    ("source", "status", "counts"),
    [
        ("def test_it(): pass", 0, "1 passed, 0 failed, 0 skipped"),
        ("def test_it(): assert False", 1, "0 passed, 1 failed, 0 skipped"),
        ("import pytest\ndef test_it(): pytest.skip()", 1, "0 passed, 0 failed, 1 skipped"),
        ("", 5, "0 passed, 0 failed, 0 skipped"),
    ],
)
def test_a_run_is_counted(
    two_versions: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    source: str, status: int, counts: str,
) -> None:  # fmt: skip
    (tmp_path / "test_it.py").write_text(source)
    (tmp_path / "conftest.py").write_text(
        "def pytest_addoption(parser): parser.addoption('--real-servers', action='store_true')"
    )
    monkeypatch.setattr(every_zookeeper, "ROOT", tmp_path)
    environ = {**os.environ, **two_versions}
    (one, _) = installation.find_installations(two_versions)
    assert every_zookeeper.run(one, environ, ["test_it.py"]) == (status, counts)
