"""Benchmarks: aiolead and its peers; see README.md.

Some programs use what the tests use. The tests import that from the folder `tests`.
"""

import sys
from pathlib import Path

_TESTS = str(Path(__file__).parents[1] / "tests")
if _TESTS not in sys.path:
    sys.path.append(_TESTS)
