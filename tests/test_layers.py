"""Imports point one way, and few modules need torch."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import sklearn_cleanse

PACKAGE = Path(sklearn_cleanse.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))

# A module imports from those before it. Methods `save`, `to_onnx` and `explain` import locally.
LAYERS = [
    "_version",
    "candidates",
    "metrics",
    "model_selection",
    "counts",
    "features",
    "datasets",
    "comparison",
    "scaling",
    "base",
    "losses",
    "reweighting",
    "votes",
    "calibration",
    "kernel",
    "network",
    "inspection",
    "persistence",
    "onnx",
    "plots",
    "__init__",
]
WITHOUT_TORCH = [
    "sklearn_cleanse",
    "sklearn_cleanse.candidates",
    "sklearn_cleanse.comparison",
    "sklearn_cleanse.datasets",
    "sklearn_cleanse.kernel",
    "sklearn_cleanse.metrics",
    "sklearn_cleanse.model_selection",
    "sklearn_cleanse.plots",
]


def imported(path, nodes):
    """Return the absolute names that statements import, and from which line."""
    package = ["sklearn_cleanse", *path.relative_to(PACKAGE).parts[:-1]]
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) + 1 - node.level] if node.level else []
            source = [*start, *([node.module] if node.module else [])]
            for alias in node.names:
                yield ".".join([*source, alias.name]), node.lineno


def module_of(path):
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_one_way(path):
    module, tree = module_of(path), ast.parse(path.read_text(encoding="utf-8"))
    local = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.name in ("save", "to_onnx", "explain")
        for inner in ast.walk(node)
    }
    for name, line in imported(path, (node for node in ast.walk(tree) if node not in local)):
        top, *rest = name.split(".")
        assert top not in {"examples", "tests"}, f"{path}:{line} imports {name}"
        if top == "sklearn_cleanse" and rest:
            other = rest[0] if rest[0] in LAYERS else "__init__"
            above = LAYERS.index(other) < LAYERS.index(module)
            assert other == module or above, f"{path}:{line}: {module} must not import {name}"


def test_only_the_network_imports_skorch():
    importing = {
        module_of(path)
        for path in FILES
        for name, _ in imported(path, ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
        if name.split(".")[0] == "skorch"
    }
    assert importing <= {"network", "persistence"}


def test_modules_without_networks_do_not_wait_for_torch_nor_plots_for_matplotlib():
    code = (
        "import importlib, sys\n"
        "for name in sys.argv[1:]:\n"
        "    importlib.import_module(name)\n"
        "    assert not {'torch', 'matplotlib'} & {*sys.modules}, name\n"
    )
    subprocess.run([sys.executable, "-c", code, *WITHOUT_TORCH], check=True, cwd=PACKAGE.parent)
