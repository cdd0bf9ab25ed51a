"""What the documentation says is so: defaults, public names, code on the pages."""

import ast
import dataclasses
import importlib
import inspect
import itertools
import re
from pathlib import Path

import matplotlib
import pytest

import sklearn_cleanse
from sklearn_cleanse.losses import LOSSES

ROOT = Path(__file__).parents[1]

MODULES = [
    "sklearn_cleanse",
    "sklearn_cleanse.calibration",
    "sklearn_cleanse.candidates",
    "sklearn_cleanse.comparison",
    "sklearn_cleanse.counts",
    "sklearn_cleanse.datasets",
    "sklearn_cleanse.deep",
    "sklearn_cleanse.kernel",
    "sklearn_cleanse.losses",
    "sklearn_cleanse.metrics",
    "sklearn_cleanse.model_selection",
    "sklearn_cleanse.plots",
    "sklearn_cleanse.scaling",
    "sklearn_cleanse.votes",
]

# docs/data.md has its own test, beside those of the loaders.
PAGES = sorted({ROOT / "README.md", *(ROOT / "docs").glob("*.md")} - {ROOT / "docs" / "data.md"})


def public_callables():
    """Every public class and function, and the public methods that this package defines."""
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
                    # Nobody calls a module's forward by name; torch documents what it is.
                    if ours and not method_name.startswith("_") and method_name != "forward":
                        found[f"{method.__module__}.{method.__qualname__}"] = method
    return found


CALLABLES = public_callables()


def section(docstring, title):
    """Return the lines of a numpydoc section, or None if there is no such section."""
    lines = [*docstring.splitlines(), "", "---"]
    rules = [i for i, line in enumerate(lines) if line.startswith("---")]
    for start, end in itertools.pairwise(rules):
        if lines[start - 1] == title:
            return lines[start + 1 : end - 1]
    return None


def documented_parameters(docstring):
    """Map each name of the Parameters section to its type line."""
    # A type line may go on after a backslash.
    lines = "\n".join(section(docstring, "Parameters") or []).replace("\\\n", " ").splitlines()
    heads = [line.partition(" : ") for line in lines if line[:1].strip()]
    return {name.strip(" *"): kind for names, _, kind in heads for name in names.split(",")}


def check_docstring(value):
    """Assert that the docstring names the signature's parameters, with their defaults."""
    docstring = inspect.getdoc(value)
    assert docstring, "there is no docstring"
    if inspect.isclass(value) and section(docstring, "Parameters") is None:
        # What only the package makes, such as a test's result, documents what it holds.
        assert section(docstring, "Attributes")
        return
    documented = documented_parameters(docstring)
    signature = {
        parameter.name: parameter.default
        for parameter in inspect.signature(value).parameters.values()
        if parameter.name != "self"
    }
    assert set(documented) == set(signature)
    if dataclasses.is_dataclass(value):  # the signature shows a factory, not what it makes
        made = {field.name: field.default_factory for field in dataclasses.fields(value)}
        missing = dataclasses.MISSING
        signature |= {name: make() for name, make in made.items() if make is not missing}
    for parameter, default in signature.items():
        stated = re.search(r"default=(.+)$", documented[parameter])
        if default is inspect.Parameter.empty:
            assert stated is None, f"{parameter} has no default, but {stated[0]} is stated"
        elif default is None and stated is None:
            continue  # "or None", "optional": there is nothing to get wrong
        else:
            assert stated, f"{parameter}={default!r} is not stated in the docstring"
            if dataclasses.is_dataclass(value) and repr(default) == "<factory>":
                default = value.__dataclass_fields__[parameter].default_factory()
            assert ast.literal_eval(stated[1]) == default


@pytest.mark.parametrize("name", CALLABLES)
def test_documented_defaults_are_those_of_the_signature(name):
    check_docstring(CALLABLES[name])


@pytest.mark.parametrize("name", ["CleanSEClassifier", "PartialLabelClassifier"])
def test_the_groups_of_parameters_have_each_once_in_the_order_of_the_signature(name):
    kind = getattr(sklearn_cleanse, name)
    signature = list(inspect.signature(kind).parameters)
    groups = re.findall(r"from ``(\w+)`` to ``(\w+)``", inspect.getdoc(kind))
    assert len(groups) == 4
    ends = [signature.index(last) + 1 for _, last in groups]
    assert [signature.index(first) for first, _ in groups] == [0, *ends[:-1]]
    assert ends[-1] == len(signature)
    documented = re.findall(r"^(\w+) : .*default", inspect.getdoc(kind), re.M)
    assert [parameter for parameter in documented if parameter in signature] == signature


