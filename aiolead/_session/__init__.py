"""A session's decisions over time, without I/O: bytes in, bytes out, the clock as an argument.

machine               `SessionMachine`: connections and packets
states                the session's states, as a table; its identity and its end
authentication        SASL and credentials
ephemeral_paths       how long the paths of the session's ephemeral znodes are
requests/, watches/   requests and watches, kept across reconnects
lease/                what answers prove about the session, and the holds under it
"""
