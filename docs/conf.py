"""Settings of the documentation: ``python -m sphinx -W -b html docs docs/_build/html``."""

import inspect
import sys
from pathlib import Path

import docutils.nodes
from latex2mathml.converter import convert
from sphinx.util import logging

# The checkout's own package, whether it is installed or not.
sys.path.insert(0, str(Path(__file__).parents[1]))

import sklearn_cleanse

logger = logging.getLogger(__name__)

project = "sklearn_cleanse"
author = "The sklearn_cleanse developers"
copyright = author
release = version = sklearn_cleanse.__version__

# No intersphinx: it downloads inventories, and the build must work without a network.
extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build"]
templates_path = ["_templates"]
default_role = "py:obj"

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3

autosummary_generate = True
# A method that overrides one of torch or scikit-learn must not appear with their words.
autodoc_inherit_docstrings = False
autodoc_typehints = "none"
numpydoc_show_class_members = False  # the class template lists them

html_math_renderer = "mathml"  # browsers draw it themselves: no script, no network
html_theme = "pydata_sphinx_theme"
html_title = f"sklearn_cleanse {release}"
html_theme_options = {"show_toc_level": 2, "navigation_with_keys": False}
html_show_sourcelink = False
html_static_path = ["_static"]
html_css_files = ["wide.css"]
# Pages without pages below them: an empty navigation would only take width from their tables.
flat = "install guide data selection methods equations counts contributing"
html_sidebars = {page: [] for page in flat.split()}

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"/plot_",
    "ignore_pattern": r"^(?!plot_)",
    "download_all_examples": False,
    "show_memory": False,
    "abort_on_example_error": True,
}


def skip_foreign(app, what, name, member, skip, options):
    """Leave out what a class only inherits from scikit-learn or torch: it is documented there."""
    function = member.fget if isinstance(member, property) else inspect.unwrap(member)
    if not (getattr(function, "__module__", None) or "").startswith("sklearn_cleanse"):
        return True
    return None


def write_math(translator, node):
    """Write an equation as MathML."""
    display = "block" if isinstance(node, docutils.nodes.math_block) else "inline"
    written = convert(node.astext(), display=display)
    if "\\" in written:
        logger.warning("a command of this equation has no MathML: %s", node.astext(), location=node)
    translator.body.append(written)
    raise docutils.nodes.SkipNode


def setup(app):
    app.connect("autodoc-skip-member", skip_foreign)
    app.add_html_math_renderer("mathml", (write_math, None), (write_math, None))
