"""Names and addresses in a network of its own, with the system's resolver and real connections.

`benchmarks/names.py` has the rows, and takes the times; here only what comes of them counts.
`test_client_names.py` does the same, and more, on virtual time.
"""

from __future__ import annotations

import json
import subprocess

import pytest
from client.names_network import has_namespaces
from kit.pages import ROOT

from benchmarks.names import ROWS, Outcome, Row, command_for

pytestmark = [
    pytest.mark.timeout(120),
    pytest.mark.exhaustive("each case waits for real time; the same is tested on virtual time"),
    pytest.mark.skipif(not has_namespaces(), reason="the system allows no namespaces"),
]


@pytest.mark.parametrize("client", ["aiolead", "aiolead-uvloop", "aiolead-trio"])
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_lock_is_kept_while_a_server_can_be_reached(row: Row, client: str) -> None:
    command = command_for(row.name, "--clients", client, "--trials", "1", "--json")
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (outcome,) = (Outcome(**each) for each in json.loads(done.stdout)[row.name][client])
    assert outcome.is_kept
