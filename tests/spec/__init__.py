"""The specifications in TLA+ (`docs/spec`), checked exhaustively by TLC: `make verify`.

specifications  the table: which checks and planted errors each has, and what TLC must find
tlc             running TLC, and reading what it prints
verdict         what is wrong with an outcome, compared with the table
"""
