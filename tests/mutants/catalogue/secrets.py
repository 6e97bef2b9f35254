"""Bugs by which a process shows what it must not, or is kept busy by those it does not know."""

from __future__ import annotations

from ..model import Change, Mutant

CHILD = "tests/cli/test_run.py::test_the_command_finds_no_credentials_unless_asked"
CONNECTIONS = "tests/cli/test_dashboard_connections.py"
LOGGING = "tests/unit/test_logging.py"

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        number="330",
        name="names-are-logged-raw",
        wrong="A message of the log quotes what others have written as it is.",
        seen_in="aiolead",
        changes=(Change("_escaping.py", "if not message.isprintable():", "if False:"),),
        tests=(f"{LOGGING}::test_a_place_that_logs_writes_one_printable_line",),
        simulated=False,
    ),
    Mutant(
        number="330b",
        name="events-are-told-raw",
        wrong="The line of an event quotes what others have written as it is.",
        seen_in="aiolead",
        changes=(Change("events.py", "return escaped(line)", "return line"),),
        tests=(f"{LOGGING}::test_an_event_is_one_printable_line",),
        simulated=False,
    ),
    Mutant(
        number="330c",
        name="errors-quote-names-raw",
        wrong="An error quotes a name that others have written as it is.",
        seen_in="aiolead",
        changes=(Change("_error_base.py", "escaped(super().__str__())", "super().__str__()"),),
        tests=(f"{LOGGING}::test_an_error_is_one_printable_line",),
        simulated=False,
    ),
    Mutant(
        number="331",
        name="credentials-go-to-the-command",
        wrong="What `aiolead run` and `aiolead lock` run finds our credentials in its environment.",
        seen_in="aiolead",
        changes=(Change("cli/environment.py", "if name not in SECRET}", "if name}"),),
        tests=(CHILD,),
        simulated=False,
    ),
    Mutant(
        number="331b",
        name="the-keeper-has-our-environment",
        wrong="The command inherits the environment of what looks after it, which is all of ours.",
        changes=(Change("cli/child.py", "env=self._environ,\n", ""),),
        tests=(CHILD,),
        simulated=False,
    ),
    Mutant(
        number="332",
        name="everybody-loses-the-oldest",
        wrong="Where it has too many connections, a dashboard drops the oldest, whosever it is.",
        changes=(
            Change(
                "cli/dashboard/connections.py",
                "each for each in waiting if counts[each.group] == most",
                "each for each in waiting if counts",
            ),
        ),
        tests=(f"{CONNECTIONS}::test_one_address_pushes_out_its_own",),
        simulated=False,
    ),
    Mutant(
        number="332b",
        name="answers-are-dropped-for-others",
        wrong="A dashboard drops an answer that is under way where another request is admitted.",
        changes=(
            Change(
                "cli/dashboard/connections.py",
                "if each.state is ConnectionStage.IDLE",
                "if each.state",
            ),
        ),
        tests=(CONNECTIONS,),
        simulated=False,
    ),
    Mutant(
        number="332c",
        name="once-admitted-always-admitted",
        wrong="A connection of a proxy keeps its place for those who do not know the token.",
        changes=(
            Change(
                "cli/dashboard/site.py",
                "self._connections.reject(connection)",
                "pass",
            ),
        ),
        tests=("tests/cli/test_dashboard.py::test_a_token_that_is_wrong_earns_no_place",),
        simulated=False,
    ),
)
