"""`aiolead ls`, `tree`, `get`, `stat`, `set`, `create`, `rm` and `acl`."""

from __future__ import annotations

import io
import json
import signal
import sys
from pathlib import Path

import pytest
from kit.checks import until
from kit.cli import Command, Run, kazoo_client, objects
from kit.raw_client import RawClient, has

import aiolead.cli
from aiolead.cli import znodes
from aiolead.model import Stat
from aiolead.testing import EmbeddedServer
from aiolead.types import Feature


def test_znode_is_created_read_changed_and_deleted(run: Run, hosts: str) -> None:
    assert run("create", "/app/config", "one", "-p", hosts=hosts) == (0, ["/app/config"], [])
    code, out, err = run("create", "/app/config", hosts=hosts)
    assert (code, out, err) == (1, [], ["aiolead: the znode exists already: /app/config"])
    assert run("get", "/app/config", hosts=hosts) == (0, ["one"], [])
    code, out, err = run("set", "/app/config", "two", "--version", "0", hosts=hosts)
    assert (code, out, err) == (0, [], ["aiolead: /app/config has version 1"])
    code, out, err = run("set", "/app/config", "three", "--version", "0", hosts=hosts)
    assert (code, out, err) == (1, [], ["aiolead: the znode has another version: /app/config"])
    code, out, _ = run("get", "/app/config", "--json", hosts=hosts)
    (said,) = objects(out)
    assert (code, said["data"], said["encoding"], said["version"]) == (0, "two", "utf-8", 1)
    code, out, _ = run("stat", "/app/config", "--json", hosts=hosts)
    (stat,) = objects(out)
    assert stat == {key: value for key, value in said.items() if key not in ("data", "encoding")}
    assert (stat["ephemeral_owner"], stat["data_length"]) == (None, 3)
    code, out, _ = run("stat", "/app/config", hosts=hosts)
    assert "kind:     persistent" in out
    assert "data:     3 bytes, version 1" in out
    code, out, err = run("rm", "/app", hosts=hosts)
    assert (code, out) == (1, [])
    assert err == ["aiolead: the znode has children: /app (--recursive deletes them, too)"]
    assert run("rm", "-r", "/app", "-q", hosts=hosts) == (0, [], [])
    for command in ("ls", "tree", "get", "stat", "rm", "acl", "contenders"):
        assert run(command, "/app", hosts=hosts) == (1, [], ["aiolead: no such znode: /app"])
    code, out, _ = run("rm", "/app", "--force", "--json", hosts=hosts)
    assert (code, objects(out)) == (0, [{"path": "/app", "deleted": 0}])


def test_delete_and_deleteall_are_names_of_rm(run: Run, somewhere: str) -> None:
    with kazoo_client(somewhere) as client:
        for path in ("/a", "/a/b", "/c"):
            client.create(path)
        code, _, err = run("delete", "/a", hosts=somewhere)
        assert (code, "--recursive deletes them, too" in err[0]) == (1, True)
        assert run("delete", "/c", hosts=somewhere) == (0, [], ["aiolead: deleted 1 znode"])
        assert run("deleteall", "/a", hosts=somewhere) == (0, [], ["aiolead: deleted 2 znodes"])
        assert run("deleteall", "/a", hosts=somewhere)[0] == 1
        assert run("deleteall", "-f", "/a", hosts=somewhere)[0] == 0


def test_children_and_trees_are_listed(run: Run, hosts: str) -> None:
    with kazoo_client(hosts) as client:
        for path in ("/b", "/a", "/a/deep", "/a/deep/er"):
            client.create(path, b"data of " + path.encode())
        client.create("/a/mine", ephemeral=True)
        owner = f"{client.client_id[0]:#x}"
        assert run("ls", hosts=hosts) == (0, ["a", "b"], [])
        code, out, _ = run("ls", "/a", "-l", hosts=hosts)
        assert (code, out[0].split()) == (0, ["owner", *znodes._HEADINGS[1:]])
        assert [line.split()[::5] for line in out[1:]] == [["-", "deep"], [owner, "mine"]]
        code, out, _ = run("ls", "/a", "--long", "--json", hosts=hosts)
        deep, mine = objects(out)
        assert (deep["path"], deep["num_children"]) == ("/a/deep", 1)
        assert mine["ephemeral_owner"] == owner
        code, out, _ = run("tree", "--limit", "5", hosts=hosts)
        assert out == [
            "/",
            "├── a",
            "│   ├── deep",
            "│   │   └── (1 more)",
            f"│   └── mine  (ephemeral, of {owner})",
            "└── b",
        ]
        code, out, _ = run("tree", "/", "--depth", "1", "--data", hosts=hosts)
        assert out[1:3] == ["├── a  = data of /a", "│   └── (2 more)"]
        code, out, _ = run("tree", "/a", "--json", "-d", hosts=hosts)
        tree = {said["path"]: said for said in objects(out)}
        assert list(tree) == ["/a", "/a/deep", "/a/deep/er", "/a/mine"]
        assert [said["depth"] for said in tree.values()] == [0, 1, 2, 1]
        assert tree["/a/mine"]["owner"] == owner
        assert tree["/a/deep/er"]["data"] == "data of /a/deep/er"


