#!/usr/bin/env python3
"""Runs kazoo's own tests against `aiolead server`, or with `--real` against a real ZooKeeper:

    kazoo_tests.py KAZOO PYTHON [--real CLASSPATH] [pytest's arguments]

KAZOO is an unpacked source distribution (`pip download --no-deps --no-binary :all: kazoo==2.11.0`).
PYTHON is an interpreter with what its tests need (`pip install "kazoo[test,sasl]==2.11.0"
"pyopenssl<24" "cryptography<42"`). This program runs under aiolead's own interpreter. CLASSPATH has
the jars of a server, Netty included. A test may take 90 seconds.

kazoo's harness starts servers as `java ... QuorumPeerMain zoo.cfg`. For `aiolead server`, this
program stands in for `java`: it reads the same file, and starts a server on the same ports, with
the same certificates and users. The server keeps its data, since tests restart it.
"""

from __future__ import annotations

import argparse
import importlib
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

VERSION = "3.9.3"
SERVED_BY = "KAZOO_TESTS_SERVED_BY"
"""The interpreter of aiolead, in the environment of the stand-in."""


def run_tests(
    kazoo: Path, python: Path, classpath: str | None, arguments: list[str], folder: Path
) -> int:
    environ = os.environ | {
        "ZOOKEEPER_VERSION": VERSION,
        "ZOOKEEPER_CLUSTER_SIZE": "1",
        "ZOOKEEPER_CLASSPATH": classpath or "none",
    }
    if classpath is None:
        stand_in = folder / "java"
        command = [str(python), str(Path(__file__).resolve()), "--stand-in"]
        stand_in.write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n', encoding="utf-8")
        stand_in.chmod(0o755)
        environ["PATH"] = f"{folder}{os.pathsep}{environ['PATH']}"
        environ[SERVED_BY] = sys.executable
    command = [str(python), "-m", "pytest", "-q", "--timeout=90", "kazoo/tests", *arguments]
    return subprocess.run(command, cwd=kazoo, env=environ, check=False).returncode


def write_certificates(settings: dict[str, str], certificate: Path, authorities: Path) -> None:
    """Write what is in the key stores as PEM files."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.x509 import load_der_x509_certificate

    jks: Any = importlib.import_module("jks")  # kazoo's tests need it, and aiolead's do not
    pem = serialization.Encoding.PEM

    def store(kind: str) -> Any:
        return jks.KeyStore.load(
            settings[f"ssl.{kind}Store.location"], settings[f"ssl.{kind}Store.password"]
        )

    entry = next(iter(store("key").private_keys.values()))
    key = serialization.load_der_private_key(entry.pkey_pkcs8, None)
    chain = [load_der_x509_certificate(der).public_bytes(pem) for _, der in entry.cert_chain]
    trusted = store("trust").certs.values()
    private = key.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    certificate.write_bytes(b"".join((private, *chain)))
    authorities.write_bytes(
        b"".join(load_der_x509_certificate(each.cert).public_bytes(pem) for each in trusted)
    )


def stand_in(arguments: list[str]) -> None:
    """Become the server that the command line of a real one describes."""
    config = Path(arguments[-1])
    lines = config.read_text("utf-8").splitlines()
    settings = dict(line.split("=", 1) for line in lines if "=" in line)
    certificate, authorities = config.with_name("server.pem"), config.with_name("trusted.pem")
    if not certificate.exists():  # kazoo waits 5 seconds for a server that it has restarted
        write_certificates(settings, certificate, authorities)
    data = Path(settings["dataDir"]) / "aiolead"
    data.mkdir(parents=True, exist_ok=True)
    command = [
        *(os.environ[SERVED_BY], "-m", "aiolead", "server", "--server-version", VERSION),
        *("--port", settings["clientPort"], "--tls-port", settings["secureClientPort"]),
        *("--tls-cert", str(certificate), "--tls-ca", str(authorities), "--data-dir", str(data)),
    ]
    login = "-Djava.security.auth.login.config="
    for path in (Path(each[len(login) :]) for each in arguments if each.startswith(login)):
        if users := re.findall(r'user_(\w+)="([^"]*)"', path.read_text("utf-8")):
            file = config.with_name("users")
            file.write_text("".join(f"{user}:{word}\n" for user, word in users), "utf-8")
            command += ["--sasl-users", str(file)]
    os.execv(command[0], command)


def main() -> int:
    if sys.argv[1:2] == ["--stand-in"]:
        stand_in(sys.argv[2:])
    parser = argparse.ArgumentParser()
    parser.add_argument("kazoo", type=Path)
    parser.add_argument("python", type=Path)
    parser.add_argument("--real", metavar="CLASSPATH")
    options, arguments = parser.parse_known_args()
    with tempfile.TemporaryDirectory() as folder:
        return run_tests(
            options.kazoo, options.python.absolute(), options.real, arguments, Path(folder)
        )


if __name__ == "__main__":
    sys.exit(main())
