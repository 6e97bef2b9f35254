"""The command: what servers say of themselves, what is printed, and signals."""

from __future__ import annotations

from ..model import Change, Mutant

WORDS = ("tests/cli/test_hostile_words.py",)
OUTPUT = ("tests/cli/test_output.py",)

MUTANTS = (
    Mutant(
        number="370",
        name="cons-by-a-regular-expression",
        wrong="The clients in the answer to `cons` are found by a regular expression, in quadratic "
        "time: a server can keep the command busy for hours, and no signal ends it.",
        seen_in="aiolead, before its first release",
        changes=(
            Change(
                "cli/server_inquiry.py",
                """
                head, parenthesis, rest = line.partition("](")
                address, bracket, _ = head.rpartition("[")
                if not (parenthesis and bracket and address.startswith(" /")):
                    continue
                """,
                r"""
                import re
                match = re.match(r"( /\S+?)\[[0-9a-f]+\]\(.*?\b(sid=0x[0-9a-f]{1,16}),", line)
                address = match[1] if match else ""
                rest = match[2] if match else ""
                """,
            ),
        ),
        tests=WORDS,
        simulated=False,
    ),
    Mutant(
        number="371",
        name="admin-json-as-it-comes",
        wrong="JSON of an admin server is parsed by what raises RecursionError for nesting: one "
        "server ends `ensemble`, `doctor` and the dashboard.",
        seen_in="aiolead, before its first release",
        changes=(
            Change(
                "cli/server_inquiry.py",
                "_parsing.json_object(body)",
                "__import__('json').loads(body)",
            ),
        ),
        tests=("tests/cli/test_hostile_servers.py", "-k", "admin"),
        simulated=False,
    ),
    Mutant(
        number="371b",
        name="admin-server-asked-in-the-clear",
        wrong="Admin servers are asked without TLS although the user has said to use it.",
        seen_in="aiolead, before its first release",
        changes=(Change("cli/server_inquiry.py", "if self._admin_plain_http:", "if True:"),),
        tests=WORDS,
        simulated=False,
    ),
    Mutant(
        number="372",
        name="lines-are-printed-as-they-are",
        wrong="What is printed is as safe as its caller made it: one field of a server that was "
        "forgotten moves the cursor.",
        seen_in="aiolead, before its first release: the latency in `ensemble`",
        changes=(
            Change(
                "cli/output.py",
                "part if isinstance(part, Styled) else render.escaped(part, keep=keep)",
                "part",
            ),
        ),
        tests=OUTPUT,
        simulated=False,
    ),
    Mutant(
        number="373",
        name="a-second-signal-is-only-noted",
        wrong="A second SIGINT does nothing: what computes or waits for the resolver goes on.",
        changes=(Change("cli/signals.py", "os.kill(os.getpid(), number)", "pass"),),
        tests=OUTPUT,
        simulated=False,
    ),
    Mutant(
        number="374",
        name="the-group-of-nobody-is-killed",
        wrong="The lease ends before the keeper has started the command, whose process number is "
        "0 as yet: SIGKILL goes to the process group of `aiolead` itself, and of the script that "
        "runs it.",
        seen_in="aiolead, before its first release",
        changes=(
            Change(
                "cli/child.py",
                """        if not self._pid:
            return False  # 0 would be our own process group
""",
                "",
            ),
        ),
        tests=("tests/cli/test_loss.py::test_the_keeper_has_not_started_it_yet",),
        simulated=False,
    ),
)
