"""Settings of the documentation: ``python -m sphinx -W -b html docs docs/_build/html``.

Tables between ``<!-- table: … -->`` and ``<!-- /table -->``, and the page in ``generated``, are
written by ``examples/paper/tables.py --update`` and committed: a build needs no results.

Pages are plain Markdown, so that they can be read in the repository too. `complete` adds what only
Sphinx knows: the gallery, the list of pages, and the pages of the API.
"""

import inspect
import re
import sys
from pathlib import Path

import docutils.nodes
import sphinx_gallery.gen_gallery
from latex2mathml.converter import convert
from sphinx.addnodes import pending_xref
from sphinx.util import logging

# The checkout's own package, whether it is installed or not, and the order of the gallery.
sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(1, str(Path(__file__).parent))

import sklearn_cleanse

logger = logging.getLogger(__name__)

SHORT_CELL = 24  # characters: "CleanSE (this package)" stays on one line

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
exclude_patterns = ["_build", "api/generated/names.rst"]
templates_path = ["_templates"]
default_role = "py:obj"

myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 4

# A method that overrides one of torch or scikit-learn must not appear with their words.
autodoc_inherit_docstrings = False
autodoc_typehints = "none"
toc_object_entries_show_parents = "hide"
numpydoc_show_class_members = False  # the class template lists them

html_math_renderer = "mathml"  # browsers draw it themselves: no script, no network
html_theme = "pydata_sphinx_theme"
html_title = "sklearn_cleanse"
html_theme_options = {
    "header_links_before_dropdown": 8,
    "navbar_align": "left",
    "navbar_start": ["navbar-logo", "release"],
    "footer_start": ["copyright", "release"],
    "navigation_with_keys": False,
    "show_toc_level": 2,
}
html_show_sourcelink = False
html_static_path = ["_static"]
html_css_files = ["site.css"]
# Pages without pages beside them: an empty navigation would only take width from their text.
PAGES = [path.stem for path in Path(__file__).parent.glob("*.md")]
html_sidebars = {page: [] for page in (*PAGES, "search", "genindex", "generated/paper_tables")}
html_sidebars["api/generated/*"] = ["sections"]  # the sections of the API, not its sixty names

# Folders with a README, such as the experiments, would become parts of the gallery.
sphinx_gallery.gen_gallery.get_subsections = lambda *args, **kwargs: []

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "within_subsection_order": "gallery_order.Story",
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"/plot_",
    "ignore_pattern": r"^(?!plot_)",
    "download_all_examples": False,
    "show_memory": False,
    "write_computation_times": False,  # that page would need the network
    "abort_on_example_error": True,
}


TOCTREE = """
```{toctree}
:hidden:

Start <start>
Data <data>
Labels <labels>
Selection <selection>
Networks <networks>
Methods <methods>
How it works <how_it_works>
Results <results>
Examples <auto_examples/index>
API <api>
Contributing <contributing>
Changes <changes>
```
"""
AUTOSUMMARY = """```{{eval-rst}}
.. currentmodule:: {}

.. autosummary::
   :toctree: api/generated/
   :nosignatures:

   {}
```"""
MANUAL = "../examples/paper/README.md"
INCLUDE = f"""```{{include}} {MANUAL}
:heading-offset: 1
:start-after: "# The experiments of the results page"
```"""


def expand_api(text):
    """Turn paragraphs of the API page, a module and its names, into tables and pages."""
    return API.sub(lambda m: AUTOSUMMARY.format(m[1], "\n   ".join(_names(m[2]))) + "\n", text)


def _names(text):
    return re.findall(r"`(\w+)`", text)


API = re.compile(r"^`(sklearn_cleanse[.\w]*)`: ((?:.+\n)+)", re.M)
API_PAGE = (Path(__file__).parent / "api.md").read_text(encoding="utf-8")
PUBLIC = {name: module for module, names in API.findall(API_PAGE) for name in _names(names)}
# autosummary makes a page for each name that it finds in a file, in the folder it finds there.
STUBS = Path(__file__).parent / "api" / "generated" / "names.rst"
STUBS.parent.mkdir(parents=True, exist_ok=True)
STUBS.write_text(expand_api(API_PAGE).replace("api/generated/", "."), encoding="utf-8")
autosummary_generate = [str(STUBS)]


def complete(app, page, source):
    """Turn links into the repository into those of the site, and add what GitHub cannot show."""
    text = re.sub(r"\(\.\./examples/(plot_\w+)\.py\)", r"(auto_examples/\1.rst)", source[0])
    if page == "index":
        text += TOCTREE
    if page == "results":  # whose last section includes the manual
        text = re.sub(rf"^.*\({MANUAL}\).*$", INCLUDE, text, flags=re.M)
    text = text.replace(f"({MANUAL})", "(results.md#how-to-repeat-it)")
    text = text.replace(f"({MANUAL}#", "(results.md#")
    source[0] = expand_api(text) if page == "api" else text


def link_names(app, doctree):
    """Link names of the API, which pages write as plain code."""
    if app.env.docname not in PAGES:
        return
    linked = (docutils.nodes.title, docutils.nodes.reference, pending_xref)
    for node in list(doctree.findall(docutils.nodes.literal)):
        if (name := node.astext()) in PUBLIC and not isinstance(node.parent, linked):
            link = pending_xref(refdomain="py", reftype="obj", reftarget=f"{PUBLIC[name]}.{name}")
            link["refdoc"] = app.env.docname
            node.replace_self(link)
            link += node


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


def mark_short_cells(app, doctree, page):
    """Let figures and names stay on one line: a wide table scrolls instead of wrapping them."""
    for entry in doctree.findall(docutils.nodes.entry):
        if len(entry.astext()) <= SHORT_CELL:
            entry["classes"].append("short")


def list_sections(app, page, template, context, doctree):
    """Give pages of the API the headings of the API page, for their navigation."""
    if page.startswith("api/generated/"):
        links = app.env.tocs["api"].findall(docutils.nodes.reference)
        # Headings are plain text; names of the API are literals.
        links = [link for link in links if link["anchorname"] and not _is_code(link)]
        context["sections"] = [(link["anchorname"], link.astext()) for link in links]


def _is_code(link):
    return link.next_node(docutils.nodes.literal) is not None


def setup(app):
    app.connect("source-read", complete)
    app.connect("doctree-read", link_names)
    app.connect("html-page-context", list_sections)
    app.connect("doctree-resolved", mark_short_cells)
    app.connect("autodoc-skip-member", skip_foreign)
    app.add_html_math_renderer("mathml", (write_math, None), (write_math, None))
