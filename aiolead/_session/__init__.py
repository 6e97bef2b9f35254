"""A session's decisions over time, without I/O: bytes in, bytes out, the clock as an argument.

machine, session_life    `SessionMachine`: connections and packets; the session's identity
states, authentication   the table of states; SASL and credentials
requests/, watches/      requests and watches, kept across reconnects
lease/                   what answers prove about the session, and the holds under it
backoff                  the delay before the servers are tried again
"""
