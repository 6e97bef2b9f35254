"""Locks, semaphores, conditions and unique names.

lock, reentrant, read_write   locks whose contenders queue
queued_lock                   what these have in common
write_contender               a writer, which may be downgraded to a reader
exclusive                     the lock that is one znode
multi                         several locks as one
condition, condition_waiter   the condition, and the znode of a waiter with its signal
unique_names                  names that nobody else has
semaphore/                    permits
"""
