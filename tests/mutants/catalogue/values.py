"""What is read and changed by many: values, counters, numbers, configurations, trees.

The simulation that the hunt uses has none of them; `tests/simulation/recipes/values.py` has.
"""

from __future__ import annotations

from ..model import Change, Mutant

VALUES = ("tests/recipes/values/test_values.py", "tests/recipes/values/test_values_faults.py")
TREES = ("tests/recipes/tree/test_tree_cache.py",)
GUARDED = ("tests/recipes/tree/test_tree_cache_guarded.py",)
CONFIGS = ("tests/recipes/values/test_config.py",)
NUMBERS = ("tests/recipes/values/test_sequence.py",)
PARSERS = ("tests/unit/test_parsing.py", "tests/unit/test_parsers.py")

WITHOUT_CHILD_WATCHES = (
    Change(
        "_recipes/tree/tree_reader.py",
        "return look, client.get_children(path, watch=self._watch(path, Todo.LIST))",
        "return look, client.get_children(path, watch=self._unless_told(path))",
    ),
    Change(
        "_recipes/tree/tree_reader.py",
        "    def _watch(self, path: str, kind: Todo) -> Watch:\n",
        "    def _unless_told(self, path: str) -> Watch | None:\n"
        "        return self._watch(path, Todo.LIST) if self.watched else None\n\n"
        "    def _watch(self, path: str, kind: Todo) -> Watch:\n",
    ),
)
"""Only the recursive watch of a tree tells that something has changed."""

