"""Contender queues on a path.

kernel              pure: who is in front, whom to watch
contender           one in the queue: how it gets to the front, and holds
queue_node          the znode of a contender, or of a waiter
local_contenders    what the contenders of one client on one path share
queue_recipe        what every recipe with a contender queue has

layouts             how znodes are named, and which neighbours do not fit
unrecognized        unrecognized children, and whom they block
neighbours          refusing neighbours that do not fit
sequence_range      the end of the sequence numbers
"""
