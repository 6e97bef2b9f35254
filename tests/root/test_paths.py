"""Paths and connect strings, held against ZooKeeper's own rules and other clients' names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from wire.golden import FOLDER

from aiolead.errors import ConfigurationError, InvalidConnectStringError, InvalidPathError
from aiolead.paths import (
    ConnectString,
    basename,
    join,
    parent,
    parse_connect_string,
    sequence_of,
    validate,
)

# From PathUtils.validatePath of ZooKeeper 3.8.0: tests/assurance/golden/GoldenZooKeeper.java.
GOLDEN = json.loads((FOLDER / "zookeeper-3.8.0.json").read_text())


def accepts(path: str) -> bool:
    try:
        return validate(path) == path
    except InvalidPathError:
        return False


# --- paths -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("path", "accepted"), GOLDEN["paths"].items(), ids=ascii)
def test_path_is_accepted_where_zookeeper_accepts_it(path: str, accepted: bool) -> None:
    assert accepts(path) is accepted


def test_golden_paths_have_both_verdicts() -> None:
    assert len(GOLDEN["paths"]) > 40
    assert set(GOLDEN["paths"].values()) == {True, False}


def test_refused_characters_of_the_basic_plane_are_those_of_zookeeper() -> None:
    refused = [code for code in range(0x10000) if not accepts(f"/a{chr(code)}b")]
    assert refused == [
        code for first, last in GOLDEN["refused_characters"] for code in range(first, last + 1)
    ]


@pytest.mark.parametrize("code", [0x10000, 0x1F600, 0xFFFFF, 0x10FFFF], ids=hex)
@pytest.mark.parametrize("template", ["/{}", "/{}a", "/a{}", "/a/{}/b"])
def test_characters_beyond_the_basic_plane_are_refused(code: int, template: str) -> None:
    """They are two surrogates in Java, each of which is refused."""
    assert not accepts(template.format(chr(code)))


@pytest.mark.parametrize(
    ("path", "said"),
    [
        (None, "must be a str, not NoneType"),
        (b"/a", "must be a str, not bytes"),
        (Path("/a"), "must be a str, not PosixPath"),
        ("", "must start with '/', not ''"),
        ("a/b", "must start with '/', not 'a/b'"),
        ("/a/", "must not end with '/': '/a/'"),
        ("/a//b", "has the component '': '/a//b'"),
        ("/a/./b", "has the component '.': '/a/./b'"),
        ("/a/..", "has the component '..': '/a/..'"),
        ("/a\nb", r"the character '\n' at 2 is not allowed: '/a\nb'"),
        ("/a/😀", "the character '😀' at 3 is not allowed: '/a/😀'"),
    ],
    ids=ascii,
)
def test_refusal_names_the_argument_and_the_mistake(path: object, said: str) -> None:
    with pytest.raises(InvalidPathError) as caught:
        validate(path, name="locks")
    assert str(caught.value) == f"locks: {said}"
    assert isinstance(caught.value, ConfigurationError)


def test_argument_is_called_path_by_default() -> None:
    with pytest.raises(InvalidPathError, match=r"^path: "):
        validate("a")


@pytest.mark.parametrize(
    ("base", "child", "path"),
    [("/", "a", "/a"), ("/a", "b", "/a/b"), ("/a/b", "c", "/a/b/c"), ("/ä", " ", "/ä/ ")],
)
def test_join_parent_and_basename(base: str, child: str, path: str) -> None:
    assert join(base, child) == path
    assert parent(path) == base
    assert basename(path) == child


def test_root_is_its_own_parent_and_has_no_name() -> None:
    assert parent("/") == "/"
    assert basename("/") == ""


NAMES = st.text(
    st.characters(min_codepoint=0x20, max_codepoint=0xD7FF, exclude_characters="/"), min_size=1
).filter(lambda name: accepts(f"/{name}"))
PATHS = st.lists(NAMES, max_size=4).map(lambda names: "/" + "/".join(names))


@given(PATHS, NAMES)
@settings(max_examples=100, deadline=None)
def test_parent_and_basename_undo_join(base: str, child: str) -> None:
    path = join(base, child)
    assert validate(path) == path
    assert (parent(path), basename(path)) == (base, child)


# --- sequence numbers --------------------------------------------------------------------------

UUID = "c8a1b2c3-d4e5-46f7-8899-aabbccddeeff"
HEX = "c8a1b2c3d4e546f78899aabbccddeeff"


@pytest.mark.parametrize(
    ("name", "sequence"),
    [
        # As other clients name their znodes.
        (f"_c_{UUID}-lock-0000000007", 7),  # Curator's InterProcessMutex and LeaderSelector
        (f"_c_{UUID}-latch-0000000008", 8),  # Curator's LeaderLatch
        (f"_c_{UUID}-__WRIT__0000000009", 9),
        (f"_c_{UUID}-__READ__0000000010", 10),
        (f"_c_{UUID}-lease-0000000011", 11),
        (f"{HEX}__lock__0000000012", 12),  # kazoo
        (f"{HEX}__rlock__0000000013", 13),
        (f"lock-{HEX}-0000000014", 14),  # aiozk
        (f"_c_{HEX}-lock-0000000015", 15),  # go-zookeeper
        ("x-72057594037927936-0000000016", 16),  # ZooKeeper's WriteLock
        ("x--72057594037927936-0000000016", 16),
        ("n_0000000017", 17),  # ZooKeeper's LeaderElectionSupport
        ("qn-0000000018", 18),
        ("entry-100-0000000019", 19),  # kazoo's Queue
        ("0000000020", 20),
        ("v20000000021", 21),  # a prefix that ends in a digit
        ("a--0000000022", 22),  # ... in two dashes: no negative number begins with a zero there
        ("-0000000023", 23),
        # The end of the range, and what lies beyond.
        ("lock-2147483646", 2147483646),
        ("lock-2147483647", 2147483647),
        (f"{HEX}__lock__2147483647", 2147483647),
        ("2147483647", 2147483647),
        ("lock--2147483648", -2147483648),
        ("lock--2147483647", -2147483647),
        ("lock--1000000000", -1000000000),
        ("lock--999999999", -999999999),
        ("lock--000000001", -1),
        (f"_c_{UUID}-__WRIT__-2147483648", -2147483648),
        (f"{HEX}__lock__-2147483648", -2147483648),
        (f"{HEX}__lock__-000000001", -1),
        ("n_-2147483647", -2147483647),
        ("n_-000000001", -1),
        ("-2147483648", -2147483648),
        ("-000000001", -1),
        # The separator that is no sign.
        ("lock-1234567890", 1234567890),
        ("schloß-1234567890", 1234567890),
        # No server hands this out; it sorts behind all others, as other clients have it.
        ("lock-9999999999", 9999999999),
        # No sequence number.
        ("", None),
        ("ready", None),
        (UUID, None),
        ("lock-", None),
        ("lock-000000001x", None),
        ("lock_123456789", None),
        ("lock-00000001", None),
        ("lock-0000000001\n", None),
        ("lock-000000000१", None),  # a digit, but no ASCII one
        ("lock-٠٠٠٠٠٠٠٠٠١", None),
    ],
    ids=ascii,
)
def test_sequence_number_of_a_name(name: str, sequence: int | None) -> None:
    assert sequence_of(name) == sequence


PREFIXES = st.sampled_from(
    ["lock-", f"_c_{UUID}-lock-", f"{HEX}__lock__", "n_", "__WRIT__", "", "|"]
)


@given(PREFIXES, st.integers(-(2**31), 2**31 - 1))
@example("lock-", 0)
@example("lock-", 999999999)
@example("lock-", -1000000000)
@settings(max_examples=300, deadline=None)
def test_number_that_a_server_appends_is_read_back(prefix: str, counter: int) -> None:
    """`%010d`, on each of the prefixes in use, over the whole range of the counter."""
    assert sequence_of(f"{prefix}{counter:010d}") == counter


# --- connect strings ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "hosts", "chroot"),
    [
        ("zk1", [("zk1", 2181)], ""),
        ("zk1:2182", [("zk1", 2182)], ""),
        ("zk1,zk2:2182,zk3", [("zk1", 2181), ("zk2", 2182), ("zk3", 2181)], ""),
        (" zk1 ,\tzk2:2182\n", [("zk1", 2181), ("zk2", 2182)], ""),
        ("zk1/app", [("zk1", 2181)], "/app"),
        ("zk1:1,zk2:65535/app/b", [("zk1", 1), ("zk2", 65535)], "/app/b"),
        ("zk1/", [("zk1", 2181)], ""),
        ("10.0.0.1:2181", [("10.0.0.1", 2181)], ""),
        ("[::1]", [("::1", 2181)], ""),
        ("[::1]:2182", [("::1", 2182)], ""),
        (
            "[2001:db8::1]:1,[fe80::1%eth0]:2,[::ffff:10.0.0.1]/a",
            [("2001:db8::1", 1), ("fe80::1%eth0", 2), ("::ffff:10.0.0.1", 2181)],
            "/a",
        ),
        ("zk-1.example.org:2181", [("zk-1.example.org", 2181)], ""),
        ("zk_1", [("zk_1", 2181)], ""),
        ("zk1,zk1", [("zk1", 2181), ("zk1", 2181)], ""),
    ],
    ids=ascii,
)
def test_connect_string_is_parsed(text: str, hosts: list[tuple[str, int]], chroot: str) -> None:
    assert parse_connect_string(text) == ConnectString(tuple(hosts), chroot)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "must be a str or a list of str, not NoneType"),
        (b"zk1", "must be a str or a list of str, not bytes"),
        ([], "must be a str or a list of str, not list"),
        ([b"zk1"], "must be a str or a list of str, not list"),
        (["zk1/app", "zk2"], "the chroot stands once, after the last server"),
        ("", "'' is no server (expected host:port): ''"),
        (" ", "'' is no server (expected host:port): ' '"),
        ("/app", "'' is no server (expected host:port): '/app'"),
        (",zk1", "'' is no server (expected host:port): ',zk1'"),
        ("zk1,", "'' is no server (expected host:port): 'zk1,'"),
        ("zk1,,zk2", "'' is no server (expected host:port): 'zk1,,zk2'"),
        (
            "zk1;zk2:1:2",
            "'zk1;zk2:1:2' is no server (commas separate servers: host:2181,host2:2181/chroot)",
        ),
        (":2181", "':2181' is no server (expected host:port)"),
        ("zk 1", "'zk 1' is no server (commas separate servers: host:2181,"),
        ("zk\x001", r"'zk\x001' is no server (expected host:port)"),
        ("user@zk1", "a connect string has no user or password (`auth=` and `sasl=` take them)"),
        ("::1", "'::1' is no server (write IPv6 addresses as [::1]:2181)"),
        ("2001:db8::1:2181", "is no server (write IPv6 addresses as [::1]:2181)"),
        ("[::1", "is no server (write IPv6 addresses as [::1]:2181)"),
        ("[::1]2181", "is no server (write IPv6 addresses as [::1]:2181)"),
        ("[]:2181", "'[]:2181' is no server"),
        ("[zk1]:2181", "'[zk1]:2181' is no server"),
        ("[abc]", "'[abc]' is no server"),
        ("[10.0.0.1]:2181", "'[10.0.0.1]:2181' is no server"),
        ("[:::]:2181", "'[:::]:2181' is no server"),
        ("[1::2::3]:2181", "'[1::2::3]:2181' is no server"),
        ("zk1:", "'' is no port (1 to 65535): 'zk1:'"),
        ("zk1:0", "'0' is no port (1 to 65535): 'zk1:0'"),
        ("zk1:65536", "'65536' is no port (1 to 65535)"),
        ("zk1:-1", "'-1' is no port (1 to 65535)"),
        ("zk1:+1", "'+1' is no port (1 to 65535)"),
        ("zk1:1_0", "'1_0' is no port (1 to 65535)"),
        ("zk1: 2181", "' 2181' is no port (1 to 65535)"),
        ("zk1:http", "'http' is no port (1 to 65535)"),
        ("zk1:२१८१", "'२१८१' is no port (1 to 65535)"),
        ("zk1:" + "1" * 5000, "is no port (1 to 65535)"),
        ("[::1]:99999", "'99999' is no port (1 to 65535)"),
        ("zk1/app,zk2/app", "the chroot stands once, after the last server: 'zk1/app,zk2/app'"),
        ("zk1/app,zk2", "the chroot stands once, after the last server"),
        ("zk1://app", "a connect string is no URL and has no 'zk1://'"),
        (
            "http://zk1:2181",
            "and has no 'http://': write 'host:2181,host2:2181/chroot', not 'http://zk1:2181'",
        ),
        ("zk://zk1:2181,zk2:2181/app", "has no 'zk://': write 'host:2181,host2:2181/chroot'"),
        ("zookeeper://zk1/", "has no 'zookeeper://'"),
        (" http://zk1", "has no 'http://'"),
        ("zk1,http://zk2", "has no 'http://'"),
        ("zk1/app/", "must not end with '/': '/app/'"),
        ("zk1:2181 zk2:2181", "(commas separate servers: host:2181,host2:2181/chroot)"),
    ],
    ids=lambda value: ascii(value)[:40],
)
def test_malformed_connect_string_is_refused(text: object, said: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_connect_string(text)
    assert str(caught.value).startswith("hosts")
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("http://me:hush@zk1:2181/app", "'http://***@zk1:2181/app'"),
        ("zk://me:hush@zk1,me:hush@zk2/app", "'zk://***@zk2/app'"),
        ("zk://me:hu/sh@zk1", "'zk://***@zk1'"),
        ("zk1,zk://me:hush@zk2", "'zk1,zk://***@zk2'"),
        ("me:hush@zk1:2181", "'***@zk1:2181'"),
        ("me:hush@zk1", "'***@zk1'"),
        ("me:hu@sh@zk1", "'***@zk1'"),
        ("me:hush/hush@zk1", "'***@zk1'"),
        ("zk1,me:hush@zk2", "'***@zk2'"),
        ("me:hush@[::1]:2181", "'***@[::1]:2181'"),
    ],
)
def test_password_in_a_connect_string_is_not_shown(text: str, shown: str) -> None:
    with pytest.raises(InvalidConnectStringError) as caught:
        parse_connect_string(text)
    assert shown in str(caught.value)
    assert "write 'host:2181,host2:2181/chroot'" in str(caught.value)
    assert "hu" not in str(caught.value)


def test_chroot_may_contain_an_at_sign() -> None:
    assert parse_connect_string("zk1:2181/me@app").chroot == "/me@app"
    assert parse_connect_string("[::1]/me@app").chroot == "/me@app"


@pytest.mark.parametrize("text", ["zk1/app/", "zk1//", "zk1/a//b", "zk1/..", "zk1/a\n", "zk1/😀"])
def test_chroot_must_be_a_path(text: str) -> None:
    with pytest.raises(InvalidPathError, match=r"^hosts \(chroot\): "):
        parse_connect_string(text)


def test_error_names_the_argument() -> None:
    with pytest.raises(InvalidConnectStringError, match=r"^AIOLEAD_HOSTS: "):
        parse_connect_string("", name="AIOLEAD_HOSTS")


def test_connect_string_prints_with_its_ports() -> None:
    assert str(parse_connect_string(" zk1 ,[::1]/app")) == "zk1:2181,[::1]:2181/app"


HOSTS = st.one_of(
    st.from_regex(r"[a-z0-9_]([a-z0-9.-]{0,20}[a-z0-9])?", fullmatch=True),
    st.ip_addresses(v=4).map(str),
    st.ip_addresses(v=6).map(str),
)
CONNECT_STRINGS = st.builds(
    ConnectString,
    st.lists(st.tuples(HOSTS, st.integers(1, 65535)), min_size=1, max_size=4).map(tuple),
    PATHS.filter(lambda path: "," not in path).map(lambda path: "" if path == "/" else path),
)


@given(CONNECT_STRINGS)
@settings(max_examples=200, deadline=None)
def test_parsing_undoes_printing(connect_string: ConnectString) -> None:
    assert parse_connect_string(str(connect_string)) == connect_string


@given(st.text(st.sampled_from("a1:[],/. %@\x00é٣\n-"), max_size=25))
@example("[::1%]")
@example("[::1%a]")
@settings(max_examples=300, deadline=None)
def test_any_text_is_parsed_or_refused_as_configuration(text: str) -> None:
    try:
        parsed = parse_connect_string(text)
    except ConfigurationError:
        return
    assert parse_connect_string(str(parsed)) == parsed
    assert all(0 < port < 65536 and host == host.strip() != "" for host, port in parsed.hosts)
