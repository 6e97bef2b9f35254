"""Mechanisms that all recipes share.

recipe                       a recipe that is not held: a client, a path, an ACL
holding_recipe               recipes that hold something, with a contest
acquire                      one attempt to acquire, across lost connections and sessions
contexts, tenure             the `async with` of every hold and of a lock; the hold itself
beside                       a function that runs beside the body of an `async with`
body_scope                   a body that another task may leave once the first one has ended
reporting, participants      events of recipes; identities of contenders and holders

znode_registry               the znodes of this client's recipes
pending_delete               a delete that ends with the znode, or with a reported refusal

observe, children            a client's job for a block, latest-value views; children for a view
observation                  the result of one reading of a view
sharing                      one reading of the servers for all views of the same thing
error_policy                 what is done about each error of a server: a table; missing parents
reading                      reads that show all applied writes; reads of many znodes
arguments                    checks of arguments, before anything is sent
"""