def test_unreadable_znodes_are_shown_as_far_as_possible(run: Run, old_and_new_hosts: str) -> None:
    hosts = old_and_new_hosts
    run("create", "/open/closed", "secret", "-p", hosts=hosts)
    run("create", "/open/closed/below", hosts=hosts)
    run("acl", "/open/closed", "digest:somebody:HASH:cdrwa", hosts=hosts)
    for command in (["ls"], ["get"], ["acl"], ["set", "-f", "/dev/null"], ["contenders"]):
        code, out, err = run(command[0], "/open/closed", *command[1:], hosts=hosts)
        assert (code, out) == (77, [])
        assert err == ["aiolead: not allowed by the znode's ACL: /open/closed"]
    is_untold = has(hosts, Feature.EXISTS_NEEDS_READ)
    code, out, err = run("stat", "/open/closed", hosts=hosts)
    if is_untold:
        assert (code, out, err) == (
            77,
            [],
            ["aiolead: not allowed by the znode's ACL: /open/closed"],
        )
    else:
        assert (code, out[2], err) == (0, "data:     6 bytes, version 0", [])
    code, out, _ = run("ls", "/open", "-l", hosts=hosts)
    assert (code, len(out)) == (0, 2)
    row = out[1].split()
    assert [row[0], *row[1:4], row[-1]] == [
        *(["?"] * 4 if is_untold else ["-", "0", "6", "1"]),
        "closed",
    ]
    code, out, _ = run("ls", "/open", "-l", "--json", hosts=hosts)
    (said,) = objects(out)
    assert (code, said["path"], said["data_length"]) == (
        *(0, "/open/closed"),
        None if is_untold else 6,
    )
    assert len(said) == 2 + len(Stat._fields)
    code, out, _ = run("tree", "/open", "-d", hosts=hosts)
    assert (code, out[1:]) == (
        0,
        [
            "└── closed  (not allowed to list its children)",
            *([] if is_untold else ["    └── (1 more)"]),
        ],
    )
    code, out, _ = run("tree", "/open", "-d", "--json", hosts=hosts)
    closed = {
        "path": "/open/closed",
        "depth": 1,
        "children": None if is_untold else 1,
        "owner": None,
        "denied": True,
        "hidden": None if is_untold else 1,
        "encoding": None,
        "data": None,
    }
    assert objects(out)[1] == closed
    code, out, _ = run("tree", "/open", "-d", "--depth", "1", "--json", hosts=hosts)
    assert (code, objects(out)[1]) == (0, {**closed, "denied": False})
    code, out, _ = run("tree", "/open/closed", "-d", "--json", hosts=hosts)
    assert (code, objects(out)) == (0, [{**closed, "depth": 0}])


def test_deletion_of_an_unreadable_ephemeral_znode_is_noticed() -> None:
    """Its parent may be listed."""
    entry = "digest:somebody:HASH:r"
    with (
        EmbeddedServer.in_thread(version="3.9.3") as server,
        Command("create", "/e", "-e", "--acl", entry, hosts=server.connect_string) as holder,
    ):
        holder.out.expect("^/e$")
        with RawClient(server.connect_string) as other:
            for name in ("/one", "/two", "/e"):
                if name != "/e":
                    other.create(name)
                until(lambda: bool(server.watches()), "it watches")
                other.delete(name)
        assert holder.finish() == 74
        assert holder.err.rest() == [HELD, GONE]


def test_acls_are_read_and_set(run: Run, somewhere: str) -> None:
    login = ["--auth", "digest:ann:open sesame"]
    assert run("create", "/mine", *login, "-p", "--acl", "auth::cdrwa", hosts=somewhere)[0] == 0
    code, out, err = run("acl", "/mine", *login, hosts=somewhere)
    assert (code, out, err) == (0, ["digest:ann:***:cdrwa"], [])
    code, out, _ = run("acl", "/mine", "--hashes", *login, hosts=somewhere)
    assert (code, len(out[0])) == (0, len("digest:ann:") + 28 + len(":cdrwa"))
    entries = [out[0], "world:anyone:r"]
    code, out, err = run("acl", "/mine", *entries, "--version", "0", *login, hosts=somewhere)
    assert (code, out, err) == (0, [], ["aiolead: the ACL of /mine has version 1"])
    code, out, _ = run("acl", "/mine", "--json", *login, hosts=somewhere)
    assert objects(out) == [
        {
            "path": "/mine",
            "version": 1,
            "acl": [
                {"scheme": "digest", "id": "ann:***", "permissions": "cdrwa"},
                {"scheme": "world", "id": "anyone", "permissions": "r"},
            ],
        }
    ]
    # The stars of a hidden hash must not be set, since nobody would have access.
    code, _, err = run("acl", "/mine", "digest:ann:***:cdrwa", *login, hosts=somewhere)
    assert (code, "--hashes" in err[0]) == (2, True)
    code, _, err = run("acl", "/mine", "digest:ann:open sesame:x", *login, hosts=somewhere)
    assert (code, "sesame" in err[0]) == (2, False)


