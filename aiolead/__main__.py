"""`python -m aiolead`: the command `aiolead`."""

import sys

from aiolead.cli import main

if __name__ == "__main__":
    sys.exit(main())
