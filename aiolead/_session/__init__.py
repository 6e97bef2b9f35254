"""A session's decisions over time, without I/O: bytes in, bytes out, the clock as an argument.

Its modules and packages:

    machine, session_life    `SessionMachine`: connections and packets; which session there is
    states, authentication   the table of states; SASL and credentials
    requests/, watches/      what was asked, and what is watched, over reconnects
    lease/                   what answers prove about the session, and what is held under it
    backoff                  when to try the next server
    granted_timeout          the session timeout of a server, judged before it counts
"""
