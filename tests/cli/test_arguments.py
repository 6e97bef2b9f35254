"""Arguments of the command: help, completion and refused values; and the texts of errors."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from kit.cli import OnTerminal, Run, environment, fails, prints, shown
from kit.raw_client import RawClient

from aiolead import errors
from aiolead._util.escaping import in_seconds
from aiolead.cli import exits, main, options
from aiolead.cli.app import _COMMANDS, _EXAMPLES, app
from aiolead.cli.exits import _OPTIONS, complaint
from aiolead.cli.options import COMMON_OPTIONS, listening_address
from aiolead.testing import EmbeddedServer, OpCode

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "command.md").read_text()
COMMANDS = [name for name in app if not name.startswith("-") and app[name].show]

# --- help and completion -------------------------------------------------------------------------


def test_help_lists_all_commands(run: Run) -> None:
    code, out, _ = run("--help")
    assert (code, len(COMMANDS) > 15) == (0, True)
    for command in COMMANDS:
        assert any(f"│ {command} " in line for line in out)


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("contenders", ["--leaders"]),
        ("server", ["--listen", "--port"]),
        ("dashboard", ["--listen", "--port", "--admin-plain-http"]),
        ("ensemble", ["--admin-plain-http"]),
        ("doctor", ["--admin-plain-http"]),
    ],
)
def test_help_of_a_command_lists_its_options(run: Run, command: str, options: list[str]) -> None:
    out = shown(run, command, "--help")
    assert all(option in " ".join(out) for option in options)


def test_help_begins_with_examples_and_own_options(run: Run) -> None:
    shown = "\n".join(run("run --help")[1])
    texts = ("aiolead run /jobs", "Usage:", "─ Arguments ─", "─ Options ─", "--lost-exit-code")
    places = [shown.index(text) for text in (*texts, "aiolead help connection")]
    assert places == sorted(places)
    assert "[default: False]" not in shown
    assert "--session-timeout INT" not in shown


def test_examples_of_the_help_are_not_wrapped() -> None:
    lines = [*_EXAMPLES.splitlines(), *(x for each in _COMMANDS.values() for x in each.help[1:])]
    assert [line for line in lines if len(line) > 76] == []


@pytest.mark.parametrize("command", ["run", "lock"])
def test_empty_command_is_refused(run: Run, command: str) -> None:
    """As of `-- $COMMAND` where the variable is empty: no run that goes on without it."""
    why = "no command was given; it goes last, after --"
    assert run(f"{command} /app --connect-timeout 1 --") == fails(why, code=exits.USAGE)


def test_help_connection_lists_the_common_options(run: Run) -> None:
    out = shown(run, "help connection")
    for option in COMMON_OPTIONS | {"config"}:
        assert any(re.match(f"  --{option}(,|$)", line) for line in out), option


def test_help_of_a_topic(run: Run) -> None:
    assert run("help lock") == run("lock --help")
    assert run("help") == run("--help")
    (why,) = run("help nothing")[2]
    assert why.startswith('aiolead: Unknown command "nothing". Available commands: ')


@pytest.mark.parametrize("command", [name for name in COMMANDS if name not in ("config", "demo")])
def test_usage_shows_which_arguments_are_optional(command: str) -> None:
    usage = app[command].usage or ""
    for argument in app[command].assemble_argument_collection():
        name = argument.names[0].removesuffix("S")  # PATHS are [PATH...]
        if not name.startswith("-") and name not in ("*", "COMMAND"):
            shown = (f" {name}" in usage, f"[{name}" in usage)
            assert shown == (argument.required, not argument.required), name


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_fits_into_a_terminal(run: Run, command: str) -> None:
    assert max(map(len, run(f"{command} --help")[1])) <= 80


@pytest.mark.parametrize("command", [name for name in COMMANDS if name != "config"])
def test_every_command_has_the_common_options(command: str) -> None:
    arguments = app[command].assemble_argument_collection()
    names = {name for argument in arguments for name in argument.names}
    wanted = {"--json", "--debug", "--config"}
    # The output of `completion` is a program.
    assert names & wanted == (wanted if command not in ("completion", "help") else set())


def test_page_has_all_commands_and_options() -> None:
    for command in COMMANDS:
        assert re.search(rf"^\| .*`{command}[ `].*\|", PAGE, re.MULTILINE), command
    for option in COMMON_OPTIONS - {"quiet", "verbose"} | {"config", "patience", "admin-port"}:
        assert f"`--{option}`" in PAGE, option


@pytest.mark.parametrize(
    ("typed", "completed"),
    [("lo", "lock"), ("lock --nonb", "--nonblock"), ("acl --ha", "--hashes")],
)
def test_bash_completes_commands_and_options(run: Run, typed: str, completed: str) -> None:
    out = shown(run, "completion bash")
    words = ["aiolead", *typed.split()]
    line = " ".join(words)
    asking = f"""
        COMP_WORDS=({line}) COMP_CWORD={len(words) - 1} COMP_LINE="{line}" COMP_POINT={len(line)}
        _aiolead aiolead {words[-1]} {words[-2]}
        echo "${{COMPREPLY[@]}}"
    """
    script = "\n".join([*out, asking])
    done = subprocess.run(["bash"], input=script, text=True, check=True, capture_output=True)
    assert (done.stdout.split(), done.stderr) == ([completed], "")


def test_paths_are_completed(run: Run, somewhere: str) -> None:
    run("create /app/settings -p")
    run("create /app/state")
    run("create", "/app/s\u202e")  # which a terminal would not show as it is
    for words, found in (
        ("get /app/s", ["/app/settings", "/app/state"]),
        *((f"{one} /", ["/app"]) for one in ("lock", "top", "doctor", "dashboard")),
        ("top /app/settings /app/s", ["/app/settings", "/app/state"]),
    ):
        out = shown(run, f"__complete {words}")
        assert [line.split("\t")[0] for line in out if line.startswith("/")] == found
    assert "/app" not in run("__complete get / --hosts 127.0.0.1:1")[1]


@pytest.mark.parametrize("hosts", ["127.0.0.1:1", "a silent server"])
def test_paths_without_an_answer_are_not_completed(
    run: Run, monkeypatch: pytest.MonkeyPatch, hosts: str
) -> None:
    monkeypatch.setattr(options, "COMPLETED_WITHIN", 0.3)
    with EmbeddedServer.in_thread() as server:
        server.drop_request(OpCode.GET_CHILDREN, 1000)
        code, out, err = run(
            "__complete get /", hosts=hosts if ":" in hosts else server.connect_string
        )
    assert (code, [line for line in out if line.isprintable() and line], err) == (0, [], [])


ASK_SHELL = {
    "bash": """
        source completions
        COMP_WORDS=(aiolead COMMAND /app/se) COMP_CWORD=2 COMP_LINE="aiolead COMMAND /app/se"
        COMP_POINT=${#COMP_LINE}
        _aiolead aiolead /app/se COMMAND
        echo "${COMPREPLY[@]}"
    """,
    "fish": "source completions; complete -C 'aiolead COMMAND /app/se'",
    "zsh": "",
}


@pytest.mark.parametrize("command_name", ["get", "top"])
@pytest.mark.parametrize("shell", ASK_SHELL)
def test_shells_complete_paths(
    run: Run, somewhere: str, tmp_path: Path, shell: str, command_name: str
) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell}")
    run("create -p /app/settings")
    run("create /app/other")
    name = "_aiolead" if shell == "zsh" else "completions"
    (tmp_path / name).write_text("\n".join(shown(run, f"completion {shell}")) + "\n")
    command = tmp_path / "bin" / "aiolead"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m aiolead "$@"\n')
    command.chmod(0o755)
    path = f"{command.parent}:{os.environ['PATH']}"
    env = environment(AIOLEAD_HOSTS=somewhere, PATH=path, HOME=str(tmp_path))
    if shell != "zsh":
        asked = [shell, "-c", ASK_SHELL[shell].replace("COMMAND", command_name)]
        done = subprocess.run(
            asked, cwd=tmp_path, env=env, check=True, capture_output=True, text=True
        )
        assert (done.stdout.split(), done.stderr) == (["/app/settings"], "")
        return
    # Only its editor of lines completes.
    (tmp_path / ".zshrc").write_text("PS1='prompt> '; fpath=(~ $fpath); autoload -U compinit\n")
    with OnTerminal(program=["zsh", "-i"], env=env) as terminal:
        terminal.wait_for("prompt> ")
        terminal.type("compinit -u -D; echo is re''ady\n")
        terminal.wait_for("is ready")
        terminal.type(f"aiolead {command_name} /app/se\t")
        terminal.wait_for("ttings")


@pytest.mark.parametrize("flag", ["--version", "-V"])
def test_version(capfd: pytest.CaptureFixture[str], flag: str) -> None:
    assert main([flag]) == 0
    assert capfd.readouterr().out.strip()


WITHOUT = """
import aiolead, sys
assert not any(name.startswith("aiolead.cli") for name in sys.modules)
from aiolead.cli import main
for missing in ("cyclopts", "rich"):
    sys.modules[missing] = None
    assert main(["--help"]) == 2
    del sys.modules[missing]
"""


def test_command_without_the_extra_says_what_to_install() -> None:
    """The library itself does not import the command."""
    command = [sys.executable, "-c", WITHOUT]
    ended = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (0, "")
    assert ended.stderr.splitlines() == [
        f'aiolead: the command needs {missing}: pip install "aiolead[cli]"'
        for missing in ("cyclopts", "rich")
    ]


# --- refused arguments ---------------------------------------------------------------------------


def refusal(run: Run, monkeypatch: pytest.MonkeyPatch, typed: str) -> str:
    """The only line that the command prints. It sends nothing, since there is no server."""
    monkeypatch.setenv("AIOLEAD_HOSTS", "127.0.0.1:1")
    code, out, err = run(*shlex.split(typed))
    assert (code, out, len(err)) == (2, [], 1), err
    assert err[0].startswith("aiolead: ")
    assert "sesame" not in err[0]
    return err[0].removeprefix("aiolead: ")


@pytest.mark.parametrize(
    ("typed", "why"),
    [
        (
            "ls --session-timeout=-1",
            "--session-timeout: must be a number of seconds from 0.1 to 3600, not -1.0",
        ),
        (
            "ls --session-timeout=10000",
            (
                "--session-timeout: must be a number of seconds from 0.1 to 3600, not 10000.0: "
                "servers grant 20 ticks at most, 40 seconds by default. In milliseconds, as Java's "
                "client has it? Then write 10"
            ),
        ),
        (
            "create /x --acl x",
            (
                "--acl: must be SCHEME:ID:PERMISSIONS, such as world:anyone:r or auth::cdrwa; "
                "permissions are some of the letters cdrwa"
            ),
        ),
        ("ls --tls-ca /none", "--tls-ca: cannot read /none: No such file or directory"),
        ("ls --tls-key /none", "--tls-cert: missing, although there is a key or its password"),
        (
            "ls --engine x",
            "--engine: must be one of 'zookeeper', 'clickhouse-keeper', 'raftkeeper', not 'x'",
        ),
        ("ls --server-version x", "--server-version: must be a version such as \"3.9\", not 'x'"),
        ("lock /x --wait=-1 -- true", "--wait: must be 0 seconds or more, not -1"),
        ("lock /x -w nan -- true", "--wait: must be 0 seconds or more, not nan"),
        ("lock /x -E 256 -- true", "--conflict-exit-code: must be 0 to 255, not 256"),
        ("run /x --lost-exit-code=-1 -- true", "--lost-exit-code: must be 0 to 255, not -1"),
        (
            "ls --hosts zk://me:sesame@zk1/app",
            (
                "--hosts: a connect string is no URL and has no 'zk://': write "
                "'host:2181,host2:2181/chroot', not 'zk://***@zk1/app'"
            ),
        ),
        ("lock /x -n -w 1 -- true", "--nonblock, --wait: one or the other"),
        ("lock /x -s -x -- true", "--shared, --exclusive, --slots: one of them"),
        ("lock /x -x --slots 2 -- true", "--shared, --exclusive, --slots: one of them"),
        ("lock /x --slots 0 -- true", "--slots: must be 1 or more, not 0"),
        ("lock /x --shell -- echo x", "--shell: give the command as one argument, in quotes"),
        ("run /x --leaders 0", "--leaders: must be 1 to 1000, not 0"),
        ("run /x --leaders 0 -- true", "--leaders: must be 1 to 1000, not 0"),
        ("run /x --changing-from 1001 -- true", "--changing-from: must be 1 to 1000, not 1001"),
        ("run /x --priority 1001 -- true", "--priority: must be -1000 to 1000, not 1001"),
        ("run /x --stable-for 0 -- true", "--stable-for: must be 1 seconds or more, not 0"),
        (
            "run /x --priority 1 --leaders 2 -- true",
            "--priority: needs --leaders 1, without --changing-from",
        ),
        ("create /x --ttl 0", "--ttl: must be 0.001 seconds or more, not 0"),
        ("find / --limit 0", "--limit: must be 1 or more, not 0"),
        ("grep x / --limit 0", "--limit: must be 1 or more, not 0"),
        ("cp -r /x /y --limit 0", "--limit: must be 1 or more, not 0"),
        ("export / --limit 0", "--limit: must be 1 or more, not 0"),
        ("ephemerals / --limit 0", "--limit: must be 1 or more, not 0"),
        ("demo herd --sizes 1", "--sizes: must be 2 to 1000, not 1"),
        ("ls relative", "path: must start with '/', not 'relative'"),
    ],
)
def test_error_names_the_option(
    run: Run, monkeypatch: pytest.MonkeyPatch, typed: str, why: str
) -> None:
    assert refusal(run, monkeypatch, typed) == why


@pytest.mark.parametrize(
    ("typed", "why"),
    [
        ("frobnicate", "(see: aiolead --help)"),
        ("--frobnicate", "(see: aiolead --help)"),
        ("--hosts x ls", "(see: aiolead --help)"),
        ("ls --frobnicate", "(see: aiolead ls --help)"),
        ("find / -name 'q*'", "Unknown option: -name. Did you mean --name? (see: aiolead find"),
        ("ls -json", "Did you mean --json?"),
        ("run /x ls --frobnicate", "(a command with options of its own goes after --)"),
        ("once /x k ls --frobnicate", "(a command with options of its own goes after --)"),
        ("completion tcsh", "(see: aiolead completion --help)"),
        ("lock", "(see: aiolead lock --help)"),
        ("ls /a/", ""),
        ("ls / --limit 3", ""),
        ("tree / --depth 0", ""),
        ("tree / --limit x", ""),
        ("get / --raw --hex", ""),
        ("get", ""),
        ("set /x", ""),
        ("set /x two words", "there is no argument for 'words': put quotes around spaces"),
        ("set /x data --file y", ""),
        ("set /x --file /nowhere/at/all", ""),
        ("create /x --ephemeral --container", ""),
        ("rm /x -r --version 3", ""),
        ("acl /x --version 3", ""),
        ("watch /x --count 0", ""),
        ("contenders /x --leaders 0", ""),
        ("elect x", ""),
        ("ensemble --patience 0", ""),
        ("doctor --admin-port 65536", ""),
        ("doctor x", ""),
        ("stat / --sasl 'plain:ann:open sesame'", ""),
        ("lock /app", "no command was given"),
        ("once /jobs/nightly -- ./nightly.sh now", "PATH KEY -- COMMAND"),
        ("once -- /jobs/nightly today ./nightly.sh", "PATH KEY -- COMMAND"),
        ("lock -- /app", "only the command goes after --: aiolead lock [OPTIONS] PATH -- COMMAND"),
        ("run -- /app", "PATH [-- COMMAND...]"),
        ("run app -- true", "path: must start with '/'"),
        ("run --grace 3 /app -- true", "0 to 2.5 seconds"),
        ("run /app ls -l", "goes after --"),
        ("run --hosts 'a b' /app -- true", "hosts"),
        ("run --auth sesame /app -- true", "--auth"),
        ("run --session-timeout x /app -- true", "timeout"),
        ("ruin", "ruin"),
        ("release /app", 'Did you mean "revoke"?'),
        ("getAcl /app", 'Did you mean "acl"?'),
        ("ping", 'Did you mean "ensemble" or "doctor"?'),
        ("help leaders", 'Did you mean "contenders"?'),
        ("bench --seconds 0", ""),
        ("bench --in-flight 0", ""),
        ("bench --size -1", ""),
        ("bench here", ""),
        ("server --port 65536", "0 to 65535"),
        ("dashboard --port 65536", "--port"),
        ("dashboard --listen 8764", "--listen: must be ADDRESS:PORT"),
        ("dashboard --listen 127.0.0.1:65536", "--listen"),
        ("dashboard --listen ::1:x", "--listen"),
        ("dashboard --token sesame", "--token: must have 16 characters or more"),
        ("dashboard relative", "relative"),
        ("dashboard --leaders 0", "--leaders"),
        ("dashboard --max-znodes 0", "--max-znodes"),
        ("dashboard --backend trio", "the dashboard's web server runs on asyncio alone"),
        ("demo ensemble --zxids 1,2", "--zxids: must be 3, one for each server"),
        ("demo ensemble --zxids 1,2,x", "'x' is no zxid"),
        ("demo ensemble --zxids 1,2,999999", "is no zxid"),
        ("demo ensemble --down 4", "--down: '4' is none of the servers 1 to 3"),
        ("demo ensemble --start 0,-1,2", "--start: must be numbers of seconds, not '-1'"),
        ("demo ensemble --split 1/1,2", "--split: a server is in one part only"),
        ("demo ensemble --log 1=1.3-1.1", "must be of one epoch, and ascend"),
        ("demo ensemble --log 1=1.3,1.2", "--log: must ascend"),
        ("demo ensemble --epochs 1,1,1,1", "--epochs: must be 3, one for each server"),
        ("demo ensemble --servers 0", "--servers: must be 1 to 255"),
    ],
)
def test_invalid_arguments_are_refused(
    run: Run, monkeypatch: pytest.MonkeyPatch, typed: str, why: str
) -> None:
    assert why in refusal(run, monkeypatch, typed)


@pytest.mark.parametrize(
    ("listen", "port", "address"),
    [
        ("127.0.0.1:2181", None, ("127.0.0.1", 2181)),
        ("[::1]:2181", None, ("::1", 2181)),
        ("127.0.0.1:2181", 0, ("127.0.0.1", 0)),
    ],
)
def test_port_overrides_that_of_listen(
    listen: str, port: int | None, address: tuple[str, int]
) -> None:
    assert listening_address(listen, port) == address


@pytest.mark.parametrize("listen", ["2181", "127.0.0.1", "127.0.0.1:65536", ":1", "a:b"])
def test_invalid_address_to_listen_on_is_refused(listen: str) -> None:
    with pytest.raises(errors.ConfigurationError, match="--listen: must be ADDRESS:PORT"):
        listening_address(listen, None)


# --- errors --------------------------------------------------------------------------------------


def test_refused_request_is_reported_once(run: Run) -> None:
    """The library warns of it as well, for programs that go on."""
    with EmbeddedServer.in_thread() as server:
        server.limit_requests(5_000)
        code, _, reported = run("sync", f"/{'x' * 10_000}", hosts=server.connect_string)
    assert (code, len(reported)) == (exits.UNAVAILABLE, 1), reported
    assert " is refused: " in reported[0]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.ConfigurationError("x"), 2),
        (errors.InvalidPathError("x"), 2),
        (errors.ConnectFailed("x"), 69),
        (errors.ConnectionLossError("x"), 69),
        (errors.SessionExpiredError("x"), 69),
        (errors.AuthFailedError("x"), 77),
        (errors.NoAuthError("/x"), 77),
        (errors.AcquireTimeout("x"), 75),
        (errors.LeadershipLost("/x", errors.LossReason.EXPIRED, 1), 74),
        (errors.MixedLayoutError("/x", "y"), 1),
    ],
)
def test_exit_code_of_an_error(error: errors.AioleadError, code: int) -> None:
    assert exits.exit_code(error) == code


def test_names_of_options_in_errors_exist() -> None:
    known = {
        name
        for command in ("create", "members", "run", "server", "set")
        for argument in app[command].assemble_argument_collection()
        for name in argument.names
    }
    assert set(_OPTIONS.values()) <= known


def test_errors_about_no_option_stay_as_they_are() -> None:
    for text in ("path: must start with '/', not 'x'", "--grace: must be 0", "no colon at all"):
        assert complaint(errors.ConfigurationError(text)) == text
    assert complaint(ValueError()) == "ValueError"


def test_errors_say_what_to_do(run: Run, somewhere: str) -> None:
    no_chroot = (
        "aiolead: no such znode: / (the chroot in --hosts does not exist: aiolead create -p /)"
    )
    assert run("ls /") == (1, [], [no_chroot])
    # The scheme is easily forgotten. Servers refuse unknown schemes, but no password of `digest`.
    remedy = "(--auth begins with a scheme, such as digest:USER:PASSWORD)"
    assert run("ls / --auth me:pass") == (
        77,
        [],
        [f"aiolead: {somewhere.partition('/')[0]}: the server refused the credentials {remedy}"],
    )
    refused = errors.NoAuthError("/zookeeper/config")
    text = "not allowed by the znode's ACL: /zookeeper/config"
    login = "(--auth or --sasl logs in; aiolead acl shows who may do what)"
    assert complaint(refused, "get") == f"{text} {login}"
    parent = f"{login[:-1]}; the parent's ACL says who may create and delete)"
    assert complaint(refused, "rm") == complaint(refused, "lock") == f"{text} {parent}"
    assert complaint(refused, "members") == f"{text} (by default, only the servers' super user may)"
    mixed = errors.MixedLayoutError("/a/b", "start the new ones with changing_from=1")
    assert complaint(mixed, "run").endswith("start the new ones with --changing-from 1")
    with RawClient(somewhere) as client:
        client.create("")
    no_parent = "aiolead: the parent of the new znode is missing: /a/b (--parents creates it)"
    assert run("create /a/b") == (1, [], [no_parent])
    assert run("create --parents /a/b") == prints("/a/b")
    code, _, err = run("bench /none")
    assert (code, err) == (1, ["aiolead: no such znode: /none"])


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(1, "1 second"), (1.0, "1 second"), (0.5, "0.5 seconds"), (2, "2 seconds")],
)
def test_seconds_have_a_plural(seconds: float, text: str) -> None:
    assert in_seconds(seconds) == text
