"""How strong the tests are: planted bugs, each of which breaks a promise, and random mutants.

    python -m tests.assurance.mutants                               # every bug: about an hour
    python -m tests.assurance.mutants ping-is-proof --backend trio  # one of them
    python -m tests.assurance.mutants --check                       # which can be planted: seconds
    python -m tests.assurance.mutants.draw --help                   # random mutants

`catalogue` has the planted bugs. A bug is there because it breaks a promise (the first line of its
file), or because another library or aiolead had it (`Mutant.seen_in`). A test that exists for one
line needs no bug here: the random mutants measure such tests.

A bug is aimed by meaning. A `Change` names a function, a piece of code in it, and what stands there
instead. `edit` parses both, finds the piece as a syntax tree and replaces its text. So these do not
matter: comments, quotes and line breaks; other edits of the file and of the function; a function
that has moved to another module. The piece is as small as it can be: a condition, a call, a
statement. If the function or the piece is gone, the bug is stale.

`plant` puts a bug into a copy of the project, in a temporary directory. `catch` runs the tests that
the bug names there, as `make test` does, and the simulation if the bug is `simulated`. The command
ends with a table and a list: bugs that cannot be planted any more, and bugs that are not seen. The
weekly workflow `assurance.yml` publishes both. Nothing here fails `make test`: a change of the
library needs no change here. If the list names a bug, re-aim it, or drop it with a reason.

`draw` makes random mutants of any Python file. `make test` knows none of them.
"""
