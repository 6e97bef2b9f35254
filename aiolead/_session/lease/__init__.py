"""The lease: how long the session is proven to live, and the holds under it.

timing            every interval, from the session timeout
proof, renewals   what answers prove, and the requests that prove more
feeding           whether the proof takes one round or two on this connection
lease_book        all holds: when they are renewed, and when they are lost
overdue           holds that should have ended, for the watchdog
"""
