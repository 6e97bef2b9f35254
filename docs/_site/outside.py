"""Links out of `docs`, to examples and tests: the site leads to where the source is.

`AIOLEAD_SOURCE_URL` says where, such as `https://github.com/OWNER/NAME/blob/main`; by default it is
the checkout that the site was built from.
"""

import os
import re
from pathlib import Path

from sphinx.application import Sphinx

DOCS = Path(__file__).resolve().parents[1]
ROOT = DOCS.parent

_LINK = re.compile(r"\]\(((?:\.\./)+[^)#\s]*)")


def _lead_outside(app: Sphinx, docname: str, source: list[str]) -> None:
    page = Path(app.env.doc2path(docname))
    base = os.environ.get("AIOLEAD_SOURCE_URL", ROOT.as_uri()).rstrip("/")

    def rewrite(match: re.Match[str]) -> str:
        target = (page.parent / match[1]).resolve()
        if target.is_relative_to(DOCS):
            return match[0]
        # Where there is nothing, Sphinx is to say so.
        return f"]({base}/{target.relative_to(ROOT)}" if target.exists() else match[0]

    source[0] = _LINK.sub(rewrite, source[0])


def setup(app: Sphinx) -> dict[str, object]:
    app.connect("source-read", _lead_outside)
    return {"parallel_read_safe": True}
