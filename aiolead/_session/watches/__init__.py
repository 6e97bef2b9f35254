"""Watches of a session.

Its modules:

    registry                   all of them: events, reconnects, what servers are asked
    one_shot, arming           one-shot watches, and the requests that set watches
    persistent, event_buffer   persistent watches, their streams, and the events of a stream
"""
