"""What all recipes are built on.

ephemeral, serial, fixed   the life of an ephemeral znode, and how it is named and proven ours
registry, ownership        which znodes are those of this client's recipes
pending_delete             a delete that ends with the znode, or with a refusal that is reported
error_policy               what is done about each error of a server: a table
catching_up                having a server catch up before it is asked

holding_recipe, entered    what every recipe has that holds something
candidate, acquire_loop    one try at holding
contexts, entries_by_task  the `async with` of every hold, and whose it is
tenure, hold_group         what is held: a term, a lock; several holds as one
reporting, reached         what is told of acquisitions; whether a server was reached meanwhile

observe, latest            the latest-value view; an iterator of which the latest value wins
background                 a job that ends with what it belongs to
arguments                  what arguments are checked for before anything is sent
"""
