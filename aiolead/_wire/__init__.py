"""ZooKeeper's wire protocol: bytes to records and back. No I/O, no clock.

The records are those of `zookeeper.jute` in ZooKeeper's source, both directions of each, so that
the client and the embedded server share the layout and nothing else.
"""