def test_a_docstring_that_deviates_is_found():
    def right(a, b=2):
        """Do.

        Parameters
        ----------
        a : int
            One.
        b : int, default=2
            Two.

        Returns
        -------
        c : int
        """

    def wrong(a, b=3):
        pass

    def more(a, b=2, c=None):
        pass

    wrong.__doc__ = more.__doc__ = right.__doc__
    check_docstring(right)
    for deviant in (wrong, more):
        with pytest.raises(AssertionError):
            check_docstring(deviant)


@pytest.mark.parametrize("module_name", MODULES)
def test_every_public_name_is_on_the_api_page(module_name):
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^ +(\w+)$|^\.\. data:: (\w+)$", page, re.M))
    listed = {name for pair in listed for name in pair if name}
    public = set(importlib.import_module(module_name).__all__) - {"__version__"}
    assert public <= listed


def test_the_functions_named_beside_the_equations_exist():
    page = (ROOT / "docs" / "equations.md").read_text(encoding="utf-8")
    rooms = "calibration|candidates|comparison|counts|deep|losses|votes"
    named = re.findall(rf"`((?:{rooms})\.[\w.]+)", page)
    assert len(set(named)) > 15
    for name in named:
        value = sklearn_cleanse
        for part in name.split("."):
            value = getattr(value, part)
    for name in ("Calibration.weigh", "Calibrator.epoch_weights", "CleanSENet.train", "step_loss"):
        assert any(entry.endswith(name) for entry in named)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_code_on_a_page_runs(page, tmp_path, monkeypatch, capsys):
    """Blocks marked ``python`` run as they stand, in order; those marked ``py`` do not.

    A block marked ``text`` straight after one is what it prints.
    """
    monkeypatch.chdir(tmp_path)
    matplotlib.use("Agg")
    names = {"__name__": page.stem}
    text = page.read_text(encoding="utf-8")
    blocks = r"^```python\n(.*?)^```$(?:\n\n```text\n(.*?)^```$)?"
    for match in re.finditer(blocks, text, re.M | re.S):
        line = text[: match.start(1)].count("\n")
        # Blank lines in front, so that a traceback names the line of the page.
        exec(compile("\n" * line + match[1], str(page), "exec"), names)
        printed = capsys.readouterr().out
        assert match[2] is None or printed == match[2]


def test_the_readme_and_the_guide_have_code():
    for page in (ROOT / "README.md", ROOT / "docs" / "guide.md"):
        assert "```python\n" in page.read_text(encoding="utf-8")


def test_summaries_are_whole_sentences():
    # Lists of names show a docstring up to its first full stop: "Eq." would be the end of it.
    for name, value in CALLABLES.items():
        assert "Eq. " not in inspect.getdoc(value).partition("\n\n")[0], name


def test_links_of_the_readme_lead_somewhere():
    # Sphinx checks the links between the pages of docs; nothing else checks these.
    targets = re.findall(
        r"\]\((?!https?:)([^)#]+)", (ROOT / "README.md").read_text(encoding="utf-8")
    )
    assert len(targets) > 10
    for target in targets:
        assert (ROOT / target).exists(), target


def test_the_front_pages_count_the_methods():
    kernels = {"PLCGRClassifier", "DPCLSClassifier"} & set(sklearn_cleanse.__all__)
    assert len(LOSSES) + len(kernels) == 9
    for page in (ROOT / "README.md", ROOT / "docs" / "index.md"):
        assert "Nine methods beside CleanSE" in page.read_text(encoding="utf-8")


def test_every_example_tells_a_story_and_needs_no_file_of_ours():
    examples = sorted((ROOT / "examples").glob("plot_*.py"))
    assert len(examples) >= 10
    for path in examples:
        text = path.read_text(encoding="utf-8")
        assert text.startswith('"""\n'), path.name
        for foreign in ("paper/results", "open(", "fetch_pll", "load_pll"):
            assert foreign not in text, path.name


def test_the_version_has_its_page_of_changes():
    pages = (ROOT / "docs" / "changes" / "index.md").read_text(encoding="utf-8")
    listed = re.findall(r"^(\d+\.\d+\.\d+)$", pages, re.M)
    assert listed[0] == sklearn_cleanse.__version__.partition(".dev")[0]
    for version in listed:
        page = (ROOT / "docs" / "changes" / f"{version}.md").read_text(encoding="utf-8")
        assert page.startswith(f"# {version}\n")
    cited = re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), re.M)
    assert cited[1] in listed


@pytest.mark.parametrize("module_name", [*MODULES[1:], "sklearn_cleanse.base"])
def test_completion_offers_public_names_only(module_name):
    module = importlib.import_module(module_name)
    assert {name for name in dir(module) if not name.startswith("_")} == set(module.__all__)
