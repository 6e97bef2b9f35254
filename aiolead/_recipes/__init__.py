"""The recipes, on the seam of `aiolead.abc` alone.

    arguments    what they have in common, checked before anything is sent
    holding      what every recipe has that holds something
    candidate    what such a recipe provides: one try at holding
    tenure       what is held: the term of an election, the hold of a lock
    context      acquiring and releasing: the `async with` of every tenure

    layout       how a contender's znode is named, and which neighbours do not fit
    revocation   how a holder is asked to let go
    contention   the pure kernel of everything that queues: who is in front, whom to watch
    line         what the contenders of one client on one path share
    place        the life of one ephemeral sequential znode
    contender    one in the line: how it gets to the front, and holds
    downgrading  a contender that writes and may become a reader
    waiting      one that waits for a condition, and the signals that wake it
    queued       what every recipe with a line of contenders has
    locking      what every lock in a line has

    own          an ephemeral znode of ours that stands in no line: its life
    attempt      what tries to hold something with such znodes
    entered      recipes that are entered themselves: `async with recipe`
    together     several holds, or several answers, as one

    latest, background      states that are followed: iterators of which the latest value wins
    codec                   how a value is written as the bytes of a znode
    optimistic              reading, changing and writing back, with nobody in between

    membership.keeper, kept     a znode that is kept there: made, looked after, taken away
    membership.entries          children that are followed together with what they hold
    membership.split            who is to have which item: pure
    discovery.instance          an instance of a service, as the JSON that Curator writes
    discovery.strategies        whom to ask: pure

The others are the public recipes, named as they are. Recipes know nothing of connections, bytes or
sockets.
"""
