"""The anyio shell around the session machine: sockets, tasks, and the client that users hold.

    connect.py   opens and closes a client; connect_options.py checks its arguments
    core.py      what all views of one client share: the machine, its clock, its observers, its jobs
    api/         the client's operations, and the replies, watches, views and transactions it
    returns
    net/         connections: which server, the byte stream, TLS, the tasks that carry the bytes
    auth/        SASL
    watchdog/    the thread that ends a process whose bodies outlive their lease

A client belongs to one event loop (loop_affinity.py).
"""
