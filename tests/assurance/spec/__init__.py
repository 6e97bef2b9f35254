"""The specifications in TLA+ (`docs/spec`): checked by TLC, and compared with what the code does.

specifications  the table: which checks and planted errors each has, and what TLC must find
tables          its files
checks          its entries
tlc             running TLC, and reading what it prints
verdict         what is wrong with an outcome, compared with the table
lease_rules     the client's part of lease.tla in Python
lease_traces    traces of simulated schedules, checked by these rules
queue_rules     the contender's part of queue.tla in Python
queue_recorder  what contenders and servers do in a schedule
queue_replay    whether these rules allow that
queue_traces    runs schedules and checks them so
schedules       runs the schedules of both
"""
