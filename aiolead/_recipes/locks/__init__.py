"""Locks, semaphores, conditions and unique names.

lock, read_write              locks with a contender queue, and their base class
write_contender               a writer, which may be downgraded to a reader
exclusive                     the lock that is one znode
multi                         several locks as one
condition, condition_waiter   the condition; the znode of a waiter
condition_signals             the signals that wake waiters, and those of waiters that are gone
unique_names                  names held by one client at a time
semaphore/                    permits
"""
