"""The session guardian: when it closes a session, what it knows, and who can see that.

The simulation has no processes: tests have to see these.
"""

from __future__ import annotations

from ..model import Change, Mutant

GUARDIAN = "tests/client/test_guardian.py"
PROCESS = "_client/guardian_process.py"
CONTROL = "_client/guardian_control.py"

MUTANTS = (
    Mutant(
        number="380",
        name="stopped-is-dead",
        wrong="The guardian closes the session of an owner that was stopped.",
        changes=(
            Change(
                PROCESS,
                "for descriptor, _ in self._poller.poll(wait):",
                """
                state = open(f"/proc/{self._owner}/stat").read().rpartition(")")[2].split()[0]
                has_ended = state in "Tt"
                for descriptor, _ in self._poller.poll(10):
                """,
            ),
        ),
        tests=(GUARDIAN, "-k", "stopped or debugger"),
        simulated=False,
    ),
    Mutant(
        number="381",
        name="the-end-of-the-stream-is-the-end",
        wrong="An owner that has closed its descriptors counts as dead.",
        changes=(Change(PROCESS, "or self._is_gone()", "or True"),),
        tests=(GUARDIAN, "-k", "goes_on and pipe"),
        simulated=False,
    ),
    Mutant(
        number="382",
        name="a-fork-keeps-the-guardian-waiting",
        wrong="Forked processes keep their copy of the control socket.",
        changes=(
            Change(CONTROL, "self._open.enter_context(kept_from_children(self._socket))", "pass"),
        ),
        tests=(GUARDIAN, "-k", "child_processes and pipe"),
        simulated=False,
    ),
    Mutant(
        number="383",
        name="a-fork-ends-the-guardian",
        wrong="A forked process that leaves its copy of the client ends its parent's guardian.",
        changes=(
            Change(
                CONTROL,
                "if process is None or self._owner != os.getpid():",
                "if process is None:",
            ),
            Change(CONTROL, "process.kill()", "os.kill(process.pid, signal.SIGKILL)"),
        ),
        tests=(GUARDIAN, "-k", "forked_child"),
        simulated=False,
    ),
    Mutant(
        number="384",
        name="a-main-thread-is-a-process",
        wrong="The guardian takes an owner whose main thread has ended for dead.",
        changes=(
            Change(
                PROCESS,
                "for descriptor, _ in self._poller.poll(wait):",
                """
                state = open(f"/proc/{self._owner}/stat").read().rpartition(")")[2].split()[0]
                has_ended = state == "Z"
                for descriptor, _ in self._poller.poll(10):
                """,
            ),
        ),
        tests=(GUARDIAN, "-k", "main_thread"),
        simulated=False,
    ),
    Mutant(
        number="385",
        name="closes-before-the-command-is-gone",
        wrong="After a crash of `aiolead run`, the session is closed at once: the next command "
        "starts beside the first one.",
        changes=(Change(PROCESS, "if guardian.children_are_gone(deadline):", "if True:"),),
        tests=("tests/cli/test_run_killed.py", "-k", "gone_before"),
        simulated=False,
    ),
    Mutant(
        number="386",
        name="a-killed-keeper-is-a-report",
        wrong="The end of the keepers is taken for a report that their commands are gone.",
        changes=(
            Change(PROCESS, "return self._children < 0 and self._balance == 0", "return True"),
        ),
        tests=("tests/cli/test_run_killed.py", "-k", "keeper_is_killed"),
        simulated=False,
    ),
    Mutant(
        number="387",
        name="secrets-in-the-arguments",
        wrong="Everybody on the machine can read secrets in the guardian's command line.",
        changes=(
            Change(
                CONTROL,
                '"-I", "-S", str(program)',
                '"-I", "-S", "-X", "told=" + sys.argv[-1], str(program)',
            ),
        ),
        tests=(GUARDIAN, "-k", "no_secret"),
        simulated=False,
    ),
    Mutant(
        number="387b",
        name="secrets-in-the-environment",
        wrong="The guardian inherits the credentials in its owner's environment, where they stay "
        "after the owner's end.",
        changes=(
            Change(
                CONTROL,
                "env={name: os.environ[name] for name in ENVIRONMENT if name in os.environ},",
                "env=dict(os.environ),",
            ),
        ),
        tests=(GUARDIAN, "-k", "no_secret"),
        simulated=False,
    ),
    Mutant(
        number="388",
        name="a-detached-session-is-closed",
        wrong="The guardian does not learn that the session was handed on.",
        changes=(
            Change(
                "_client/guardian_control.py",
                "or credentials.session_id == core.detached",
                "or False",
            ),
        ),
        tests=(GUARDIAN, "-k", "detached or handed_over"),
        simulated=False,
    ),
    Mutant(
        number="389",
        name="only-the-first-session-is-guarded",
        wrong="The guardian does not learn of the session that follows an expired one.",
        changes=(
            Change(CONTROL, "if line == self._told:", "if line == self._told or self._told:"),
        ),
        tests=(GUARDIAN, "-k", "new_session or other_servers or detached"),
        simulated=False,
    ),
    Mutant(
        number="390",
        name="one-server-is-enough",
        wrong="The guardian tries the server of its owner, and no other.",
        changes=(Change(PROCESS, "for server in (first, *others):", "for server in (first,):"),),
        tests=(GUARDIAN, "-k", "other_servers or first_server"),
        simulated=False,
    ),
    Mutant(
        number="391",
        name="guardians-in-the-foreground",
        wrong="Signals to the process group of its owner end the guardian.",
        changes=(
            Change(CONTROL, "start_new_session=True,", "start_new_session=False,"),
            Change(
                CONTROL,
                "before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())",
                "before = signal.pthread_sigmask(signal.SIG_BLOCK, [])",
            ),
        ),
        tests=(GUARDIAN, "-k", "signals"),
        simulated=False,
    ),
    Mutant(
        number="392",
        name="outdated-guardians-live",
        wrong="A guardian that could not be notified goes on, and may close a session that was "
        "handed on.",
        changes=(Change(CONTROL, "self._give_up(why)", "pass"),),
        tests=(GUARDIAN, "-k", "cannot_be_told"),
        simulated=False,
    ),
    Mutant(
        number="392b",
        name="children-keep-their-parents-memory",
        wrong="A forked process that lives on hides that its parent has executed another program.",
        changes=(Change(CONTROL, "memory.madvise(mmap.MADV_DONTFORK)", "pass"),),
        tests=(GUARDIAN, "-k", "child_outlives_the_program"),
        simulated=False,
    ),
    Mutant(
        number="392c",
        name="dismissed-guardians-stay",
        wrong="A guardian that its owner may not kill any more waits for the owner's end.",
        changes=(Change(PROCESS, 'not self.description["session"]', "False"),),
        tests=(GUARDIAN, "-k", "dropped_privileges"),
        simulated=False,
    ),
)
