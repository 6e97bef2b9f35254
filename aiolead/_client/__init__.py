"""The anyio shell around the session machine: sockets, tasks, and the client that users hold.

    connect      opens and closes a client
    client       the operations
    core         what all views of one client share: the machine, its clock, its observers
    supervisor   the tasks: connecting, reading, writing, keeping time
    hosts        where to connect next
    peer         the server that we are connected to, and how to ask it for its version
    deletion     deletes trees
    quotas       limits on trees, kept where the command `setquota` keeps them
    features     what servers know beyond ZooKeeper 3.5, and requests that need it
    reply, watch, states, lease, transaction, reads, fenced      what the client hands out
    clock        the lease's clock

Everything here runs on one event loop.
"""
