"""The semaphore.

semaphore  the public recipe
parts      where its parts are, by its layout, and what is published as its limit
permits    one attempt at some permits: the queue, the znodes, the limit
"""
