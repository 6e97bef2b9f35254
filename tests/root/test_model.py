"""The values: frozen, slotted, with the numbers of the wire, and without secrets in a repr."""

from __future__ import annotations

import copy
import dataclasses
import json
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from wire.golden import FOLDER

from aiolead import SASL, TLS, events, model, types
from aiolead._client.api.operations import Scope
from aiolead._recipes.recipe import checked_acl
from aiolead._wire.handshake import ConnectRequest, ConnectResponse
from aiolead._wire.requests import AuthPacket, Create, SetACL
from aiolead.cli.options import Common
from aiolead.errors import ConfigurationError
from aiolead.model import (
    ACL,
    CREATOR_ALL_ACL,
    OPEN_ACL_UNSAFE,
    READ_ACL_UNSAFE,
    Auth,
    Created,
    CreateMode,
    EnsembleConfig,
    EventType,
    Identity,
    Missed,
    MissedReason,
    Participant,
    Permission,
    Quota,
    QuotaUsage,
    ServerSpec,
    SessionCredentials,
    SessionState,
    Stat,
    WatchEvent,
)
from aiolead.paths import ConnectString

# From ZooKeeper's Java code; see tests/assurance/golden/GoldenZooKeeper.java.
GOLDEN = json.loads((FOLDER / "zookeeper-3.8.0.json").read_text())

STAT = Stat(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)
VALUES = [
    SessionCredentials(7, b"secret", 4.0),
    ServerSpec(1, (("zk1", 2888, 3888),), ("zk1", 2181)),
    EnsembleConfig((), 7),
    STAT,
    ACL(Permission.READ, "world", "anyone"),
    Auth("digest", b"u:p"),
    Created("/a", STAT),
    Identity("digest", "user"),
    Quota(count=3, bytes_hard=1000),
    QuotaUsage(2, 700),
    Missed(MissedReason.OVERFLOW),
    WatchEvent(EventType.DELETED, "/a"),
    Participant("me", "/a/n", 7, 8, True),
    ConnectString((("zk1", 2181),), "/a"),
]


def test_all_has_every_public_name() -> None:
    constants = {name for name in vars(model) if name.isupper() and not name.startswith("_")}
    types = {
        name
        for name, value in vars(model).items()
        if isinstance(value, type) and value.__module__ == model.__name__
    }
    assert set(model.__all__) == types | constants


# --- the numbers of the wire -------------------------------------------------------------------


@pytest.mark.parametrize(("name", "facts"), GOLDEN["create_modes"].items())
def test_create_modes_are_those_of_zookeeper(name: str, facts: list[object]) -> None:
    mode = CreateMode[name]
    assert [mode.value, mode.is_ephemeral, mode.is_sequential, mode.has_ttl] == facts


def test_zookeeper_has_every_create_mode() -> None:
    assert {mode.name for mode in CreateMode} == GOLDEN["create_modes"].keys()


def test_permissions_are_those_of_zookeeper() -> None:
    numbers = GOLDEN["permissions"]
    assert {name: int(Permission[name]) for name in numbers} == numbers
    assert int(~Permission(0)) == numbers["ALL"]


def test_event_types_are_those_of_zookeeper() -> None:
    """All but the one that Java clients make up when they take back a persistent watch."""
    names = {
        "None": "NONE",
        "NodeCreated": "CREATED",
        "NodeDeleted": "DELETED",
        "NodeDataChanged": "DATA_CHANGED",
        "NodeChildrenChanged": "CHILDREN_CHANGED",
        "DataWatchRemoved": "DATA_WATCH_REMOVED",
        "ChildWatchRemoved": "CHILD_WATCH_REMOVED",
    }
    assert GOLDEN["event_types"].keys() - names.keys() == {"PersistentWatchRemoved"}
    assert {type_.name: type_.value for type_ in EventType} == {
        ours: GOLDEN["event_types"][theirs] for theirs, ours in names.items()
    }


@pytest.mark.parametrize(
    ("acls", "entry"),
    [
        (OPEN_ACL_UNSAFE, (31, "world", "anyone")),
        (READ_ACL_UNSAFE, (1, "world", "anyone")),
        (CREATOR_ALL_ACL, (31, "auth", "")),
    ],
)
def test_predefined_access_control_lists(
    acls: tuple[ACL, ...], entry: tuple[int, str, str]
) -> None:
    assert [(int(acl.permissions), acl.scheme, acl.id) for acl in acls] == [entry]


def test_final_session_states() -> None:
    final = {state for state in SessionState if state.is_final}
    assert final == {SessionState.AUTH_FAILED, SessionState.CLOSED}


# --- credentials -------------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "id_"), GOLDEN["digests"].items(), ids=ascii)
def test_digest_is_that_of_zookeeper(text: str, id_: str) -> None:
    auth = Auth.digest(*text.split(":", 1))
    assert auth == Auth("digest", text.encode())
    assert auth.acl() == ACL(Permission.ALL, "digest", id_)


def test_digest_of_the_documentation() -> None:
    acl = Auth.digest("super", "test").acl(Permission.READ | Permission.WRITE)
    assert acl == ACL(Permission(3), "digest", "super:D/InIHSb7yEEbrWz8b9l71RjZJU=")


