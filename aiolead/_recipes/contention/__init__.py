"""Queues of contenders on a path.

kernel              pure: who is in front, whom to watch
contender           one in the queue: how it gets to the front, and holds
queue_node          the znode of a contender, or of a waiter
local_contenders    what the contenders of one client on one path share
queue_recipe        what every recipe with such a queue has

layouts             how znodes are named, and which neighbours do not fit
recognized          names that contenders of known libraries have
unrecognized        children that are no contenders, and whom they block
neighbours          refusing neighbours that do not fit
sequence_range      the end of the sequence numbers
revocation          how a holder is asked to release
"""
