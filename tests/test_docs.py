"""What the documentation promises: code that runs, links that lead somewhere, plain words.

``python tests/test_docs.py [page ...]`` runs the code of pages and writes its outputs again.
"""

import ast
import contextlib
import dataclasses
import importlib
import inspect
import io
import itertools
import os
import re
import sys
import tempfile
import tokenize
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import pytest

import sklearn_cleanse

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"

MODULES = [
    "sklearn_cleanse",
    "sklearn_cleanse.candidates",
    "sklearn_cleanse.comparison",
    "sklearn_cleanse.counts",
    "sklearn_cleanse.datasets",
    "sklearn_cleanse.inspection",
    "sklearn_cleanse.kernel",
    "sklearn_cleanse.losses",
    "sklearn_cleanse.metrics",
    "sklearn_cleanse.model_selection",
    "sklearn_cleanse.network",
    "sklearn_cleanse.plots",
]

TWELVE = "api changes contributing data how_it_works index labels methods networks results"
TWELVE = {*TWELVE.split(), "selection", "start"}
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md")), ROOT / "examples" / "paper" / "README.md"]
EXAMPLES = sorted((ROOT / "examples").glob("plot_*.py"))

_BLOCK = re.compile(r"^```python\n(.*?)^```$(?:\n\n```text\n(.*?)^```$)?", re.M | re.S)
_TABLE = re.compile(r"<!-- table: .*?<!-- /table -->", re.S)


def page_name(path):
    """Return a page's path in the checkout, the name of its tests."""
    return path.relative_to(ROOT).as_posix()


def run_blocks(path):
    """Run the blocks marked ``python`` in order; yield each with what it has printed."""
    names = {"__name__": path.stem}
    text = path.read_text(encoding="utf-8")
    for match in _BLOCK.finditer(text):
        line = text[: match.start(1)].count("\n")
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            # Blank lines in front, so that a traceback names the line of the page.
            exec(compile("\n" * line + match[1], str(path), "exec"), names)
        yield match, printed.getvalue()


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_code_on_a_page_runs_and_prints_what_the_page_shows(page, tmp_path, monkeypatch):
    """Blocks marked ``py`` need data, a network or another library, and do not run."""
    monkeypatch.chdir(tmp_path)
    matplotlib.use("Agg")
    for match, printed in run_blocks(page):
        assert match[2] is None or printed == match[2]
    plt.close("all")


def test_readme_and_pages_are_short():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert readme.count("\n") <= 90
    assert {page.stem for page in DOCS.glob("*.md")} == TWELVE
    texts = [page.read_text(encoding="utf-8") for page in DOCS.glob("*.md") if page.stem != "api"]
    assert sum(len(_TABLE.sub("", text).split()) for text in texts) <= 12_000


# Links


def slug(heading):
    """Return the anchor that a heading has, as on GitHub."""
    text = re.sub(r"[^\w\- ]", "", heading.replace("`", "").lower())
    return text.strip().replace(" ", "-")


def anchors(path):
    """Return the anchors of a page."""
    text = re.sub(r"^```.*?^```$", "", path.read_text(encoding="utf-8"), flags=re.M | re.S)
    return {slug(heading) for heading in re.findall(r"^#+ (.+)$", text, re.M)}


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_links_lead_somewhere(page):
    text = page.read_text(encoding="utf-8")
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#\s]*)#?([^)\s]*)\)", text):
        path = page if not target else page.parent / target
        if "auto_examples" in target:
            path = ROOT / "examples" / f"{path.stem}.py"
        assert path.exists(), target
        assert not anchor or anchor in anchors(path), f"{target}#{anchor}"
    for name in re.findall(r"\{py:\w+\}`~?([\w.]+)`", text):
        assert resolve(name) is not None, name


def test_links_between_examples_lead_somewhere():
    for path in [*EXAMPLES, ROOT / "examples" / "GALLERY_HEADER.rst"]:
        for target in re.findall(r":doc:`(?:[^`<]*<)?(/[\w/]+)", path.read_text(encoding="utf-8")):
            folder, name = DOCS / target[1:], Path(target).name
            is_example = target.startswith("/auto_examples/plot_")
            found = ROOT / "examples" / f"{name}.py" if is_example else folder.with_suffix(".md")
            assert found.exists(), f"{path.name}: {target}"


