"""A session's decisions over time, without I/O: bytes in, bytes out, the clock as an argument.

machine             `SessionMachine`: connections and packets, the session's identity and its end
states              the session's states, as a table
timing              every interval, from the session timeout
authentication      SASL and credentials
requests            which request leaves when, and what a lost connection does to it
present_server      what the connected server is, and which requests it does not know
suspects            requests that cost connections: sent alone, then less and less often
liveness            when a server that answers nothing, or out of order, counts as lost
watches, streams    one-shot watches; persistent ones, and the events of a stream
lease               what answers prove about the session, and the holds under it
overdue             holds that should have ended, for the watchdog
ephemeral_paths     how long the paths of the session's ephemeral znodes are
"""
