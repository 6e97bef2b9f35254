"""No secret leaves the process, and what others write does no harm."""

from __future__ import annotations

from ..model import Change, Mutant

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        name="credentials-go-to-the-command",
        wrong="The command that `aiolead run` or `aiolead lock` starts finds our "
        "credentials in its environment.",
        seen_in="aiolead",
        changes=(
            Change(
                "cli.environment:without_credentials",
                "{name: value for name, value in environ.items() if name not in SECRET}",
                "dict(environ)",
            ),
        ),
        tests=("tests/cli/test_run.py",),
    ),
    Mutant(
        name="names-are-logged-raw",
        wrong="A log message quotes names that others have written, control characters included.",
        seen_in="aiolead",
        changes=(
            Change(
                "_escaping:_escape_record",
                "if not message.isprintable():",
                "if False:",
            ),
        ),
        tests=("tests/root/test_logging.py",),
    ),
)