def test_data_on_a_terminal_are_escaped(
    run: Run, somewhere: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = b"\x1b]0;owned\x07\xff" + bytes(range(20))
    file = tmp_path / "data"
    file.write_bytes(data)
    assert run("create", "/x", "--file", str(file), "-p", hosts=somewhere)[0] == 0
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a\x1b[2J\n" + b"b" * 9)))
    assert run("create", "/text", "--file", "-", hosts=somewhere)[0] == 0

    monkeypatch.setattr(znodes, "is_terminal", lambda: True)
    code, out, _ = run("get", "/x", hosts=somewhere)
    assert (code, out[0][:32]) == (0, "00000000  1b 5d 30 3b 6f 77 6e 6")
    assert all(character.isprintable() for line in out for character in line)
    code, out, err = run("get", "/text", "--limit", "9", hosts=somewhere)
    assert (code, out[0].split()[-1]) == (0, "|a.[2J.bbb|")
    assert err == ["aiolead: these are the first 9 of 15 bytes (--limit)"]
    assert run("get", "/text", "--raw", hosts=somewhere) == (0, ["a\x1b[2J", "b" * 9], [])


def test_data_into_a_pipe_are_unchanged(
    capfdbinary: pytest.CaptureFixture[bytes], somewhere: str, tmp_path: Path
) -> None:
    file = tmp_path / "data"
    file.write_bytes(data := bytes(range(256)))
    hosts = ["--hosts", somewhere]
    assert aiolead.cli.main(["create", "/x", "-p", "-f", str(file), *hosts]) == 0
    capfdbinary.readouterr()
    assert aiolead.cli.main(["get", "/x", *hosts]) == 0
    assert capfdbinary.readouterr().out == data


def test_names_are_escaped(run: Run, somewhere: str) -> None:
    """ZooKeeper refuses controls in names, but not characters that reverse the writing."""
    with RawClient(somewhere) as client:
        client.create("")
        client.create("/gnp.\u202eexe-lock-0000000001", b"\x1b[2Jleader", flags=1)
        for command in ("ls", "tree", "contenders"):
            code, out, _ = run(command, "/", hosts=somewhere)
            assert code == 0
            assert r"gnp.\u202eexe" in out[-1]
            assert all(character.isprintable() for line in out for character in line)


def test_modes_of_znodes(run: Run, hosts: str) -> None:
    run("create", "/seq", "-p", hosts=hosts)
    assert run("create", "/seq/n-", "-s", hosts=hosts)[1] == ["/seq/n-0000000000"]
    assert run("create", "/seq/c", "--container", hosts=hosts)[0] == 0
    assert run("create", "/seq/t-", "--ttl", "100", "-s", hosts=hosts)[1] == ["/seq/t-0000000002"]


HELD = "aiolead: /e exists until Ctrl-C: this command holds it"
GONE = "aiolead: /e is gone, although we did not delete it"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_ephemeral_znode_lives_as_long_as_the_command(
    run: Run, somewhere: str, number: int
) -> None:
    with Command("create", "/e", "-ep", "--json", hosts=somewhere) as holder:
        said = json.loads(holder.out.expect(r"^\{.*\}$")[0])
        _, out, _ = run("stat", "/e", hosts=somewhere)
        assert f"kind:     ephemeral, of session {said['ephemeral_owner']}" in out
        assert holder.finish(number) == 0
    assert run("stat", "/e", hosts=somewhere)[0] == 1


def test_ephemeral_znode_that_another_client_deletes_ends_the_command(somewhere: str) -> None:
    with Command("create", "/e", "-e", "-p", hosts=somewhere) as holder:
        holder.out.expect("^/e$")
        with RawClient(somewhere) as client:
            client.delete("/e")
        assert holder.finish() == 74
        assert holder.err.rest() == [HELD, GONE]


def test_unreachable_server_is_reported(run: Run) -> None:
    code, out, err = run("ls", "--connect-timeout", "0.05", hosts="127.0.0.1:1")
    assert (code, out, len(err)) == (69, [], 1)
    assert "no session with 127.0.0.1:1 within 0.05 seconds" in err[0]
    code, out, err = run("ls", "--connect-timeout", "0.05", "--json", hosts="127.0.0.1:1")
    assert (code, out) == (69, [])
    assert objects(err)[0]["level"] == "error"
