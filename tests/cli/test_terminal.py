"""A command that is in the foreground of a terminal: it is the one that the terminal is for."""

from __future__ import annotations

import signal

from kit.cli import OnTerminal

READS = "echo asks; while read x; do echo got $x; done"


def test_input_and_ctrl_z_and_ctrl_c_reach_the_command(somewhere: str) -> None:
    with OnTerminal("lock", "/mine", "--", "sh", "-c", READS, hosts=somewhere) as command:
        command.wait_for("asks")
        command.type("one\n")
        command.wait_for("got one")
        # Stopped it would hold the lock, and no shell would know. So it goes on.
        command.type("\x1a")
        command.type("two\n")
        command.wait_for("got two")
        command.type("\x03")
        assert command.finish() == 128 + signal.SIGINT


def test_ctrl_c_ends_a_command_that_would_be_started_again(somewhere: str) -> None:
    with OnTerminal(
        "run", "--forever", "/app", "--", "sh", "-c", READS, hosts=somewhere
    ) as command:
        command.wait_for("asks")
        command.type("\x03")
        assert command.finish() == 128 + signal.SIGINT


def test_ctrl_c_while_waiting(somewhere: str) -> None:
    with OnTerminal("lock", "/mine", "--", "sh", "-c", READS, hosts=somewhere) as holder:
        holder.wait_for("asks")
        with OnTerminal("lock", "/mine", "--", "true", hosts=somewhere) as waiter:
            waiter.wait_for("waits for the lock")
            waiter.type("\x03")
            assert waiter.finish() == 128 + signal.SIGINT
