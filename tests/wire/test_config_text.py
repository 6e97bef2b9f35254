"""The text of an ensemble's configuration."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiolead._wire.config_text import format_config, parse_config, parse_server
from aiolead._wire.jute import Reader, Writer
from aiolead._wire.requests import Reconfig
from aiolead.errors import RemoteWireError
from aiolead.model import EnsembleConfig, ServerSpec

PLAIN = ServerSpec(1, (("zk1", 2888, 3888),), ("zk1", 2181))

TEXTS = [
    ("server.1=zk1:2888:3888:participant;zk1:2181", PLAIN),
    ("server.1=zk1:2888:3888;zk1:2181", PLAIN),
    (" server.1 = zk1:2888:3888:PARTICIPANT ; zk1:2181", PLAIN),
    (
        "server.2=zk2:1:2:observer;2181",
        ServerSpec(2, (("zk2", 1, 2),), ("0.0.0.0", 2181), None, True),
    ),
    ("server.3=zk3:1:2", ServerSpec(3, (("zk3", 1, 2),))),
    (
        "server.4=a:1:2:observer|b:3:4:observer;c:5",
        ServerSpec(4, (("a", 1, 2), ("b", 3, 4)), ("c", 5), None, True),
    ),
    (
        "server.5=[2001:db8::1]:1:2;[::1]:2181;[::1]:2281",
        ServerSpec(5, (("2001:db8::1", 1, 2),), ("::1", 2181), ("::1", 2281)),
    ),
    ("server.6=zk6:1:2;;zk6:2281", ServerSpec(6, (("zk6", 1, 2),), None, ("zk6", 2281))),
]  # fmt: skip


@pytest.mark.parametrize(("text", "spec"), TEXTS, ids=[text for text, _ in TEXTS])
def test_server_is_parsed_and_written(text: str, spec: ServerSpec) -> None:
    assert parse_server(text) == spec
    assert parse_server(str(spec)) == spec


HOSTS = st.sampled_from(["zk1", "10.0.0.1", "::1", "0.0.0.0"])
PORTS = st.integers(1, 65535)
SPECS = st.builds(
    ServerSpec,
    st.integers(0, 255),
    st.lists(st.tuples(HOSTS, PORTS, PORTS), min_size=1, max_size=3).map(tuple),
    st.none() | st.tuples(HOSTS, PORTS),
    st.none() | st.tuples(HOSTS, PORTS),
    st.booleans(),
)


@settings(deadline=None)
@given(st.lists(SPECS, max_size=4, unique_by=lambda spec: spec.id), st.integers(0, 1 << 62))
def test_configuration_is_read_as_it_was_written(specs: list[ServerSpec], version: int) -> None:
    config = parse_config(format_config(specs, version))
    assert config == EnsembleConfig(tuple(sorted(specs, key=lambda spec: spec.id)), version)


@settings(deadline=None)
@given(st.text())
def test_random_text_is_a_configuration_or_refused(text: str) -> None:
    try:
        config = parse_config(text.encode())
    except RemoteWireError:
        return
    assert isinstance(config, EnsembleConfig)


@pytest.mark.parametrize(
    "line",
    [
        "server.x=zk1:1:2", "server.1", "server.1=", "server.1=zk1:1", "server.1=zk1:0:2",
        "server.1=zk1:1:65536", "server.1=zk1:1:2:boss", "server.1=zk1:1:2;;;3",
        "server.1=zk1:1:2;a:b", "server.1=a:1:2:observer|b:1:2", "server.1=::1:1:2", "version=zz",
    ],
)  # fmt: skip
def test_malformed_configuration_is_refused(line: str) -> None:
    with pytest.raises(RemoteWireError, match="no configuration of an ensemble"):
        parse_config(line.encode())


def test_configuration_of_a_server_is_read() -> None:
    config = parse_config(
        b"server.2=127.0.0.1:12:13:observer;0.0.0.0:14\n"
        b"server.1=zk1:22:23:participant;zk1:24\n"
        b"group.1=1:2\nweight.1=1\nversion=1000000a5"
    )
    assert [server.id for server in config.servers] == [1, 2]
    assert config.version == 0x1000000A5
    assert config.client_addresses() == (("zk1", 24), ("127.0.0.1", 14))


def test_configuration_of_a_standalone_server_is_empty() -> None:
    assert parse_config(b"") == EnsembleConfig((), -1)


def test_client_addresses_with_tls_have_the_secure_ports() -> None:
    config = parse_config(b"server.1=zk1:1:2;zk1:24;zk1:25\nserver.2=zk2:1:2;zk2:34")
    assert config.client_addresses(secure=True) == (("zk1", 25), ("zk2", 34))
    assert config.client_addresses() == (("zk1", 24), ("zk2", 34))


def test_reconfig_request_has_no_null() -> None:
    w = Writer()
    Reconfig("server.1=a:1:2;3", None, None, -1).write(w)
    data = bytes(w.buffer)
    # Servers take any value that is not null for a configuration as a whole.
    assert data.endswith(b"\xff" * 16)
    assert Reconfig.read(Reader(data)) == Reconfig("server.1=a:1:2;3", None, None, -1)