@pytest.mark.parametrize("user", ["", "a:b", ":", b"ann", None, 3])
def test_user_that_a_digest_cannot_name_is_refused(user: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^user: "):
        Auth.digest(user, "secret")


@pytest.mark.parametrize("password", [None, b"secret", 5, ["secret"]])
@pytest.mark.parametrize("make", [Auth.digest, ACL.digest, SASL.digest_md5])
def test_password_that_is_no_text_is_refused(
    make: Callable[[str, Any], object], password: Any
) -> None:
    """Such as an environment variable that is not set."""
    with pytest.raises(ConfigurationError, match=r"^password: must be text") as caught:
        make("ann", password)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("scheme", "credential"),
    [("", b"u:secret"), (None, b"u:secret"), (b"digest", b"u:secret"), ("digest", "u:secret")],
)
def test_credential_of_another_type_is_refused(scheme: Any, credential: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"^(scheme|credential): must be") as caught:
        Auth(scheme, credential)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(("user", "password"), [("u", "secret\ud800"), ("u\ud800", "secret")])
@pytest.mark.parametrize(
    "make",
    [Auth.digest, SASL.digest_md5, lambda user, word: TLS(cert="cert.pem", password=user + word)],
)
def test_text_that_cannot_be_encoded_is_refused_without_the_password(
    make: Callable[[str, str], object], user: str, password: str
) -> None:
    with pytest.raises(ConfigurationError, match="UTF-8") as caught:
        make(user, password)
    assert "secret" not in repr(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


def test_only_a_digest_has_an_acl_entry() -> None:
    with pytest.raises(ConfigurationError, match=r"^scheme: .*'ip'"):
        Auth("ip", b"127.0.0.1").acl()
    with pytest.raises(ConfigurationError, match=r"^credential: ") as caught:
        Auth("digest", b"u:secret\xff").acl()
    assert "secret" not in repr(caught.value)
    assert caught.value.__context__ is None


@pytest.mark.parametrize(
    "value",
    [
        Auth.digest("user", "secret"),
        Auth("x", b"secret"),
        AuthPacket("digest", b"user:secret"),
        ConnectRequest(0, 10_000, 7, b"secret"),
        ConnectResponse(10_000, 7, b"secret"),
        ACL(Permission.ALL, "digest", "user:secret"),
        Identity("digest", "user:secret"),
        SessionCredentials(7, b"secret", 10.0),
        TLS(cert="cert.pem", password="secret"),
        SASL.digest_md5("user", "secret"),
        Common(auth="digest:user:secret", sasl="digest-md5:user:secret"),
        Create("/a", b"secret", (ACL(Permission.ALL, "digest", "user:secret"),), 0),
        SetACL("/a", (ACL(Permission.ALL, "digest", "user:secret"),), -1),
    ],
    ids=lambda value: type(value).__name__,
)
def test_repr_hides_secrets(value: object) -> None:
    for text in (repr(value), str(value), f"{value}", repr([value])):
        assert "secret" not in text
        assert b"secret".hex() not in text


def test_repr_shows_what_is_no_secret() -> None:
    assert "'user:***'" in repr(ACL.digest("user", "secret"))
    for id_ in ("user:realm", "a:b:c"):
        assert repr(id_) in repr(ACL(Permission.READ, "x509", id_))
    assert repr(ACL.world()) == f"ACL(permissions={Permission.ALL!r}, scheme='world', id='anyone')"


@pytest.mark.parametrize("value", ["digest:user:secret:rw", ["digest:user:secret"], {"secret": 1}])
def test_refused_acl_is_not_shown(value: object) -> None:
    for check in (
        lambda acl: Scope("").create_request("/a", b"", CreateMode.PERSISTENT, acl, None),
        checked_acl,
    ):
        with pytest.raises(ConfigurationError) as caught:
            check(value)
        assert "secret" not in str(caught.value)


# --- value types -------------------------------------------------------------------------------


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_values_are_frozen_slotted_comparable_and_copyable(value: object) -> None:
    is_record = dataclasses.is_dataclass(value)
    name = dataclasses.fields(value)[0].name if is_record else type(value).__match_args__[0]
    with pytest.raises(AttributeError):
        setattr(value, name, None)
    assert not hasattr(value, "__dict__")
    for twin in (copy.copy(value), copy.deepcopy(value), pickle.loads(pickle.dumps(value))):
        assert twin == value
        assert hash(twin) == hash(value)
        assert repr(twin) == repr(value)


def test_samples_have_every_value() -> None:
    own = {cls for cls in vars(model).values() if dataclasses.is_dataclass(cls)} | {Created, Stat}
    assert own == {type(value) for value in VALUES} - {ConnectString}


def test_watch_event_has_no_zxid_by_default() -> None:
    assert WatchEvent(EventType.CREATED, "/a").zxid == -1


OF_SESSIONS = [
    value
    for module in (model, events, types)
    for value in (getattr(module, name) for name in dir(module))
    if dataclasses.is_dataclass(value)
    and "session_id" in (field.name for field in dataclasses.fields(value))
]


@pytest.mark.parametrize("of_session", OF_SESSIONS, ids=lambda value: value.__name__)
def test_repr_has_the_session_id_as_the_servers_show_it(of_session: type) -> None:
    value = object.__new__(of_session)
    for field in dataclasses.fields(of_session):
        object.__setattr__(value, field.name, -2 if field.name == "session_id" else None)
    assert "session_id=0xfffffffffffffffe" in repr(value)
