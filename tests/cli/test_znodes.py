"""`aiolead ls`, `tree`, `get`, `stat`, `set`, `create`, `rm` and `acl`."""

from __future__ import annotations

import io
import json
import signal
import sys
from pathlib import Path

import pytest
from kit.checks import until
from kit.cli import (
    NOBODY,
    Command,
    Run,
    fails,
    kazoo_client,
    objects,
    outcome,
    prints,
    report,
    shown,
)
from kit.raw_client import RawClient, has

import aiolead.cli
from aiolead.cli import znodes
from aiolead.cli.znodes import split_entries
from aiolead.model import ACL, Permission, Stat
from aiolead.testing import EmbeddedServer
from aiolead.types import Feature


def test_znode_is_created_read_changed_and_deleted(run: Run, hosts: str) -> None:
    assert run("create /app/config one -p") == prints("/app/config")
    assert run("create /app/config") == fails("the znode exists already: /app/config")
    assert run("get /app/config") == prints("one")
    assert run("set /app/config two --version 0") == prints(err="/app/config has version 1")
    another = fails("the znode has another version: /app/config")
    assert run("set /app/config three --version 0") == another
    (said,) = report(run, "get /app/config")
    assert (said.pop("data"), said.pop("encoding"), said["version"]) == ("two", "utf-8", 1)
    (stat,) = report(run, "stat /app/config")
    assert stat == said
    assert (stat["ephemeral_owner"], stat["data_length"]) == (None, 3)
    assert {"kind:     persistent", "data:     3 bytes, version 1"} <= {
        *shown(run, "stat /app/config")
    }
    assert run("rm /app") == fails("the znode has children: /app (--recursive deletes them, too)")
    assert run("rm -r /app -q") == prints()
    for command in ("ls", "tree", "get", "stat", "rm", "acl", "contenders"):
        assert run(command, "/app") == fails("no such znode: /app")
    assert report(run, "rm /app --force") == [{"path": "/app", "deleted": 0}]


def test_delete_and_deleteall_are_names_of_rm(run: Run, somewhere: str) -> None:
    with kazoo_client(somewhere) as client:
        for path in ("/a", "/a/b", "/c"):
            client.create(path)
    assert run("delete /a") == fails("the znode has children: /a (--recursive deletes them, too)")
    assert run("delete /c") == prints(err="deleted 1 znode")
    assert run("deleteall /a") == prints(err="deleted 2 znodes")
    assert run("deleteall /a")[0] == 1
    assert run("deleteall -f /a")[0] == 0


def test_children_and_trees_are_listed(run: Run, hosts: str) -> None:
    with kazoo_client(hosts) as client:
        for path in ("/b", "/a", "/a/deep", "/a/deep/er"):
            client.create(path, b"data of " + path.encode())
        client.create("/a/mine", ephemeral=True)
        owner = f"{client.client_id[0]:#x}"
        assert run("ls") == prints("a", "b")
        heading, *rows = shown(run, "ls /a -l")
        assert heading.split() == ["owner", *znodes._HEADINGS[1:]]
        assert [row.split()[::5] for row in rows] == [["-", "deep"], [owner, "mine"]]
        deep, mine = report(run, "ls /a --long")
        assert (deep["path"], deep["num_children"]) == ("/a/deep", 1)
        assert mine["ephemeral_owner"] == owner
        assert shown(run, "tree --limit 5") == [
            "/",
            "├── a",
            "│   ├── deep",
            "│   │   └── (1 more)",
            f"│   └── mine  (ephemeral, of {owner})",
            "└── b",
        ]
        lines = shown(run, "tree / --depth 1 --data")
        assert lines[1:3] == ["├── a  = data of /a", "│   └── (2 more)"]
        tree = {said["path"]: said for said in report(run, "tree /a -d")}
        assert list(tree) == ["/a", "/a/deep", "/a/deep/er", "/a/mine"]
        assert [said["depth"] for said in tree.values()] == [0, 1, 2, 1]
        assert tree["/a/mine"]["owner"] == owner
        assert tree["/a/deep/er"]["data"] == "data of /a/deep/er"


