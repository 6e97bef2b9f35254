"""The recipes, on the client interface of `aiolead.abc` alone.

A recipe is one file: `election`, `lock`, `read_write`, `exclusive`, `semaphore`, `multi`,
`condition`, `barriers`, `queues`, `task_board`, `once`, `rate_limit`, `group` (with the
partitioner), `persistent_node`, `service_registry`, `values`, `config`, `tree_cache`. `term`,
`preference`, `tree_reader`, `queue_items`, `claims` and `attempts` are parts of one or two of them.

Each recipe is made of these mechanisms:

znode                    the life of a znode of ours
naming                   its name, the proof that it is ours, and its delete
fixed                    the same for a znode at a fixed path; no lock in a queue needs it
contender_queue          a path with contenders in order, and one of them
kernel                   pure: the order of contenders, and the znodes to watch
layouts                  the public value `Layout`; pure: names of contenders, and what fits them
neighbours               the children that do not fit
unrecognized             children that no library recognizes, and the libraries that they disturb
hold                     acquiring, across lost connections and sessions; a time of holding
place_parts              the common part of places that wait by an alarm; no lock needs it
holding                  the `async with` that acquires, and releases behind its body
view, reading            latest-value views; reads that show all applied writes
beside                   a function that runs beside the body of an `async with`
errors                   what is done about each error of a server: a table; missing parents
recipe, reporting        checks of arguments; events of recipes
codec                    values as bytes

Recipes know nothing of connections, bytes or sockets.
"""
