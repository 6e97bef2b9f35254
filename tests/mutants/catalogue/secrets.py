"""Bugs by which a process shows what it must not: raw text of others in its log, credentials."""

from __future__ import annotations

from ..model import Change, Mutant

CHILD = "tests/cli/test_run.py::test_the_command_finds_no_credentials_unless_asked"
LOGGING = "tests/unit/test_logging.py"

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        number="330",
        name="names-are-logged-raw",
        wrong="A message of the log quotes what others have written as it is.",
        seen_in="aiolead",
        changes=(Change("_logging.py", "if not message.isprintable():", "if False:"),),
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
)
