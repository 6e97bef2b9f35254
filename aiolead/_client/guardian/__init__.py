"""The session guardian: a process that closes the session of a client whose process has crashed.

control   the client's side: settings, starting it, keeping it up to date, ending it
process   its program, on the standard library alone

The client knows it as a `Companion` only; `connect` makes one if it is asked for.
"""
