"""The watchdog: a thread that ends the process if a body outlives its lease.

settings   what it is asked to do, what it reports, and how it ends the process
thread     the thread; `aiolead/_session/lease/overdue.py` decides
"""
