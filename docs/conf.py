"""How the pages and the docstrings become a site: `make docs`.

The pages are plain Markdown, which reads well where it lies. What only the site needs stands in
comments that begin with `<!-- sphinx`; `_site` has the extensions.
"""

import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_site"))
PROJECT = tomllib.loads((HERE.parent / "pyproject.toml").read_text())["project"]

project = "aiolead"
author = copyright = "The aiolead maintainers"
version = release = PROJECT["version"]

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "hidden",
    "outside",
    "docstrings",
    "names",
    "reference",
]
# `make docs` has it; the build of the tests, which is of text, does without.
if find_spec("sphinx_copybutton"):
    extensions.append("sphinx_copybutton")
exclude_patterns = ["_site"]
nitpicky = True
# `-t plain` is for the tests, which look at the pages and at the search, not at the theme.
html_theme = "basic" if tags.has("plain") else "furo"  # noqa: F821 - Sphinx defines it
html_search_scorer = str(HERE / "_site" / "search_scorer.js")
html_title = f"aiolead {release}"
html_copy_source = False
# A page about the code is about the code of this version; it is in the repository.
html_show_sourcelink = False

html_static_path = ["_site/static"]
html_css_files = ["site.css"]
if html_theme == "furo":
    html_theme_options = {
        "source_repository": PROJECT["urls"]["Source"],
        "source_branch": "main",
        "source_directory": "docs/",
        "footer_icons": [],
    }
# What a reader copies is the command, without its prompt and its output.
copybutton_exclude = ".linenos, .gp, .go"

myst_heading_anchors = 4
smartquotes_action = "D"  # dashes alone: quotes are as they are written

autodoc_default_options = {
    "members": True,
    "inherited-members": "BaseException,Exception,OSError,int,str,tuple,dict,Enum,Mapping,Generic",
}
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88
toc_object_entries_show_parents = "hide"
napoleon_numpy_docstring = False
napoleon_use_rtype = False
# Tables that are made by the tests stand two levels below the title.
suppress_warnings = ["myst.header"]