def resolve(name):
    """Return what a full name stands for, None if it does not exist."""
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        with contextlib.suppress(ImportError, AttributeError):
            found = importlib.import_module(".".join(parts[:cut]))
            for part in parts[cut:]:
                found = getattr(found, part)
            return found
    return None


def test_every_name_on_the_api_page_is_public_and_the_top_level_is_complete():
    page, listed = (DOCS / "api.md").read_text(encoding="utf-8"), {}
    for module, names in re.findall(r"^`(sklearn_cleanse[.\w]*)`.*?: ((?:.+\n)+)", page, re.M):
        listed.setdefault(module, set()).update(re.findall(r"`(\w+)`", names))
    for module, names in listed.items():
        assert names <= set(importlib.import_module(module).__all__), module
    assert listed["sklearn_cleanse"] == set(sklearn_cleanse.__all__) - {"__version__"}
    for module in ("datasets", "inspection", "metrics", "plots"):
        name = f"sklearn_cleanse.{module}"
        assert listed[name] == set(importlib.import_module(name).__all__)
    assert 50 <= sum(map(len, listed.values())) <= 60


def test_the_functions_named_beside_the_equations_exist():
    page = (DOCS / "how_it_works.md").read_text(encoding="utf-8")
    named = re.findall(r"`((?:candidates|comparison|counts|losses|reweighting|votes)\.\w+)`", page)
    assert len(set(named)) >= 10
    for name in named:
        assert resolve(f"sklearn_cleanse.{name}") is not None, name


# Words

WORDS = re.compile(
    r"\b(?:tell|tells|told|say|says|said|believ\w*|reckon\w*|rooms?|anew|sought|mend|mends|mended|"
    r"rivals?|worlds?|nobody|somebody)\b|\b(?:is|are) no\b|\bbe had\b",
    re.I,
)

#: Texts in which such a word is right: the world size of torch.distributed.
ALLOWED = re.compile(r"get_world_size")


def strings_and_comments(path):
    """Yield line and text of docstrings, messages and comments of a module."""
    source = path.read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.lineno, node.value
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def words_in(text):
    """Return the listed words that a text holds."""
    return WORDS.findall(ALLOWED.sub("", text))


@pytest.mark.parametrize("page", [*PAGES, *(DOCS / "generated").glob("*.md")], ids=page_name)
def test_pages_use_plain_words(page):
    assert words_in(page.read_text(encoding="utf-8")) == []


def test_docstrings_messages_and_examples_use_plain_words():
    examples = [*(ROOT / "examples" / "paper").glob("*.py"), ROOT / "examples" / "quickstart.py"]
    found = [
        f"{page_name(path)}:{line}: {', '.join(words_in(text))}"
        for path in [*sorted((ROOT / "sklearn_cleanse").rglob("*.py")), *EXAMPLES, *examples]
        for line, text in strings_and_comments(path)
        if words_in(text)
    ]
    assert found == []


def test_the_word_list_finds_its_words():
    assert words_in("Nobody is told; there is no remedy.") == ["Nobody", "told", "is no"]
    assert words_in("We recommend dist.get_world_size() and bedrooms.") == []


# Facts that must not get lost: a page, and words that state the fact there.
FACTS = [
    ("selection", "does not shuffle"),
    ("selection", "Routing must be switched on"),
    ("selection", "they cannot reach one"),
    ("start", "same length are read as a matrix"),
    ("start", "together cannot be distinguished"),
    ("data", "matched by position"),
    ("data", "their indices must be equal"),
    ("data", "counts as the mean of its feature"),
    ("data", "three annotators at least"),
    ("data", "academic purposes only"),
    ("data", "training part of fold 0"),
    ("networks", "Kernel models contain training rows"),
    ("networks", "Loading a pickle runs any code"),
    ("networks", "KeyboardInterrupt and keeps"),
    ("networks", "all rows vote, exactly"),
    ("networks", "8 GiB"),
    ("networks", "NCCL is untested"),
    ("labels", "even where sets may be wrong"),
    ("labels", "a ranking, not a probability"),
    ("labels", "Pass the candidates of a training row"),
    ("labels", "not guaranteed"),
]


@pytest.mark.parametrize(("page", "words"), FACTS)
def test_facts_that_users_need_are_on_their_page(page, words):
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    assert re.search(words.replace(" ", r"\s+"), text)


# Examples


