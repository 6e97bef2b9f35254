"""The API that users call: the client, its operations, transactions, watches and streams.

client                         the client: its session, operations of znodes, part for recipes
session_states                 the states of the session, as they change
operations                     checks of arguments, encoded requests, parsers of answers
transactions                   several writes; the same while a znode exists; several reads
client_watches                 one-shot watches; the events of persistent ones
server_features                requests that not every server supports
"""
