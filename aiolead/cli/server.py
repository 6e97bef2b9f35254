"""`aiolead server`."""

from __future__ import annotations

import os
import ssl
import stat
from pathlib import Path
from typing import Annotated

import anyio
from cyclopts import Parameter

from .._util.escaping import unless_invalid
from ..errors import ConfigurationError
from ..paths import format_host
from . import exits
from .environment import variable
from .options import BASICS, Basics, Port, listening_address, reading
from .output import Reporter


def server(
    *,
    listen: str = "127.0.0.1:2181",
    port: Port | None = None,
    tls_cert: Path | None = None,
    tls_key: Path | None = None,
    tls_ca: Path | None = None,
    tls_port: Port | None = None,
    sasl_users: Path | None = None,
    require_auth: Annotated[list[str] | None, Parameter(negative="")] = None,
    server_version: str = "3.8.0",
    data_dir: Path | None = None,
    basics: Basics = BASICS,
) -> int:
    """Run a ZooKeeper server for development, until SIGINT or SIGTERM.

    It speaks ZooKeeper's protocol to every client, and keeps everything in memory: all data are
    gone when it ends, unless there is a --data-dir. There are no replicas; never use it in
    production.

    The first line on standard output is the connect string (with --json, in an object as "hosts").
    With --tls-port, the second line is the one for TLS ("tls_hosts").

    Args:
        listen: The address and the port to listen on; port 0 takes a free one.
        port: The port, instead of that of --listen.
        tls_cert: The PEM file with the server's certificate. Then every client must use TLS,
            unless there is a --tls-port.
        tls_key: The PEM file with its private key, if it is another file; if the key is encrypted,
            the password is in the environment variable AIOLEAD_TLS_KEY_PASSWORD.
        tls_ca: A PEM file with authorities: clients must show a certificate of theirs, whose
            subject is their identity of the scheme x509.
        tls_port: A second port, for TLS (0 takes a free one): clients of the first one use none.
        sasl_users: A file with USER:PASSWORD on each line: who may log in by SASL (digest-md5).
        require_auth: The scheme (sasl, digest, x509) of which every client must prove an identity;
            given several times, one of these schemes.
        server_version: The version of ZooKeeper to behave as.
        data_dir: The directory to keep znodes and sessions in: they survive the end of the process,
            though not a power cut. By default everything is in memory.
        basics: How to run.
    """
    from ..testing import EmbeddedServer  # other commands do not need it

    host, port = listening_address(listen, port)
    reporter = basics.reporter
    context = _tls(tls_cert, tls_key, tls_ca, tls_port)
    users = {} if sasl_users is None else _users(sasl_users, reporter)
    try:
        made = EmbeddedServer(
            host=host,
            port=port,
            ssl_context=context,
            tls_port=tls_port,
            sasl_users=users,
            require_auth=require_auth or (),
            version=server_version,
            data_dir=data_dir,
        )
    except ConfigurationError as error:
        argument, _, rest = str(error).partition(": ")
        if argument == "version":  # elsewhere --version is that of a znode
            raise ConfigurationError(f"--server-version: {rest}") from None
        raise

    async def serve() -> None:
        async with made as embedded:
            found = {"hosts": embedded.connect_string}
            if tls_port is not None:
                found["tls_hosts"] = embedded.tls_connect_string
            basics.show(found, *found.values())
            kept = (
                "everything is in memory, and gone at its end"
                if data_dir is None
                else f"its data are in {data_dir}"
            )
            reporter.state(f"a server for development: {kept}")
            await anyio.sleep_forever()

    try:
        return basics.run_until_signal(serve, endless=True)
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise
        hint = "" if port == 0 else " (--port 0 takes a free one)"
        where = format_host(host, port)
        if tls_port is not None:
            where += f" and {format_host(host, tls_port)}"
        reporter.error(f"cannot listen on {where}: {error.strerror or error}{hint}")
        return exits.FAILED


def _tls(
    cert: Path | None, key: Path | None, ca: Path | None, port: int | None
) -> ssl.SSLContext | None:
    if cert is None:
        for option, given in (("--tls-key", key), ("--tls-ca", ca), ("--tls-port", port)):
            if given is not None:
                raise ConfigurationError(f"{option}: needs --tls-cert, the server's certificate")
        return None
    for option, path in (("--tls-cert", cert), ("--tls-key", key), ("--tls-ca", ca)):
        if path is not None:
            with reading(option, path):
                path.read_bytes()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    # Without a password, OpenSSL would ask for it on the terminal.
    password = os.environ.get(variable("AIOLEAD_TLS_KEY_PASSWORD"), "")
    try:
        context.load_cert_chain(cert, key, lambda: password)
    except ssl.SSLError as error:
        reason = (error.reason or "no certificate and private key").lower().replace("_", " ")
        raise ConfigurationError(
            f"--tls-cert, --tls-key: {cert}{'' if key is None else f', {key}'}: {reason} "
            "(the password of an encrypted key is in AIOLEAD_TLS_KEY_PASSWORD)"
        ) from None
    if ca is not None:
        try:
            context.load_verify_locations(ca)
        except ssl.SSLError:
            raise ConfigurationError(f"--tls-ca: no certificates in {ca}") from None
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def _users(path: Path, reporter: Reporter) -> dict[str, str]:
    """Read users and their passwords, which no message shows."""
    users: dict[str, str] = {}
    with reading("--sasl-users", path):
        text = unless_invalid(path.read_bytes().decode)
    if text is None:
        raise ConfigurationError(f"--sasl-users: {path}: must be UTF-8")
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        user, colon, password = line.partition(":")
        if not (user and colon and password):
            raise ConfigurationError(f"--sasl-users: {path}: line {number}: must be USER:PASSWORD")
        users[user] = password
    if not users:
        raise ConfigurationError(f"--sasl-users: {path}: has no USER:PASSWORD in it")
    if path.stat().st_mode & stat.S_IROTH:
        reporter.error(f"{path} has passwords in it, and everybody can read it: chmod o-r")
    return users
