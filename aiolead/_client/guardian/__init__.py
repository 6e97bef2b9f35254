"""The session guardian: a process that closes the session after a crash of this one.

close_on_crash     the user's settings
description        what a guardian has to know
guardian_control   the client's side: starting, notifying and ending it
guardian_process   the program, on the standard library alone: waiting for the end, and closing

`docs/explanation/guardian.md` has its states and the protocol between the two.
"""
