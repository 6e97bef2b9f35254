"""A real ensemble and the embedded server answer alike to changes of the configuration."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kit.raw_client import RawClient, version_of

from aiolead._wire.codes import OpCode
from aiolead._wire.jute import encode_request
from aiolead._wire.replies import DataReply
from aiolead._wire.requests import AuthPacket, GetData, Reconfig
from aiolead.model import Auth
from aiolead.testing import BlockingEnsemble, EmbeddedServer

pytestmark = pytest.mark.exhaustive("compares the embedded server with an ensemble of its own")

SUPER = Auth.digest("super", "secret")
DIGEST = SUPER.acl().id

Asked = tuple[str | None, str | None, str | None, int]
"""The joining and leaving members, all members, and the version to change."""

REFUSED: list[Asked] = [
    ("some thing", None, None, -1),
    ("server.9=h", None, None, -1),
    ("server.9=10.0.0.9:1", None, None, -1),
    ("server.9=10.0.0.9:1:2", None, None, -1),
    ("server.9=10.0.0.9:1:2:king;3", None, None, -1),
    ("server.9=10.0.0.9:a:b;3", None, None, -1),
    ("server.x=10.0.0.9:1:2;3", None, None, -1),
    ("server.8=10.0.0.9:1:2:observer;3,server.9=10.0.0.9:1:4:observer;5", None, None, -1),
    ("server.7=10.0.0.7:1:2;3,server.8=10.0.0.8:1:2;3,server.9=10.0.0.9:1:2;3", None, None, -1),
    (None, "1,2", None, -1),
    (None, "1,2,3", None, -1),
    (None, "x", None, -1),
    (None, "9", None, 77),
    (None, None, "", -1),
    (None, None, "nonsense", -1),
    (None, None, "dataDir=/tmp", -1),
    (None, None, "server.1=10.0.0.1:1:2;3", -1),
    (None, None, "server.1=10.0.0.1:1:2;3,server.2=10.0.0.2:1:2:observer;3", -1),
    (None, None, "server.1=10.0.0.1:1:2:observer;3", -1),
    (None, None, "server.7=10.0.0.7:1:2;3,server.8=10.0.0.8:1:2;3", -1),
]

# These change something where they are allowed, and the last ones undo it.
ALLOWED: list[Asked] = [
    (None, "9", None, -1),
    ("server.100=10.9.9.9:11:12:observer;13", None, None, -1),
    ("server.100=10.9.9.9:11:12:observer;10.9.9.9:14", None, None, -1),
    (None, "100, 9", None, -1),
]


@pytest.fixture(scope="module")
def ensemble_with_super_user(zookeeper_installed: None) -> Iterator[BlockingEnsemble]:
    property_ = "zookeeper.DigestAuthenticationProvider.superDigest"
    # An ensemble that anybody may change skips ACLs; here they are what is asked about.
    options = ("-Dzookeeper.skipACL=no", f"-D{property_}={DIGEST}")
    with BlockingEnsemble(3, reconfigurable=True, java_options=options) as ensemble:
        yield ensemble


def told(client: RawClient, asked: list[Asked]) -> Iterator[tuple[Asked, int, int, list[str]]]:
    """The error of each, how many zxids it took, and the members that it leaves."""
    for each in asked:
        request = Reconfig(*each)
        try:
            before, _ = config_of(client)
            client.send(request)
            header, _ = client.receive()
            zxid, members = config_of(client)
        except TimeoutError as error:
            error.add_note(f"asked: {each}")
            raise
        yield each, header.err, zxid - before, members


def config_of(client: RawClient) -> tuple[int, list[str]]:
    """The zxid now, and the members."""
    client.send(GetData("/zookeeper/config"))
    header, r = client.receive()
    data = DataReply.read(r).data or b""
    return header.zxid, [line for line in data.decode().splitlines() if line[0] == "s"]


def authenticate(client: RawClient) -> None:
    body = AuthPacket(SUPER.scheme, SUPER.credential).encode()
    client.socket.sendall(encode_request(-4, OpCode.AUTH, body))
    assert client.receive()[0].err == 0


@pytest.mark.real
def test_both_refuse_the_same(ensemble_with_super_user: BlockingEnsemble) -> None:
    leader = ensemble_with_super_user.leader().connect_string
    version = ".".join(map(str, version_of(leader)))
    with RawClient(leader, session_timeout=40, pings=True) as real:
        config = "\n".join(config_of(real)[1])
        with (
            EmbeddedServer.in_thread(
                config=config, super_digest=DIGEST, version=version
            ) as embedded,
            RawClient(embedded.connect_string) as ours,
        ):
            everything = [*REFUSED, *ALLOWED]
            assert list(told(real, everything)) == list(told(ours, everything))
            authenticate(real)
            authenticate(ours)
            theirs = list(told(real, REFUSED))
            assert theirs == list(told(ours, REFUSED))
            assert all(err for _, err, _, _ in theirs)
            theirs = list(told(real, ALLOWED))
            assert theirs == list(told(ours, ALLOWED))
            assert not any(err for _, err, _, _ in theirs)
