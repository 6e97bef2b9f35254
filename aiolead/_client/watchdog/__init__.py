"""The watchdog: a thread that ends the process if a body outlives its lease.

settings   the user's settings, the report, and how the process is ended
thread     the thread; `aiolead/_session/lease/overdue.py` decides
"""
