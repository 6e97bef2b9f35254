"""What only the site needs stands in comments, which a forge does not show.

They begin with a line `<!-- sphinx` and end with a line `-->`.
"""

import re

from sphinx.application import Sphinx

_COMMENT = re.compile(r"^<!-- sphinx\n(.*?)^-->$", re.MULTILINE | re.DOTALL)


def _uncover(app: Sphinx, docname: str, source: list[str]) -> None:
    source[0] = _COMMENT.sub(r"\1", source[0])


def setup(app: Sphinx) -> dict[str, object]:
    app.connect("source-read", _uncover)
    return {"parallel_read_safe": True}
