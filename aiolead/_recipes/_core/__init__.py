"""What all recipes are built on.

recipe                       what every recipe has: a client, a path, an ACL
holding_recipe, enterable    what every recipe has that holds something; `async with lock`
acquire                      one attempt to acquire, over lost connections and expired sessions
contexts, tenure             the `async with` of every hold; the hold itself: a term, a lock
scopes                       leaving a cancel scope that is open over a body
reporting, participants      the events of recipes; who contenders and holders are

ephemeral, serial, fixed     the life of an ephemeral znode, and how it is named and proven ours
znode_registry, ownership    which znodes are those of this client's recipes
pending_delete               a delete that ends with the znode, or with a refusal that is reported

observe, children            a job for a block, the latest-value view; children for a view
error_policy                 what is done about each error of a server: a table
catching_up, reading         reads that show all that was applied; reads of many znodes
parents                      requests whose parent may be missing
arguments                    what arguments are checked for before anything is sent
"""