def test_every_example_asks_a_question_and_is_short():
    assert 8 <= len(EXAMPLES) <= 12
    for path in EXAMPLES:
        text = path.read_text(encoding="utf-8")
        assert re.match(r'"""\n.+\?\n=+\n', text), path.name
        assert text.count("\n") <= 80, path.name
        for foreign in ("paper/results", "open(", "fetch_"):
            assert foreign not in text, path.name


def test_the_version_is_the_newest_of_the_changes_and_that_of_the_citation():
    newest = re.search(r"^## (\S+)$", (DOCS / "changes.md").read_text(encoding="utf-8"), re.M)[1]
    cited = re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), re.M)
    assert sklearn_cleanse.__version__.partition(".dev")[0] == newest == cited[1]


# Docstrings


def public_callables():
    """Return every public class and function, and the public methods that this package defines."""
    found = {}
    for module_name in MODULES:
        module = importlib.import_module(module_name)
        for name in module.__all__:
            value = getattr(module, name)
            if not (inspect.isclass(value) or inspect.isfunction(value)):
                continue
            found[f"{value.__module__}.{name}"] = value
            if inspect.isclass(value):
                for method_name, method in inspect.getmembers(value, callable):
                    ours = (getattr(method, "__module__", "") or "").startswith("sklearn_cleanse")
                    # torch documents what a module's forward is
                    if ours and not method_name.startswith("_") and method_name != "forward":
                        found[f"{method.__module__}.{method.__qualname__}"] = method
    return found


CALLABLES = public_callables()


def section(docstring, title):
    """Return the lines of a numpydoc section, or None if it is missing."""
    lines = [*docstring.splitlines(), "", "---"]
    rules = [i for i, line in enumerate(lines) if line.startswith("---")]
    for start, end in itertools.pairwise(rules):
        if lines[start - 1] == title:
            return lines[start + 1 : end - 1]
    return None


def documented_parameters(docstring):
    """Map each name of the Parameters section to its type line."""
    # A type line may continue after a backslash.
    lines = "\n".join(section(docstring, "Parameters") or []).replace("\\\n", " ").splitlines()
    heads = [line.partition(" : ") for line in lines if line[:1].strip()]
    return {name.strip(" *"): kind for names, _, kind in heads for name in names.split(",")}


def check_docstring(value):
    """Assert that the docstring names the signature's parameters, with their defaults."""
    docstring = inspect.getdoc(value)
    assert docstring, "the docstring is missing"
    if inspect.isclass(value) and section(docstring, "Parameters") is None:
        # A result or a display with inherited parameters documents what it holds, or shows its use.
        assert section(docstring, "Attributes") or section(docstring, "Examples")
        return
    documented = documented_parameters(docstring)
    signature = {
        parameter.name: parameter.default
        for parameter in inspect.signature(value).parameters.values()
        if parameter.name != "self" and parameter.kind != parameter.VAR_KEYWORD
    }
    if not dataclasses.is_dataclass(value) or "options" not in str(inspect.signature(value)):
        assert set(documented) >= set(signature)
    for parameter, default in signature.items():
        stated = re.search(r"default=(.+)$", documented[parameter])
        if default is inspect.Parameter.empty:
            assert stated is None, f"{parameter} has no default, but {stated[0]} is stated"
        elif default is None and stated is None:
            continue  # "or None", "optional"
        else:
            assert stated, f"{parameter}={default!r} is not stated in the docstring"
            assert ast.literal_eval(stated[1]) == default


@pytest.mark.parametrize("name", CALLABLES)
def test_documented_defaults_are_those_of_the_signature(name):
    check_docstring(CALLABLES[name])


def test_summaries_are_whole_sentences():
    # Lists of names show a docstring up to its first full stop: "Eq." would be the end of it.
    for name, value in CALLABLES.items():
        assert "Eq. " not in inspect.getdoc(value).partition("\n\n")[0], name


def renew(path):
    """Write what the blocks of a page print into the page."""
    text, outputs = path.read_text(encoding="utf-8"), []
    for match, printed in run_blocks(path):
        if match[2] is not None:
            outputs.append((*match.span(2), printed))
    for start, end, printed in reversed(outputs):
        text = text[:start] + printed + text[end:]
    path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    matplotlib.use("Agg")
    chosen = [Path(name).resolve() for name in sys.argv[1:]] or PAGES
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for chosen_page in chosen:
            renew(chosen_page)