MUTANTS = (
    Mutant(
        number="110",
        name="versions-say-what-is-new",
        wrong="A value that is followed counts as the same if its version is.",
        seen_in="CURATOR-311",
        changes=(
            Change(
                "_recipes/values/shared_value.py",
                "written = _NEVER if stat is None else stat.mzxid",
                "written = _NEVER if stat is None else stat.version",
            ),
        ),
        tests=VALUES,
        simulated=False,
    ),
    Mutant(
        number="110e",
        name="views-compare-with-what-was-read",
        wrong="A view takes what it has read for what its readers have, also if it reads again "
        "because the session is another one by then: `async for` never gets the value.",
        seen_in="aiolead",
        changes=(
            Change(
                "_recipes/_core/observe.py",
                """
                observation = await self._read()
                """,
                """
                observation = await self._read()
                if self._count:
                    self._latest = observation
                """,
            ),
        ),
        tests=("tests/recipes/test_views_over_sessions.py", "-k", "config"),
        simulated=False,
    ),
    Mutant(
        number="110f",
        name="invalid-writes-reported-at-each-read",
        wrong="Invalid data are reported each time that they are read.",
        seen_in="aiolead",
        changes=(
            Change(
                "_recipes/values/valid_observation.py",
                "if before is None or before.invalid is None or before.written != now.written:",
                "if True:",
            ),
        ),
        tests=("tests/recipes/test_views_over_sessions.py", "-k", "invalid"),
        simulated=False,
    ),
    Mutant(
        number="110g",
        name="lost-parents-are-a-lost-write",
        wrong="A connection that is lost while missing parents are created is raised as if the "
        "write itself were in doubt.",
        seen_in="aiolead",
        changes=(
            Change(
                "_recipes/_core/error_policy.py",
                "await ensure_path(client, path, mode=mode, acl=acl)",
                "await client.ensure_path(path, mode=mode, acl=acl)",
            ),
        ),
        tests=("tests/recipes/test_missing_parents.py",),
        simulated=False,
    ),
    Mutant(
        number="110h",
        name="reads-end-with-the-session",
        wrong="A single read of a recipe raises the end of the session that it was sent in.",
        seen_in="aiolead",
        changes=(
            Change(
                "_recipes/_core/reading.py",
                """
                except SessionExpiredError:
                    await client.ready()
                """,
                """
                except SessionExpiredError:
                    raise
                """,
            ),
        ),
        tests=("tests/recipes/test_reads_over_sessions.py",),
        simulated=False,
    ),
    Mutant(
        number="110b",
        name="versions-say-what-is-new-in-trees",
        wrong="After a gap a znode of a tree counts as the same if its version is.",
        seen_in="CURATOR-311",
        changes=(
            Change(
                "_recipes/tree/tree_reader.py",
                "if before.mzxid != stat.mzxid:",
                "if before.version != stat.version:",
            ),
            Change(
                "_recipes/tree/tree_reader.py",
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
                "_recipes/tree/tree_reader.py",
                "if Todo.LIST not in todo and self._listed.get(path) != stat.pzxid:",
                "if Todo.LIST not in todo and path not in self._listed:",
            ),
            # What watches the children tells as well.
            *WITHOUT_CHILD_WATCHES,
        ),
        tests=TREES,
        simulated=False,
    ),
    Mutant(
        number="110d",
        name="new-znode-unlisted",
        wrong="The children of a znode that has taken the place of another one are not watched.",
        changes=(
            Change(
                "_recipes/tree/tree_reader.py",
                "elif is_another(known, node) or known.is_readable != node.is_readable:",
                "elif known.is_readable != node.is_readable:",
            ),
        ),
        tests=GUARDED,
        simulated=False,
    ),
    Mutant(
        number="111",
        name="lost-answer-means-refused",
        wrong="A compare-and-set whose answer is lost counts as refused.",
        changes=(
            Change(
                "_recipes/values/optimistic.py",
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
                "_recipes/values/optimistic.py",
                "return Verdict.NOT_APPLIED if writes == 1 and now != data else Verdict.UNKNOWN",
                "return Verdict.NOT_APPLIED if writes and now != data else Verdict.UNKNOWN",
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
                "_recipes/values/config_snapshot.py",
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
                "_recipes/values/config.py",
                "return number if found == author else Verdict.NOT_APPLIED",
                "return number if found == author and False else Verdict.NOT_APPLIED",
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
                "_recipes/values/counter.py",
                "start = max(taken, self._highest, 0)",
                "start = max(taken, 0)",
            ),
        ),
        tests=NUMBERS,
        simulated=False,
    ),
    Mutant(
        number="113b",
        name="sync-is-a-barrier-everywhere",
        wrong="What a leader has not applied yet is said not to be there, though others were told.",
        changes=(Change("_recipes/_core/reading.py", "client.check(path)", "client.sync(path)"),),
        tests=("tests/recipes/election/test_leaders_sync.py",),
        simulated=False,
    ),
    Mutant(
        number="114",
        name="unreadable-znodes-unnoticed",
        wrong="What may not be read comes and goes unnoticed: only the recursive watch tells.",
        seen_in="Curator",
        changes=WITHOUT_CHILD_WATCHES,
        tests=GUARDED,
        simulated=False,
    ),
    Mutant(
        number="114b",
        name="everybody-may-ask-whether-it-exists",
        wrong="A znode of which a server tells nothing but its name ends the copy of a tree.",
        changes=(
            Change(
                "_recipes/tree/tree_reader.py",
                """            if path == self._root:
                raise
            # Only its name is known, from the list of its parent.
            return TreeNode(path, None, None, is_readable=False)
""",
                """            raise
""",
            ),
        ),
        tests=GUARDED,
        simulated=False,
    ),
    Mutant(
        number="114c",
        name="kept-below-what-may-not-be-read",
        wrong="Of what is below a znode that may not be read, the copy has what events speak of.",
        changes=(
            Change(
                "_recipes/tree/tree_reader.py",
                "return above is not None and above.is_readable",
                "return above is not None",
            ),
        ),
        tests=GUARDED,
        simulated=False,
    ),
    Mutant(
        number="340",
        name="weights-overflow",
        wrong="The weight of an instance of a service is what `float` makes of the JSON of others.",
        seen_in="aiolead",
        changes=(
            Change(
                "_recipes/discovery/instance.py",
                "found = json_object(data)",
                "found = json.loads(data)",
            ),
            Change(
                "_recipes/discovery/instance.py",
                'weight=found.get("weight", 1.0),',
                'weight=float(found.get("weight", 1.0)),',
            ),
        ),
        tests=PARSERS,
        simulated=False,
    ),
    Mutant(
        number="340b",
        name="versions-of-any-length",
        wrong="A child of a configuration's history is a version if `int` makes a number of it.",
        seen_in="aiolead",
        changes=(
            Change(
                "_recipes/values/config_snapshot.py",
                "if _ENTRY.fullmatch(name) is None:",
                "if not (name.isdecimal() and entry_name(int(name)) == name):",
            ),
        ),
        tests=CONFIGS,
        simulated=False,
    ),
    Mutant(
        number="340c",
        name="versions-of-any-depth",
        wrong="A version in a configuration's history is read as deeply as Python can.",
        seen_in="aiolead",
        changes=(
            Change(
                "_recipes/values/config_snapshot.py",
                "entry = json_object(data)",
                "entry = json.loads(data)",
            ),
            Change(
                "_recipes/values/config_snapshot.py",
                "    return _decode_entry(version, data, stat)\nexcept MalformedError as error:\n",
                "    return _decode_entry(version, data, stat)\nexcept ValueError as error:\n",
            ),
        ),
        tests=CONFIGS,
        simulated=False,
    ),
    Mutant(
        number="340d",
        name="written-but-not-to-be-read",
        wrong="A value in JSON is written although nobody could read it.",
        changes=(
            Change(
                "_recipes/values/codec.py",
                "json_value(data)  # refuses what no reader could decode",
                "pass",
            ),
        ),
        tests=PARSERS,
        simulated=False,
    ),
)
