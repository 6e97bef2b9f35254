"""Bytes that nobody would send, for everything that reads what comes from the network.

`targets` says what is done with them; the tests call it with what hypothesis makes up, and
`python -m tests.assurance.fuzz` with what a coverage-guided fuzzer does.
"""