def test_unreadable_znodes_are_shown_as_far_as_possible(run: Run, old_and_new_hosts: str) -> None:
    run("create /open/closed secret -p")
    run("create /open/closed/below")
    run("acl /open/closed", f"{NOBODY}:cdrwa")
    remedy = "(--auth or --sasl logs in; aiolead acl shows who may do what)"
    refused = fails(f"not allowed by the znode's ACL: /open/closed {remedy}", code=77)
    for command in ("ls", "get", "acl", "set -f /dev/null", "contenders"):
        assert run(command, "/open/closed") == refused
    if hides_stat := has(old_and_new_hosts, Feature.EXISTS_NEEDS_READ):
        assert run("stat /open/closed") == refused
    else:
        assert shown(run, "stat /open/closed")[2] == "data:     6 bytes, version 0"
    _, row = shown(run, "ls /open -l")
    cells = row.split()
    assert cells[:4] == (["?"] * 4 if hides_stat else ["-", "0", "6", "1"])
    assert cells[-1] == "closed"
    (said,) = report(run, "ls /open -l")
    assert (said["path"], said["data_length"]) == ("/open/closed", None if hides_stat else 6)
    assert len(said) == 2 + len(Stat._fields)
    more = [] if hides_stat else ["    └── (1 more)"]
    closed = "└── closed  (not allowed to list its children)"
    assert shown(run, "tree /open -d")[1:] == [closed, *more]
    known = {
        "path": "/open/closed",
        "depth": 1,
        "owner": None,
        "denied": True,
        **dict.fromkeys(("children", "hidden"), None if hides_stat else 1),
        "encoding": None,
        "data": None,
    }
    assert report(run, "tree /open -d")[1] == known
    assert report(run, "tree /open -d --depth 1")[1] == {**known, "denied": False}
    assert report(run, "tree /open/closed -d") == [{**known, "depth": 0}]


