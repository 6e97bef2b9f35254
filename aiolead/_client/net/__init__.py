"""Connections: servers, sockets, TLS, and the tasks that keep a client connected.

supervisor                         the tasks: connecting, carrying bytes, keeping time
opener, tls                        opening the byte stream; TLS over it
carrier                            carries bytes over any stream
asyncio_carrier, trio_carrier      the same over plain TCP, with less in between
host_list, host_sources            which server is next; lists of servers that change
host_discovery, rebalance          following such a list; which clients move when it changes
peer, quorum_search                the connected server; from a read-only server to a full one
four_letter_words                  asking a server by a four-letter word
"""
