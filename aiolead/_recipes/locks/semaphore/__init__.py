"""The semaphore.

semaphore  the public recipe
parts      the paths of each layout; the published limit, and whether it counts
permits    one attempt at some permits: the queue, the znodes, the limit
"""
