"""The lease: how long the session surely lives, and what is held under it.

Its modules:

    timing                 every interval, from the session timeout
    proof, renewals        what answers prove, and the requests that prove more
    lease_book             what is held, when it is renewed, and when it is lost
    overdue                which holds should have ended: for the watchdog
"""
