"""ZooKeeper's wire protocol: bytes to records and back. No I/O, no clock.

jute                      values, records made of values, and frames with packets in them
long_frames               long answers, decoded in steps
requests, replies         the records of `zookeeper.jute`, written and read by both sides
handshake                 the records that open a connection
codes, versions           numbers and their errors; differences between servers
config_text, digest_md5   texts within records: ensemble configurations, SASL logins
"""
