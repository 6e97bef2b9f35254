"""Requests of a session: queued, in flight, answered, overdue.

call            one request or transaction and its answer; the types of requests
request_queue   which request leaves when, and what a lost connection does to it
suspects        requests that cost connections: sent alone, then less and less often
liveness        when a server that answers nothing, or out of order, counts as lost
"""
