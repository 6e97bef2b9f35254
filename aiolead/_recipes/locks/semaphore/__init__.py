"""The semaphore.

semaphore  the public recipe
parts      the paths of each layout, and the published limit
permits    one attempt at some permits: the queue, the znodes, the limit
"""
