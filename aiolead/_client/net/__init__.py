"""Connections: servers, sockets, TLS, and the tasks that keep a client connected.

supervisor                         the tasks: connecting, carrying bytes, keeping time
fork_safety                        the sockets, hidden from forked processes
opener, tls                        opening the byte stream; TLS over it
host_list                          which server is next, and when; moves after changes of the list
known_addresses                    looks names up in the background; their last known addresses
host_sources                       lists of servers that change, and following one
four_letter_words                  the connected server; from a read-only server to a full one
"""
