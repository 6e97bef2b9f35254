"""The anyio shell around the session machine: sockets, tasks, and the client that users hold.

connect, connect_options   makes a client; the arguments, checked, as options
client_host                the life of an open client: entering, its jobs, closing
core                       what all views of one client share: the machine, its process and event
                           loop, observers, time, jobs; the awaitable answer to a request
api/                       operations, and the replies, watches, views and transactions
net/                       which server, the byte stream, TLS, the tasks that carry the bytes
ensemble_config            reading the ensemble's configuration, and following it
sasl                       logging in by SASL
fast/                      what knows the internals of an event loop, beside plain versions
guardian/                  the process that closes the session after a crash of this one
watchdog                   the thread that ends a process whose bodies outlive their lease
client_reporting           events and statistics of sessions, connections and renewals
"""
