"""The recipes, on the client interface of `aiolead.abc` alone.

    election/    `Election`: terms, campaigns, observers
    locks/       locks of all kinds, `Semaphore`, `Condition`, `UniqueNames`
    barriers/    `Barrier`, `DoubleBarrier`
    queues/      queues whose items are claimed
    tasks/       `TaskBoard`, on the claims of queues
    values/      counters, shared values, sequences, `Config`, views of one znode, codecs
    membership/  `Group`, `Partitioner`, `PersistentNode`
    discovery/   `ServiceRegistry`, and the choice of an instance
    tree/        `TreeCache`

    contest      the part of a recipe that its attempts and holds share
    contention/  the contender queue: its order, and which znodes to watch
    znode        the life of a znode of ours
    naming       its name, and the proof that it is ours
    _core/       what all recipes have: holds and how long they last, errors of servers, the
                 latest-value view

Recipes know nothing of connections, bytes or sockets.
"""
