"""The semaphore.

semaphore    the public recipe
arrangement  where its parts are, by its layout
permits      one try at some permits: the line, the znodes, the limit
limit        what is published of the limit
misfits      semaphores of the other layout on the path
"""
