"""Being there, and sharing work: what the recipes of membership must not do."""

from __future__ import annotations

from ..model import Change, Mutant

KEPT = "tests/recipes/membership/test_persistent_node.py"
GROUP = "tests/recipes/membership/test_group.py"
REACHED = "tests/simulation/test_recipes_reached.py"
WORK = "tests/recipes/membership/test_partitioner.py"

MUTANTS = (
    Mutant(
        number="120",
        name="change-lost-while-letting-go",
        wrong="An item that becomes ours again while its worker still ends is not begun anew.",
        seen_in="kazoo 259, 283",
        changes=(
            Change(
                "_recipes/membership/partitioner.py",
                """
                # It may have become ours again while the worker was ending.
                self._changed.set()
                """,
                "",
            ),
        ),
        tests=(WORK, "-k", "trio and embedded"),
        simulated=False,
    ),
    Mutant(
        number="121",
        name="split-that-is-not-the-same-for-all",
        wrong="Who should own what depends on who asks, so that nobody should own some items.",
        changes=(
            Change(
                "_recipes/membership/partitioner.py",
                "wanted = set(self._split.shares(self._items, acted_upon)[me])",
                """
                mine = {me + item for item in self._items}
                wanted = {item[len(me) :] for item in self._split.shares(mine, acted_upon)[me]}
                """,
            ),
        ),
        tests=(WORK, "-k", "trio and embedded"),
        simulated=False,
    ),
    Mutant(
        number="122",
        name="member-known-by-its-name",
        wrong="A member that left and joined again without a link is taken for the same one.",
        seen_in="CURATOR-311",
        changes=(
            Change(
                "_recipes/membership/group.py",
                "if now is None or now.czxid != was.czxid:",
                "if now is None:",
            ),
        ),
        tests=(GROUP, "-k", "trio and happened"),
        simulated=False,
    ),
    Mutant(
        number="123",
        name="overwritten-for-good",
        wrong="What somebody else has written into a znode of ours stays there.",
        changes=(
            Change(
                "_recipes/membership/znode_keeper.py",
                "self._is_overwritten = self._restore",
                "self._is_overwritten = False",
            ),
        ),
        tests=(KEPT, "-k", "trio and embedded and comes_back"),
        simulated=False,
    ),
    Mutant(
        number="124",
        name="kept-after-it-was-given-up",
        wrong="A znode whose create is answered after it was given up stays.",
        changes=(
            Change(
                "_recipes/_core/ephemeral.py",
                """
                else:
                    self._delete(node, None)
                """,
                """
                else:
                    assert node
                """,
            ),
        ),
        tests=(KEPT, "-k", "trio and embedded and unanswered"),
        simulated=False,
    ),
    Mutant(
        number="125",
        name="lost-create-not-looked-for",
        wrong="A create whose answer was lost is nobody's when it is given up.",
        changes=(
            Change(
                "_recipes/_core/ephemeral.py",
                """
                if not wanted:  # else that is settled by `resolve`, or `withdraw`
                    self._delete_lost_later(path, session_id)
                """,
                """
                if not wanted:
                    self._settle_name(path)
                """,
            ),
        ),
        tests=(KEPT, "-k", "trio and embedded and unanswered"),
        simulated=False,
    ),
    Mutant(
        number="126",
        name="leaves-before-its-create-is-answered",
        wrong="Who leaves while its znode is made anew does not wait until that is gone again.",
        seen_in="aiolead",
        changes=(
            Change(
                "_recipes/membership/znode_keeper.py",
                "self._own.when_over(self.gone.set)",
                "(self.deletion or self.gone.set())",
            ),
        ),
        tests=(REACHED, "-k", "kept and trio"),
        simulated=False,
    ),
    Mutant(
        number="126b",
        name="numbered-twice",
        wrong="A sequential znode whose create was unanswered is made once more.",
        changes=(
            Change(
                "_recipes/membership/znode_keeper.py",
                "if await self._own.resolve():",
                "if self._own.withdraw():",
            ),
        ),
        tests=(REACHED, "-k", "kept and trio"),
        simulated=False,
    ),
)
