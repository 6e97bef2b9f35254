"""Unexpected exceptions that end too much, or too little; names that only a server may use."""

from __future__ import annotations

from ..model import Change, Mutant

ERRORS = "tests/client/test_internal_errors.py"
NAMES = "tests/client/test_listed_names.py"

MUTANTS = (
    Mutant(
        number="47",
        name="a-listener-stops-the-others",
        wrong="What one callback of an answer raises keeps the others from being called.",
        changes=(Change("_session/requests/call.py", "call_back(callback)", "callback()"),),
        tests=(ERRORS, "-k", "done_callback and trio"),
        simulated=False,
    ),
    Mutant(
        number="47b",
        name="a-job-ends-the-client",
        wrong="Whatever a job raises beside a documented error ends the client with all it holds.",
        seen_in="aiolead",
        changes=(
            Change(
                "_client/core.py",
                """
                except Exception as caught:
                    error = as_aiolead_error(caught, job)
                """,
                """
                except AioleadError as caught:
                    error = caught
                """,
            ),
        ),
        tests=(ERRORS, "-k", "owner_ends and watching_data and trio"),
        simulated=False,
    ),
    Mutant(
        number="47c",
        name="a-view-swallows-its-end",
        wrong="A view whose job has failed says nothing to its readers, who wait for ever.",
        changes=(
            Change(
                "_recipes/_core/observe.py",
                "self._client.backend.spawn(self._job, self._end)",
                "self._client.backend.spawn(self._job)",
            ),
        ),
        tests=(ERRORS, "-k", "owner_ends and watching_data and trio"),
        simulated=False,
    ),
    Mutant(
        number="47d",
        name="a-hold-without-its-watch",
        wrong="What is held is kept although its znode could not be watched again.",
        changes=(
            Change(
                "_recipes/_core/ephemeral.py",
                "contained(partial(self._seen, node, look), self._unwatched)",
                "contained(partial(self._seen, node, look), bool)",
            ),
        ),
        tests=(ERRORS, "-k", "given_up and of_a_lock-_seen and trio"),
        simulated=False,
    ),
    Mutant(
        number="47e",
        name="a-failed-delete-counts-as-done",
        wrong="A pending delete that fails unexpectedly is taken for one that has succeeded.",
        seen_in="aiolead",
        changes=(
            Change(
                "_recipes/_core/pending_delete.py",
                """
                # Unknown who deleted the znode: the lost delete may have been applied.
                self._end(refused_release(self._path, error))
                """,
                """
                # Unknown who deleted the znode: the lost delete may have been applied.
                self._end(None)
                """,
            ),
        ),
        tests=(ERRORS, "-k", "pending_delete and trio"),
        simulated=False,
    ),
    Mutant(
        number="47f",
        name="a-closed-client-reads-on",
        wrong="Bytes that come in after the client is closed are read, which its states forbid.",
        seen_in="aiolead",
        changes=(
            Change(
                "_session/machine.py",
                "if not self._is_connected or self.state.is_final:",
                "if not self._is_connected:",
            ),
        ),
        tests=("tests/unit/session/test_session_life.py", "-k", "closed_client"),
        simulated=False,
    ),
    Mutant(
        number="47g",
        name="listed-names-are-refused",
        wrong="A name that a server has listed is checked like one that a user has written.",
        seen_in="aiolead",
        changes=(
            Change(
                "paths.py",
                'return [name if _is_valid(f"/{name}") else ListedPath(name) for name in names]',
                "return list(names)",
            ),
        ),
        tests=(NAMES, "-k", "read_and_deleted and trio"),
        simulated=False,
    ),
    Mutant(
        number="47h",
        name="listed-names-are-created",
        wrong="A znode may be created by a name that ZooKeeper refuses, as a server has listed it.",
        changes=(
            Change(
                "_client/api/operations.py",
                "path = str(path)  # it may be read and deleted, but nobody is to make another one",
                "pass",
            ),
        ),
        tests=(NAMES, "-k", "read_and_deleted and trio"),
        simulated=False,
    ),
)
