"""Contender queues on a path.

kernel              pure: the order of contenders, and which znodes to watch
contender           one contender: how it waits, gets to the front, and holds
queue_znode         the znode of a contender or a waiter; state that those of a client share
contender_queue     the queue of a recipe: makes its contenders, lists all of them

layouts             how znodes are named, and which neighbours do not fit
unrecognized        unrecognized children, and whom they block
neighbours          refusing neighbours that do not fit
sequence_range      the end of the sequence numbers
"""
