"""Sphinx configuration: ``python -m sphinx -W -b html docs docs/_build/html``; needs no network."""

from __future__ import annotations

import html
import inspect
import os
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import milearn

sys.path.insert(0, str(Path(__file__).resolve().parent / "_ext"))

project = "milearn"
author = "the milearn developers"
copyright = "2026, the milearn developers"
version = release = milearn.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx.ext.viewcode",  # sources: pages of this site, which need no public repository
    "sphinx_gallery.gen_gallery",
    "sphinx_copybutton",
    "myst_parser",  # changelog, contributing, governance and conduct are Markdown
    "api_table",
    "formula",
    "gallery_sections",
    "printed",
    "plain_text",
    "mended_html",
    "numpydoc",
]
templates_path = ["_templates"]
# The gallery is made of the examples.
exclude_patterns = ["_build", "_inventories", "examples", "paper"]

# The examples run in every build: what they show is what this version computes.
sphinx_gallery_conf = {
    "examples_dirs": "examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r".",
    "ignore_pattern": r"__init__",
    "within_subsection_order": "FileNameSortKey",
    "doc_module": ("milearn",),
    "backreferences_dir": "gallery/backreferences",
    # Estimators would be drawn as diagrams; data frames have a table.
    "capture_repr": ("_repr_html_",),
    "ignore_repr_types": r"sklearn|matplotlib",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_signature": False,
    "reset_modules": ("matplotlib", "gallery_style.larger_fonts"),
    "plot_gallery": not os.environ.get("MILEARN_DOCS_NO_EXAMPLES"),
    "write_computation_times": False,
}

# Pages show pictures of the examples, which are missing then.
suppress_warnings = [] if sphinx_gallery_conf["plot_gallery"] else ["image.not_readable"]

# Links to other projects. The inventories in docs/_inventories hold the names that are used here,
# so that a build needs no network; with this variable the current ones are fetched instead.
_online = bool(os.environ.get("MILEARN_DOCS_INTERSPHINX"))
intersphinx_mapping = {
    project: (address, (None, stored) if _online else stored)
    for project, address in (
        ("joblib", "https://joblib.readthedocs.io/en/stable"),
        ("numpy", "https://numpy.org/doc/stable"),
        ("scipy", "https://docs.scipy.org/doc/scipy"),
        ("sklearn", "https://scikit-learn.org/stable"),
    )
    for stored in [f"_inventories/{project}.inv"]
}

# Prompts and output stay behind when an example is copied.
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_exclude = ".linenos, .gp, .go"

nitpicky = False
default_role = "code"
toc_object_entries_show_parents = "hide"  # "fit()", for which the side bar has room

autosummary_generate = True
autodoc_typehints = "none"  # the numpydoc sections say more than the annotations
numpydoc_show_class_members = False  # the class template lists the members, once
numpydoc_xref_param_type = False

# numpydoc's checks of docstrings; with -W each finding fails the build. Left out: ES01, EX01 and
# SA01, which ask for an extended summary, examples and See Also on every method; RT02 and SS02,
# which take a named return value and a summary that begins with "k-medoids" for errors; GL01 and
# GL02, which are about where the quotes stand.
numpydoc_validation_checks = {
    "GL03",  # no two blank lines
    "GL05",  # no tabs
    "GL06",  # known sections
    "GL07",  # in numpydoc's order
    "GL08",  # a docstring
    "GL09",  # place of a deprecation
    "GL10",  # directives with two colons
    "SS01",  # a summary
    "SS03",  # that ends with a period
    "SS04",  # without space in front
    "SS06",  # of one line
    "PR01",  # every parameter is documented
    "PR02",  # documented parameters exist
    "PR03",  # in the order of the signature
    "PR04",  # with a type
    "PR05",  # their types do not end with a period
    "PR06",  # types as Python spells them
    "PR07",  # and a description
    "PR08",  # descriptions are sentences
    "PR09",
    "PR10",  # a space before the colon
    "RT01",  # a section of what is returned
    "RT03",  # with a description
    "RT04",  # by sentences
    "RT05",
    "SA02",  # See Also: sentences with a capital letter, and a description of each
    "SA03",
    "SA04",
    "YD01",  # a section of what is yielded
}
numpydoc_validation_exclude = {r"\._"}  # private

html_math_renderer = "mathml"

html_theme = "pydata_sphinx_theme"
html_title = f"milearn {release}"
html_context = {"default_mode": "auto"}  # light or dark, as the reader's system is
html_static_path = ["_static"]
html_css_files = ["milearn.css"]
html_show_sourcelink = False
html_theme_options = {
    "navigation_with_keys": False,
    "show_prev_next": False,
    "show_toc_level": 2,
    "logo": {"text": "milearn"},
    "header_links_before_dropdown": 8,
}
html_logo = "_static/logo.svg"
html_favicon = "_static/logo.svg"
# Links to the repository as soon as pyproject.toml has its address.
_metadata = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text("utf-8"))
_description = _metadata["project"]["description"]
_source = _metadata["project"].get("urls", {}).get("Source", "")
_help = "The repository is not public yet."
if _source:
    _help = f"Ask questions and report bugs in the `issues <{_source}/issues>`__."
    html_theme_options["icon_links"] = [
        {"name": "Source", "url": _source, "icon": "fa-solid fa-code"}
    ]
rst_epilog = f".. |help| replace:: {_help}\n"
html_sidebars = {
    name: []
    for name in (
        *("index", "start", "install", "results/index", "about/limits", "cite", "contributing"),
        *("governance", "references", "changelog"),
    )
}


def _skip_foreign(
    app: Any, what: str, name: str, member: Any, skip: bool, options: Any
) -> bool | None:
    """Leave out what scikit-learn's base classes add: its documentation is its own.

    Its docstrings also refer to pages of its user guide, which do not exist here.
    """
    if name.startswith("set_") and name.endswith("_request"):
        return True  # made by scikit-learn at run time, in our class's name
    home = getattr(inspect.unwrap(member) if callable(member) else member, "__module__", None)
    if isinstance(home, str) and home.split(".")[0] == "sklearn":
        return True
    return None


def _escape_shapes(
    app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]
) -> None:
    """Keep ``coef_ : ndarray of shape (n_features_in_,)`` from being read as a hyperlink.

    reStructuredText takes a word that ends in an underscore for a reference; numpydoc protects
    the name before the colon only.
    """
    for number, line in enumerate(lines):
        kind = re.match(r"^(\s*[\w*, ]+ : )(.*)$", line)
        if kind:
            safe = re.sub(r"(?<![`\w.])(\w+)_(?=[,)]| \+)", r"\1\\_", kind[2])
            lines[number] = kind[1] + safe


def _describe(app: Any, page: str, template: str, context: dict[str, Any], tree: Any) -> None:
    """A description of the page for search engines and previews of links."""
    title = html.unescape(re.sub("<[^>]*>", "", context.get("title", project)))
    named = {"name": {"description": _description}}
    named["property"] = {"og:title": title, "og:description": _description, "og:type": "website"}
    context["metatags"] = context.get("metatags", "") + "".join(
        f'<meta {kind}="{key}" content="{html.escape(text)}">\n'
        for kind, texts in named.items()
        for key, text in texts.items()
    )


def setup(app: Any) -> None:
    app.connect("html-page-context", _describe)
    app.connect("autodoc-skip-member", _skip_foreign)
    app.connect("autodoc-process-docstring", _escape_shapes, priority=100)  # before numpydoc
