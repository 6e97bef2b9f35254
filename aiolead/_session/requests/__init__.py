"""Requests of a session: queued, in flight, answered, overdue.

Its modules:

    call, transaction_call   one request and its answer; the kinds of requests
    request_queue, window    which request leaves when, and what becomes of it without a connection
    liveness                 when a server that answers nothing, or not in turn, counts as lost
"""
