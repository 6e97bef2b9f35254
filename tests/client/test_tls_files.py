"""What `TLS` reads from files, what it refuses, and when it reads them again."""

from __future__ import annotations

import logging
import ssl
import threading
from pathlib import Path
from typing import Any

import anyio
import pytest
from client.login.certificates import Authority, Pem

from aiolead import TLS, connect
from aiolead._client.net.tls import ContextSource
from aiolead.errors import ConfigurationError

PASSWORD = "open sesame"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def client(authority: Authority) -> Pem:
    return authority.issue("client@example.org")


def encrypted(pem: Pem, folder: Path) -> Path:
    from cryptography.hazmat.primitives import serialization as s

    key = s.load_pem_private_key(pem.key.read_bytes(), None)
    path = folder / "encrypted.key"
    path.write_bytes(
        key.private_bytes(
            s.Encoding.PEM,
            s.PrivateFormat.PKCS8,
            s.BestAvailableEncryption(PASSWORD.encode()),
        )
    )
    return path


def test_a_context_checks_the_server_unless_told_otherwise(authority: Authority) -> None:
    context = TLS(ca=authority.pem).load()
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
    assert context.minimum_version >= ssl.TLSVersion.TLSv1_2
    relaxed = TLS(ca=authority.pem, check_hostname=False).load()
    assert relaxed.verify_mode is ssl.CERT_REQUIRED
    assert not relaxed.check_hostname


def test_an_encrypted_key(authority: Authority, client: Pem, tmp_path: Path) -> None:
    key = encrypted(client, tmp_path)
    TLS(ca=authority.pem, cert=client.cert, key=key, password=PASSWORD).load()
    with pytest.raises(ConfigurationError, match="password: missing"):
        TLS(ca=authority.pem, cert=client.cert, key=key).load()
    with pytest.raises(ConfigurationError, match="password: wrong") as caught:
        TLS(ca=authority.pem, cert=client.cert, key=key, password=PASSWORD[::-1]).load()
    assert PASSWORD[::-1] not in f"{caught.value!r}{caught.value.__context__!r}"


def test_the_password_is_not_shown(client: Pem) -> None:
    assert PASSWORD not in repr(TLS(cert=client.cert, password=PASSWORD))


@pytest.mark.parametrize(
    "arguments",
    [
        {"ca": ""},
        {"ca": b"ca.pem"},
        {"key": "a.key"},
        {"password": "x"},
        {"cert": "a.pem", "password": b"x"},
        {"server_hostname": ""},
        {"server_hostname": 1},
        {"check_hostname": "yes"},
    ],
)
def test_arguments_that_make_no_sense(arguments: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError) as caught:
        TLS(**arguments)
    assert str(caught.value).startswith(("ca:", "cert:", "password:", "server_", "check_"))


def test_bad_files_are_refused_at_the_call(
    authority: Authority, client: Pem, tmp_path: Path
) -> None:
    empty = tmp_path / "empty.pem"
    empty.touch()
    other = authority.issue()
    for tls, message in (
        (TLS(ca=tmp_path / "none.pem"), "ca: cannot read"),
        (TLS(ca=empty), "ca: no certificates in"),
        (TLS(ca=authority.pem, cert=empty), "cert: "),
        (TLS(ca=authority.pem, cert=client.cert), "cert: "),
        (TLS(ca=authority.pem, cert=client.cert, key=other.key), "cert, key: .*mismatch"),
    ):
        with pytest.raises(ConfigurationError, match=message):
            connect("127.0.0.1", tls=tls)


@pytest.mark.parametrize(
    "context",
    [ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), "ca.pem", True],
    ids=["of a server", "a path", "a flag"],
)
def test_what_is_no_context_for_clients(context: Any) -> None:
    with pytest.raises(ConfigurationError, match="tls: "):
        connect("127.0.0.1", tls=context)


async def test_a_context_of_the_users_own_is_used_as_it_is() -> None:
    own = ssl.create_default_context()
    assert await ContextSource(own).current() is own


async def test_files_are_read_again_when_they_have_changed(
    authority: Authority, client: Pem, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "aiolead.connection")
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"

    def install(pem: Pem) -> None:
        """As tools do that renew certificates: beside it, then in its place."""
        for source, target in ((pem.cert, cert), (pem.key, key)):
            new = target.with_suffix(".new")
            new.write_bytes(source.read_bytes())
            new.replace(target)

    install(client)
    source = ContextSource(TLS(ca=authority.pem, cert=cert, key=key))
    first = await source.current()
    assert await source.current() is first
    assert caplog.messages == []

    install(authority.issue("client@example.org"))
    second = await source.current()
    assert second is not first
    assert await source.current() is second
    assert caplog.messages == ["TLS files have changed: the next connection uses them"]

    caplog.clear()
    key.write_text("half a key")
    assert await source.current() is second
    assert await source.current() is second
    assert len(caplog.messages) == 1, "said once, not with every connection"
    assert caplog.records[0].levelno == logging.WARNING
    assert "not used" in caplog.messages[0]

    key.unlink()
    assert await source.current() is second
    install(client)
    assert await source.current() not in (first, second)


async def test_a_slow_disk_does_not_keep_anybody_from_giving_up(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = ContextSource(TLS(ca=authority.pem))
    turning = threading.Event()

    def slowly(tls: TLS, seen: object) -> None:
        turning.wait(30)

    monkeypatch.setattr("aiolead._client.net.tls._refresh", slowly)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(source.current)
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    assert not turning.is_set()
    turning.set()