def test_deletion_of_an_unreadable_ephemeral_znode_is_noticed() -> None:
    """Its parent may be listed."""
    entry = f"{NOBODY}:r"
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
    assert run("create /mine -p --acl auth::cdrwa", *login)[0] == 0
    assert run("acl /mine", *login) == prints("digest:ann:***:cdrwa")
    (entry,) = shown(run, "acl /mine --hashes", *login)
    assert len(entry) == len("digest:ann:") + 28 + len(":cdrwa")
    changed = run("acl /mine --version 0", entry, "world:anyone:r", *login)
    assert changed == prints(err="the ACL of /mine has version 1")
    assert report(run, "acl /mine", *login) == [
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
    code, _, err = run("acl /mine digest:ann:***:cdrwa", *login)
    assert (code, "--hashes" in err[0]) == (2, True)
    code, _, err = run("acl /mine", "digest:ann:open sesame:x", *login)
    assert (code, "sesame" in err[0]) == (2, False)


@pytest.mark.parametrize("id_", ["ann", "ann:open sesame", "ann:c2VzYW1l", ":"])
def test_password_in_the_place_of_a_hash_is_refused(run: Run, somewhere: str, id_: str) -> None:
    """The servers take it: then nobody has the permissions, whatever the password."""
    run("create /mine -p")
    for typed in (("acl", "/mine"), ("create", "/own", "--acl")):
        code, _, (why,) = run(*typed, f"digest:{id_}:cdrwa")
        assert (code, "an id of digest must be USER:HASH" in why, "sesame" in why) == (
            2,
            True,
            False,
        )
    assert shown(run, "acl /mine") == ["world:anyone:cdrwa"]


def test_acl_that_nobody_may_change_is_reported(run: Run, somewhere: str) -> None:
    run("create /mine -p")
    _, _, err = run("acl /mine world:anyone:r")
    assert err[1:] == ["aiolead: no entry has a: only the servers' super user can change it again"]


def test_acl_for_no_identity_names_the_cause(run: Run, somewhere: str) -> None:
    why = "the server found the ACL invalid: /mine"
    remedy = "auth:: needs --auth, --sasl or --tls-cert; the servers must know any other scheme"
    assert run("create /mine -p --acl auth::cdrwa") == fails(f"{why} ({remedy})")


def test_default_acl_is_that_of_created_znodes(
    run: Run, somewhere: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    login = ["--auth", "digest:ann:open sesame"]
    monkeypatch.setenv("AIOLEAD_DEFAULT_ACL", "auth::cdrwa,world:anyone:r")
    ours = prints("digest:ann:***:cdrwa", "world:anyone:r")
    assert run("create /its/own -p", *login)[0] == 0
    assert run("acl /its", *login) == run("acl /its/own", *login) == ours
    given = ("--default-acl", "auth::cdrwa,world:anyone:r")
    assert outcome("lock", "/lock", *login, *given, "--", "true", hosts=somewhere)[0] == 0
    assert run("acl /lock", *login) == ours
    assert run("create /other --acl world:anyone:cdrwa", *login)[0] == 0
    assert run("acl /other", *login) == prints("world:anyone:cdrwa")
    code, _, err = run("create /a --default-acl", "auth:sesame", *login)
    assert (code, "--default-acl: must be" in err[0], "sesame" in err[0]) == (2, True, False)


def test_comma_in_the_id_of_an_acl_entry_does_not_end_it() -> None:
    entries = split_entries("x509:CN=app,O=Example:r,auth::cdrwa", name="--default-acl")
    assert entries == [ACL.x509("CN=app,O=Example", Permission.READ), ACL.auth()]


def test_data_on_a_terminal_are_escaped(
    run: Run, somewhere: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "data"
    file.write_bytes(b"\x1b]0;owned\x07\xff" + bytes(range(20)))
    assert run("create /x -p --file", str(file))[0] == 0
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a\x1b[2J\n" + b"b" * 9)))
    assert run("create /text --file -")[0] == 0

    monkeypatch.setattr(znodes, "is_terminal", lambda: True)
    out = shown(run, "get /x")
    assert out[0][:32] == "00000000  1b 5d 30 3b 6f 77 6e 6"
    assert all(line.isprintable() for line in out)
    code, out, err = run("get /text --limit 9")
    assert (code, out[0].split()[-1]) == (0, "|a.[2J.bbb|")
    assert err == ["aiolead: these are the first 9 of 15 bytes (--limit)"]
    assert run("get /text --raw") == prints("a\x1b[2J", "b" * 9)


def test_data_into_a_pipe_are_unchanged(
    capfdbinary: pytest.CaptureFixture[bytes], somewhere: str, tmp_path: Path
) -> None:
    file = tmp_path / "data"
    file.write_bytes(data := bytes(range(256)))
    assert aiolead.cli.main(["create", "/x", "-p", "-f", str(file)]) == 0
    capfdbinary.readouterr()
    assert aiolead.cli.main(["get", "/x"]) == 0
    assert capfdbinary.readouterr().out == data


def test_names_are_escaped(run: Run, somewhere: str) -> None:
    """ZooKeeper refuses controls in names, but not characters that reverse the writing."""
    with RawClient(somewhere) as client:
        client.create("")
        client.create("/gnp.\u202eexe-lock-0000000001", b"\x1b[2Jleader", flags=1)
        for command in ("ls", "tree", "contenders"):
            out = shown(run, command, "/")
            assert r"gnp.\u202eexe" in out[-1]
            assert all(line.isprintable() for line in out)


def test_modes_of_znodes(run: Run, hosts: str) -> None:
    run("create /seq -p")
    assert run("create /seq/n- -s")[1] == ["/seq/n-0000000000"]
    assert run("create /seq/c --container")[0] == 0
    assert run("create /seq/t- --ttl 100 -s")[1] == ["/seq/t-0000000002"]


HELD = "aiolead: /e exists until Ctrl-C: this command holds it"
GONE = "aiolead: /e is gone, although we did not delete it"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_ephemeral_znode_lives_as_long_as_the_command(
    run: Run, somewhere: str, number: int
) -> None:
    with Command("create", "/e", "-ep", "--json", hosts=somewhere) as holder:
        said = json.loads(holder.out.expect(r"^\{.*\}$")[0])
        _, out, _ = run("stat /e")
        assert f"kind:     ephemeral, of session {said['ephemeral_owner']}" in out
        assert holder.finish(number) == 0
    assert run("stat /e")[0] == 1


def test_ephemeral_znode_that_another_client_deletes_ends_the_command(somewhere: str) -> None:
    with Command("create", "/e", "-e", "-p", hosts=somewhere) as holder:
        holder.out.expect("^/e$")
        with RawClient(somewhere) as client:
            client.delete("/e")
        assert holder.finish() == 74
        assert holder.err.rest() == [HELD, GONE]


def test_unreachable_server_is_reported(run: Run) -> None:
    brief = ("ls --connect-timeout 0.05", "--hosts", "127.0.0.1:1")
    code, out, (error,) = run(*brief)
    assert (code, out) == (69, [])
    assert "no session with 127.0.0.1:1 within 0.05 seconds" in error
    code, out, err = run(*brief, "--json")
    assert (code, out) == (69, [])
    assert objects(err)[0]["level"] == "error"
