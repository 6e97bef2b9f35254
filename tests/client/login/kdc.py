"""A Kerberos realm of the tests' own: MIT's KDC on loopback, its files in a folder."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from client.login.login_servers import listens

from aiolead.testing.launch import LOOPBACK, ChildProcess, free_ports, wait_until

REALM = "AIOLEAD.TEST"
SERVICE = "zookeeper/localhost"
PROGRAMS = ("krb5kdc", "kadmin.local", "kdb5_util")

HOW_TO_INSTALL = "apt-get install --no-install-recommends krb5-kdc krb5-admin-server libkrb5-dev"


def missing() -> list[str]:
    """The programs and packages that are missing."""
    found: list[str] = [name for name in PROGRAMS if _find(name) is None]
    try:
        import gssapi  # noqa: F401
    except ImportError:
        found.append("the Python package gssapi")
    return found


def _find(program: str) -> str | None:
    # Debian has them where only root looks.
    return shutil.which(program) or shutil.which(program, path="/usr/sbin:/usr/local/sbin")


@dataclass(frozen=True, slots=True)
class Realm:
    """A running one.

    Attributes:
        config: the file that `KRB5_CONFIG` has to name.
        folder: where its files are.
    """

    config: Path
    folder: Path
    environment: dict[str, str]

    def keytab(self, principal: str, life: str = "1h") -> Path:
        """Adds a principal, whose tickets have a longest life, and writes its key to a file."""
        path = self.folder / f"{principal.replace('/', '-')}.keytab"
        self._admin(f'addprinc -randkey -maxlife "{life}" {principal}')
        self._admin(f"ktadd -k {path} {principal}")
        return path

    def _admin(self, query: str) -> None:
        _run(self.environment, "kadmin.local", "-r", REALM, "-q", query)


def _run(environment: dict[str, str], program: str, *arguments: str) -> None:
    path = _find(program)
    assert path is not None
    result = subprocess.run(
        [path, *arguments],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr


@contextmanager
def realm(folder: Path) -> Iterator[Realm]:
    """Starts the KDC; its database is gone with the folder."""
    (port,) = free_ports(1)
    config, profile = folder / "krb5.conf", folder / "kdc.conf"
    config.write_text(
        f"[libdefaults]\n default_realm = {REALM}\n dns_lookup_kdc = false\n"
        " dns_lookup_realm = false\n dns_canonicalize_hostname = false\n rdns = false\n"
        # Java and MIT's library share the file; over TCP nothing is lost and sent again.
        f" udp_preference_limit = 1\n default_ccache_name = FILE:{folder}/ccache\n"
        f"[realms]\n {REALM} = {{\n  kdc = {LOOPBACK}:{port}\n }}\n"
        f"[domain_realm]\n localhost = {REALM}\n"
    )
    profile.write_text(
        f"[realms]\n {REALM} = {{\n  database_name = {folder}/principal\n"
        f"  key_stash_file = {folder}/stash\n  acl_file = {folder}/acl\n"
        # No UDP, whose port `free_ports` has.
        f'  kdc_listen = ""\n  kdc_tcp_listen = {LOOPBACK}:{port}\n'
        "  max_life = 1h\n }\n"
        f"[logging]\n kdc = FILE:{folder}/kdc.log\n"
    )
    environment = {"KRB5_CONFIG": str(config), "KRB5_KDC_PROFILE": str(profile)}
    _run(environment, "kdb5_util", "create", "-r", REALM, "-s", "-P", "of no use to anybody")
    program = _find("krb5kdc")
    assert program is not None
    assignments = [f"{name}={value}" for name, value in environment.items()]
    command = ["/usr/bin/env", *assignments, program, "-n", "-r", REALM]
    kdc = ChildProcess(command, folder / "output.log")
    try:
        assert wait_until(lambda: listens(port), 20), (folder / "output.log").read_text()
        yield Realm(config, folder, environment)
    finally:
        kdc.kill()
