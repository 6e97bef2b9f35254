"""Watches of a session.

registry           all watches: events, reconnects, requests to servers
one_shot, arming   one-shot watches, and the requests that set watches
persistent         persistent watches, their streams, and the events of a stream
"""
