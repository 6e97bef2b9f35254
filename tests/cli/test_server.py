"""`aiolead server`."""

from __future__ import annotations

import queue
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from client.login.certificates import Authority, Pem
from kazoo.client import KazooClient, KazooState
from kit.cli import Command, Run, prints, shown

from aiolead.cli import main
from aiolead.testing.launch import free_ports

ADDRESS = r"^127\.0\.0\.1:\d+$"


def test_kazoo_uses_the_server() -> None:
    with Command("server", "--port", "0", fresh=True) as server:
        hosts = server.out.expect(ADDRESS)[0]
        server.err.expect("for development: everything is in memory")
        client = KazooClient(hosts)
        client.start(timeout=30)
        try:
            client.create("/from-kazoo", b"data")
            assert client.get("/from-kazoo")[0] == b"data"
        finally:
            client.stop()
            client.close()
        assert server.finish(signal.SIGTERM) == 0
        assert server.out.rest() == [hosts]


def test_server_for_other_machines_prints_a_warning() -> None:
    with Command("server", "--listen", "0.0.0.0:0", "-q") as server:
        server.out.expect(":")
        server.err.expect("^aiolead: the embedded server.*other machines can reach it$")


def test_taken_port_is_reported(capfd: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["server", "--port", str(port)]) == 1
    out, err = capfd.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1
    assert "--port 0 takes a free one" in err


@pytest.mark.parametrize("ends_by", [signal.SIGKILL, signal.SIGTERM])
def test_data_dir_keeps_znodes_and_sessions(tmp_path: Path, ends_by: signal.Signals) -> None:
    """A client of another library reconnects with its session, as to a real server."""
    port = free_ports(1)[0]
    options = ("server", "--port", str(port), "--data-dir", str(tmp_path / "data"))
    client = KazooClient(f"127.0.0.1:{port}", timeout=10)
    states: queue.SimpleQueue[str] = queue.SimpleQueue()
    try:
        with Command(*options, fresh=True) as server:
            server.err.expect(f"its data are in {tmp_path}")
            client.start(timeout=30)
            session = client.client_id
            client.create("/a/mine", b"data", ephemeral=True, makepath=True)
            client.add_listener(states.put)
            server.signal(ends_by)
            server.finish()
            assert states.get(timeout=30) == KazooState.SUSPENDED
            # Queued until there is a server again.
            created = client.create_async("/a/b")
        with Command(*options, fresh=True):
            assert states.get(timeout=30) == KazooState.CONNECTED
            assert created.get(timeout=30) == "/a/b"
            assert client.client_id == session
            data, stat = client.get("/a/mine")
            assert (data, stat.ephemeralOwner) == (b"data", session[0])
    finally:
        client.stop()
        client.close()


# --- TLS and logins ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls"))


def files(pem: Pem) -> tuple[str, ...]:
    return "--tls-cert", str(pem.cert), "--tls-key", str(pem.key)


@contextmanager
def serving(*options: str) -> Iterator[str]:
    with Command("server", "--port", "0", *options, fresh=True) as server:
        yield server.out.expect(ADDRESS)[0]
        assert server.finish(signal.SIGTERM) == 0


@pytest.mark.exhaustive("an edge of the command")
def test_server_with_tls(run: Run, authority: Authority) -> None:
    with serving(*files(authority.issue())) as hosts:
        assert run("create /a --tls-ca", str(authority.pem), hosts=hosts) == prints("/a")
        assert run("ls --connect-timeout 1", hosts=hosts)[:2] == (69, [])


@pytest.mark.exhaustive("an edge of the command")
def test_tls_port_beside_a_port_without_tls(run: Run, authority: Authority) -> None:
    options = ("--port", "0", "--tls-port", "0", *files(authority.issue()))
    with Command("server", *options, fresh=True) as server:
        plain, secure = (server.out.expect(ADDRESS)[0] for _ in range(2))
        trusting = ("--tls-ca", str(authority.pem))
        assert run("create /a", hosts=plain) == prints("/a")
        assert run("ls", *trusting, hosts=secure) == prints("a", "zookeeper")
        # Neither port serves the clients of the other.
        assert run("ls --connect-timeout 1", hosts=secure)[0] == 69
        assert run("ls --connect-timeout 1", *trusting, hosts=plain)[0] == 69
        assert server.finish(signal.SIGTERM) == 0


@pytest.mark.exhaustive("an edge of the command")
def test_certificates_of_clients_are_identities(run: Run, authority: Authority) -> None:
    own = authority.issue("client.example", common_name="client")
    other = authority.issue("other.example", common_name="other")
    trusting = ("--tls-ca", str(authority.pem))
    with serving(*files(authority.issue()), *trusting) as hosts:
        assert run("create /a --acl auth::cdrwa", *trusting, *files(own), hosts=hosts)[0] == 0
        assert run("get /a", *trusting, *files(own), hosts=hosts)[0] == 0
        assert run("get /a", *trusting, *files(other), hosts=hosts)[0] == 77
        assert run("ls --connect-timeout 1", *trusting, hosts=hosts)[:2] == (69, [])


