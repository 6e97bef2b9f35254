"""Planted bugs: mutations of the real code, each of which stands for a failure that some library
has, and a command that plants them one by one and finds out who notices.

    python -m tests.mutants --list
    python -m tests.mutants ping-is-proof --backend trio --seeds 200
    python -m tests.mutants --promises --missing

The results are published in docs/reports/planted-bugs.md.
"""
