"""Helpers that several packages share.

tasks, host_tasks, asyncio_tasks   tasks and cancel scopes of the two event loops
shielding, racing                  waits that a cancellation does not end; the first of several
daemon_threads, name_lookup        calls that block, in threads that nobody waits for
internal_errors                    exceptions that only a mistake of ours can raise
escaping                           loggers and messages, with control characters escaped
parsing                            the only parsers of other processes' data
contender_names                    the names of contenders, of every library
token_bucket                       the data of a rate limit
statistics                         what `statistics()` of a client and of a hold return
misuse, lazy                       errors that show what to write; names imported on first use
"""
