"""ZooKeeper's wire protocol: bytes to records and back. No I/O, no clock.

framing, jute, records    frames, their values, and records made of values
requests, replies         the records of `zookeeper.jute`, written and read by both sides
handshake, packets        what opens a connection; records as whole packets
codes, refusal, versions  numbers, errors, and what differs between servers
config_text, digest_md5   texts within records: ensemble configurations, SASL logins
"""