@pytest.mark.exhaustive("an edge of the command")
@pytest.mark.parametrize("required", [False, True])
def test_sasl_users_log_in(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, required: bool
) -> None:
    users = tmp_path / "users"
    users.write_text("ann:open sesame\n\nbob:with:colons\n")
    users.chmod(0o600)
    options = ("--require-auth", "sasl") if required else ()
    with serving("--sasl-users", str(users), *options) as hosts:
        for login in ("ann:open sesame", "bob:with:colons"):
            monkeypatch.setenv("AIOLEAD_SASL", f"digest-md5:{login}")
            assert run("ls", hosts=hosts) == prints("zookeeper")
        monkeypatch.setenv("AIOLEAD_SASL", "digest-md5:ann:wrong")
        assert run("ls", hosts=hosts)[0] == 77
        monkeypatch.delenv("AIOLEAD_SASL")
        assert run("ls", hosts=hosts)[0] == (77 if required else 0)


def test_file_of_passwords_that_everybody_can_read_is_reported(tmp_path: Path) -> None:
    users = tmp_path / "users"
    users.write_text("ann:open sesame")
    users.chmod(0o644)
    with Command("server", "--port", "0", "--sasl-users", str(users), fresh=True) as server:
        server.out.expect(ADDRESS)
        server.err.expect("has passwords in it, and everybody can read it: chmod o-r")
        assert server.finish(signal.SIGTERM) == 0


def test_server_version_is_reported(run: Run) -> None:
    with serving("--server-version", "3.9.3") as hosts:
        assert "3.9.3" in " ".join(shown(run, "ensemble", hosts=hosts))


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--tls-key", "k"], "--tls-key: needs --tls-cert"),
        (["--tls-ca", "k"], "--tls-ca: needs --tls-cert"),
        (["--tls-port", "0"], "--tls-port: needs --tls-cert"),
        (["--tls-port", "65536"], "--tls-port: must be 0 to 65535"),
        (["--tls-cert", "{folder}/none"], "--tls-cert: cannot read"),
        (["--tls-cert", "{bad}"], "--tls-cert, --tls-key: "),
        (["--tls-cert", "{cert}", "--tls-key", "{bad}"], "--tls-cert, --tls-key: "),
        (["--tls-cert", "{cert}", "--tls-key", "{key}", "--tls-ca", "{bad}"], "--tls-ca: no cert"),
        (["--sasl-users", "{folder}/none"], "--sasl-users: cannot read"),
        (["--sasl-users", "{bad}"], "line 2: must be USER:PASSWORD"),
        (["--sasl-users", "{empty}"], "has no USER:PASSWORD in it"),
        (["--data-dir", "{bad}"], "--data-dir: {bad}: File exists"),
        (["--require-auth", "sasl"], "--require-auth: must be some of ['digest', 'ip']"),
        (["--server-version", "new"], '--server-version: must be a version such as "3.9"'),
    ],
)
def test_invalid_options_are_refused_without_secrets(
    run: Run, tmp_path: Path, authority: Authority, options: list[str], complaint: str
) -> None:
    pem, bad, empty = authority.issue(), tmp_path / "bad", tmp_path / "empty"
    bad.write_text("ann:open sesame\nopen sesame")
    empty.write_text("\n")
    places = {"folder": tmp_path, "bad": bad, "empty": empty, "cert": pem.cert, "key": pem.key}
    given = [option.format(**places) for option in options]
    code, out, err = run("server", "--port", "0", *given, hosts=None)
    assert (code, out, len(err)) == (2, [], 1), err
    assert complaint.format(**places) in err[0]
    assert "sesame" not in err[0]


@pytest.mark.exhaustive("an edge of the command")
def test_options_of_clients_in_the_file_do_not_apply_to_the_server(
    run: Run, tmp_path: Path, authority: Authority
) -> None:
    own = authority.issue("client.example", common_name="client")
    config = tmp_path / "config.toml"
    config.write_text(f'tls-ca = "{authority.pem}"\ntls-cert = "{own.cert}"\ntls-key = "{own.key}"')
    with serving("--config", str(config)) as hosts:
        assert run("ls", hosts=hosts) == prints("zookeeper")
    pem = authority.issue()
    config.write_text(f'[server]\ntls-cert = "{pem.cert}"\ntls-key = "{pem.key}"')
    with serving("--config", str(config)) as hosts:
        assert run("ls --tls-ca", str(authority.pem), hosts=hosts)[0] == 0
