"""Links out of the site (to examples, tests and generated reports) point at the repository.

The address is that of `[project.urls]` in pyproject.toml; `AIOLEAD_SOURCE_URL` names another one,
such as that of one commit: `https://github.com/OWNER/NAME/blob/COMMIT`. A page that shows a path of
the building machine is a warning, which fails the build.
"""

import os
import re
import tomllib
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import logging

DOCS = Path(__file__).resolve().parents[1]
ROOT = DOCS.parent

_LOGGER = logging.getLogger(__name__)
_LINK = re.compile(r"\]\(((?:\.\./)+[^)#\s]*)")


def source_url() -> str:
    """The address of the repository's files, without a slash at its end."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    default = f"{project['urls']['Source']}/blob/main"
    return os.environ.get("AIOLEAD_SOURCE_URL", default).rstrip("/")


def _is_in_the_site(target: Path) -> bool:
    return target.is_relative_to(DOCS)


def _lead_outside(app: Sphinx, docname: str, source: list[str]) -> None:
    page = Path(app.env.doc2path(docname))
    base = source_url()

    def rewrite(match: re.Match[str]) -> str:
        target = (page.parent / match[1]).resolve()
        # Sphinx reports a link whose target does not exist.
        if _is_in_the_site(target) or not target.exists():
            return match[0]
        return f"]({base}/{target.relative_to(ROOT)}"

    source[0] = _LINK.sub(rewrite, source[0])
    # MyST renders such a link as plain text, without a target.
    for local in re.findall(r"\]\((file:[^)]*)", source[0]):
        _warn(local, docname)


def _refuse_local_paths(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    targets = [node["refuri"] for node in doctree.findall(nodes.reference) if "refuri" in node]
    for text in [*targets, *(node.astext() for node in doctree.findall(nodes.Text))]:
        if text.startswith("file:") or str(ROOT) in text:
            _warn(text, docname)


def _warn(local: str, docname: str) -> None:
    _LOGGER.warning("a path of this machine: %s", local[:200], location=docname)


def setup(app: Sphinx) -> dict[str, object]:
    app.connect("source-read", _lead_outside)
    app.connect("doctree-resolved", _refuse_local_paths)
    return {"parallel_read_safe": True}
