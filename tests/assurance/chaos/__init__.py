"""Contenders as processes of their own against real ensembles, while everything is broken.

python -m tests.assurance.chaos --seeds 5  schedules of faults, all invariants checked
python -m tests.assurance.chaos --isolated-follower --trials 20 --recipes aiolead,kazoo
python -m tests.assurance.chaos --leader-pauses --loop trio  the leader is stopped and continued
python -m tests.assurance.chaos.hostile_memory --minutes 60  a client's memory

contender.py   one process, one contender; the libraries are in rivals/ and curator/
actors.py      the driver's side of such a process: its life, its links, what it has written
nemesis.py     which faults a seed means, and how each is done and undone
witness.py     when the servers deleted whose znode
stores.py      what the holders change: a set that must not lose an element
run.py         one seed: contenders, faults, healing, progress, verdict
isolated.py    the follower of a holder is isolated from its peers
leader_pauses.py  the leader is stopped and continued, again and again, under every recipe
hostile_memory.py  the memory of one client is measured while another one writes what it should not
analysis.py    what the histories say, as pure functions; the tables
"""
