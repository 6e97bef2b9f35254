"""The recipes, on the client interface of `aiolead.abc` alone.

    election/    `Election`: terms, campaigns, observers
    locks/       locks of all kinds, `Semaphore`, `Condition`, `UniqueNames`
    barriers/    `Barrier`, `DoubleBarrier`
    queues/      queues whose items are claimed
    tasks/       `TaskBoard`, on the claims of queues
    values/      counters, shared values, sequences, `Config`, views of one znode, codecs
    membership/  `Group`, `Partitioner`, `PersistentNode`
    discovery/   `ServiceRegistry`, and whom to ask
    tree/        `TreeCache`

    contention/  what everything that queues for a path is built on: who is in front, whom to watch
    _core/       what all recipes are built on: the life of an ephemeral znode, what is held and for
                 how long, errors of servers, the latest-value view

Recipes know nothing of connections, bytes or sockets.
"""
