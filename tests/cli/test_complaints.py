"""What goes wrong is said in terms of the command's own options, with what to do about it."""

from __future__ import annotations

import pytest
from kit.cli import Run
from kit.raw_client import RawClient

from aiolead import errors
from aiolead.cli.app import app
from aiolead.cli.exits import _OPTIONS, complaint

NOWHERE = "127.0.0.1:1"


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (
            ["ls", "--session-timeout=-1"],
            "--session-timeout: must be a number of seconds from 0.1 to 3600, not -1.0",
        ),
        (
            ["ls", "--session-timeout=10000"],
            (
                "--session-timeout: must be a number of seconds from 0.1 to 3600, not 10000.0: "
                "servers grant 20 ticks at most, 40 seconds by default. In milliseconds, as Java's "
                "client has it? Then write 10"
            ),
        ),
        (
            ["create", "/x", "--acl", "x"],
            (
                "--acl: must be SCHEME:ID:PERMISSIONS, such as world:anyone:r or auth::cdrwa; "
                "permissions are some of the letters cdrwa"
            ),
        ),
        (["ls", "--tls-ca", "/none"], "--tls-ca: cannot read /none: No such file or directory"),
        (
            ["ls", "--tls-key", "/none"],
            "--tls-cert: missing, although there is a key or its password",
        ),
        (
            ["ls", "--server-version", "x"],
            "--server-version: must be a version such as \"3.9\", not 'x'",
        ),
        (
            ["lock", "/x", "--wait=-1", "--", "true"],
            "--wait: must be 0 seconds or more, not -1",
        ),
        (
            ["lock", "/x", "-w", "nan", "--", "true"],
            "--wait: must be 0 seconds or more, not nan",
        ),
        (
            ["lock", "/x", "-E", "256", "--", "true"],
            "--conflict-exit-code: must be 0 to 255, not 256",
        ),
        (
            ["run", "/x", "--lost-exit-code=-1", "--", "true"],
            "--lost-exit-code: must be 0 to 255, not -1",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_options_have_their_own_names(run: Run, arguments: list[str], why: str) -> None:
    """Before anything is sent, or even said to be under way."""
    head, dashes, tail = arguments, [], []
    if "--" in arguments:
        at = arguments.index("--")
        head, dashes, tail = arguments[:at], ["--"], arguments[at + 1 :]
    code, out, err = run(*head, "--hosts", NOWHERE, *dashes, *tail)
    assert (code, out, err) == (2, [], [f"aiolead: {why}"])


def test_the_names_are_those_of_options() -> None:
    known = {
        name
        for command in ("create", "elect", "run", "server", "set")
        for argument in app[command].assemble_argument_collection()
        for name in argument.names
    }
    assert set(_OPTIONS.values()) <= known


def test_what_belongs_to_no_option_is_left_as_it_is() -> None:
    for text in ("path: must start with '/', not 'x'", "--grace: must be 0", "no colon at all"):
        assert complaint(errors.ConfigurationError(text)) == text
    assert complaint(ValueError()) == "ValueError"


def test_what_to_do_about_it(run: Run, somewhere: str) -> None:
    code, out, err = run("ls", "/", hosts=somewhere)
    assert (code, out) == (1, [])
    assert err == ["aiolead: no such znode: / (the chroot in --hosts does not exist)"]
    with RawClient(somewhere) as client:
        client.create("")
    code, _, err = run("create", "/a/b", hosts=somewhere)
    assert code == 1
    assert err == ["aiolead: the parent of the new znode is missing: /a/b (--parents creates it)"]
    assert run("create", "--parents", "/a/b", hosts=somewhere) == (0, ["/a/b"], [])
    code, _, err = run("bench", "/none", hosts=somewhere)
    assert (code, err) == (1, ["aiolead: no such znode: /none"])


def test_hosts_that_are_a_url(run: Run) -> None:
    """With a password, which is not shown."""
    why = "--hosts: a connect string is no URL and has no 'zk://': write "
    why += "'host:2181,host2:2181/chroot', not 'zk://***@zk1/app'"
    assert run("ls", "--hosts", "zk://me:hush@zk1/app") == (2, [], [f"aiolead: {why}"])
