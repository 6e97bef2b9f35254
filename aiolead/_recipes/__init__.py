"""The recipes, on the seam of `aiolead.abc` alone.

    layout       how a contender's znode is named, and which neighbours do not fit
    contention   the pure kernel: who is in front, whom to watch
    line         what the contenders of one client on one path share
    contender    the life of one znode in the line
    tenure       what is held: the term of an election, the hold of a lock
    election, lock, campaign, observer, participants      the public recipes

Recipes know nothing of connections, bytes or sockets.
"""
