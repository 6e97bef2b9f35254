"""The semaphore.

semaphore    the public recipe
permits      one try at some permits: the line, the znodes, the limit
limit        what is published of the limit
"""
