"""What is read and changed by many: values, counters, numbers, configurations, trees.

The simulation that the hunt uses has none of them; `tests/simulation/recipes/values.py` has.
"""

from __future__ import annotations

from ..model import Change, Mutant

VALUES = ("tests/recipes/test_values.py", "tests/recipes/test_values_faults.py")
TREES = ("tests/recipes/test_tree_cache.py",)
CONFIGS = ("tests/recipes/test_config.py",)
NUMBERS = ("tests/recipes/test_sequence.py",)

MUTANTS = (
    Mutant(
        number="110",
        name="versions-say-what-is-new",
        wrong="A value that is followed counts as the same if its version is.",
        seen_in="CURATOR-311",
        changes=(
            Change(
                "_recipes/shared_value.py",
                "return -1 if value is None or value.stat is None else value.stat.mzxid",
                "return -1 if value is None or value.stat is None else value.stat.version",
            ),
        ),
        tests=VALUES,
        simulated=False,
    ),
    Mutant(
        number="110b",
        name="versions-say-what-is-new-in-trees",
        wrong="After a gap a znode of a tree counts as the same if its version is.",
        seen_in="CURATOR-311",
        changes=(
            Change(
                "_recipes/tree/reading.py",
                "if before.mzxid != stat.mzxid:",
                "if before.version != stat.version:",
            ),
            Change(
                "_recipes/tree/reading.py",
                "(before.czxid, before.aversion) != (stat.czxid, stat.aversion)",
                "before.aversion != stat.aversion",
            ),
        ),
        tests=TREES,
        simulated=False,
    ),
    Mutant(
        number="110c",
        name="children-not-compared",
        wrong="After a gap the znodes of a tree are compared, and their lists of children are not.",
        changes=(
            Change(
                "_recipes/tree/reading.py",
                "if Todo.LIST not in todo and self._listed.get(path) != stat.pzxid:",
                "if Todo.LIST not in todo and path not in self._listed:",
            ),
        ),
        tests=TREES,
        simulated=False,
    ),
    Mutant(
        number="110d",
        name="new-znode-unlisted",
        wrong="A znode that was replaced while only one-shot watches tell keeps its old children.",
        changes=(
            Change(
                "_recipes/tree/reading.py",
                "elif (known.stat.czxid, known.is_readable) != (stat.czxid, is_readable):",
                "elif known.is_readable != is_readable:",
            ),
        ),
        tests=TREES,
        simulated=False,
    ),
    Mutant(
        number="111",
        name="lost-answer-means-refused",
        wrong="A compare-and-set whose answer is lost counts as refused.",
        changes=(
            Change(
                "_recipes/optimistic.py",
                "doubt = lost",
                "return None",
            ),
        ),
        tests=VALUES,
        simulated=False,
    ),
    Mutant(
        number="111b",
        name="other-data-mean-refused",
        wrong="Where the answer is lost, other data than ours mean that ours were never written.",
        changes=(
            Change(
                "_recipes/optimistic.py",
                "return _Verdict.NOT_APPLIED if writes == 1 and now != data else _Verdict.UNKNOWN",
                "return _Verdict.NOT_APPLIED if writes and now != data else _Verdict.UNKNOWN",
            ),
        ),
        tests=VALUES,
        simulated=False,
    ),
    Mutant(
        number="112",
        name="one-look-at-the-version",
        wrong="A configuration is read without a second look at its version.",
        changes=(
            Change(
                "_recipes/config/snapshot.py",
                "if (after.czxid, after.mzxid) == (before.czxid, before.mzxid):",
                "if True:",
            ),
        ),
        tests=CONFIGS,
        simulated=False,
    ),
    Mutant(
        number="112b",
        name="published-twice",
        wrong="What was published, and its answer lost, is published again.",
        changes=(
            Change(
                "_recipes/config/config.py",
                "case found if found == author:",
                "case found if found == author and False:",
            ),
        ),
        tests=CONFIGS,
        simulated=False,
    ),
    Mutant(
        number="113",
        name="numbers-go-back",
        wrong="Who has counted begins at the start where the counter was deleted and made anew.",
        changes=(
            Change(
                "_recipes/sequence.py",
                "start = max(taken, self._highest, 0)",
                "start = max(taken, 0)",
            ),
        ),
        tests=NUMBERS,
        simulated=False,
    ),
)
