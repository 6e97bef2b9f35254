"""A session's decisions over time, without I/O: bytes in, bytes out, the clock as an argument.

`machine.SessionMachine` is the whole; the other modules are its organs:

    states    the table of session states
    timing    every interval, derived from the session timeout
    grant     what a server grants, judged before it counts
    requests     requests queued and in flight, and what becomes of them when the link dies
    watches   one-shot watches, over reconnects
    lease_proof    what acknowledged requests prove about the session's life
    lease     what is held under that proof, and when to renew it
    backoff   when to try the next server
"""
