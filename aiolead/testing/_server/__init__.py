"""The embedded server without its sockets: bytes in, bytes out. No I/O, no clock, no randomness.

It behaves as a standalone ZooKeeper 3.8 does, down to the codes of its errors and the numbers in
its stats. It is written against the protocol and shares nothing with our client but the layout of
the records, so that client and server remain two opinions on the protocol.
"""
