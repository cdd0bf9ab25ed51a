"""Imports point one way, as the plan of the house says, and few rooms need torch."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import sklearn_cleanse

PACKAGE = Path(sklearn_cleanse.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))

# A room imports from rows above its own, and from itself; rooms in a row do not know each other.
LAYERS = [
    ["_version"],
    ["_issue_table", "_model_file", "_rows", "_table", "_warn", "pipelines"],
    ["_device", "_ranks"],
    ["candidates"],
    ["comparison", "counts", "datasets", "metrics", "model_selection", "scaling"],
    ["base", "losses", "votes"],
    ["calibration"],
    ["explanation"],
    ["deep", "kernel"],
    ["_load", "issues", "plots"],
    ["__init__"],
]
LEVEL = {room: level for level, rooms in enumerate(LAYERS) for room in rooms}

WITHOUT_TORCH = [
    "sklearn_cleanse",
    "sklearn_cleanse.candidates",
    "sklearn_cleanse.comparison",
    "sklearn_cleanse.datasets",
    "sklearn_cleanse.kernel",
    "sklearn_cleanse.metrics",
    "sklearn_cleanse.model_selection",
    "sklearn_cleanse.pipelines",
    "sklearn_cleanse.plots",
]


def imported(path):
    """Return the absolute names that a file imports, anywhere in it, and from which line."""
    package = ["sklearn_cleanse", *path.relative_to(PACKAGE).parts[:-1]]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) + 1 - node.level] if node.level else []
            source = [*start, *([node.module] if node.module else [])]
            # "from . import x" may name a module; "from .x import y" is known by x already.
            for alias in node.names:
                yield ".".join([*source, alias.name]), node.lineno


def room_of(path):
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def test_every_room_has_its_layer():
    assert {room_of(path) for path in FILES} <= set(LEVEL)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_one_way(path):
    room = room_of(path)
    for name, line in imported(path):
        top, *rest = name.split(".")
        assert top not in {"examples", "tests"}, f"{path}:{line} imports {name}"
        if top != "sklearn_cleanse":
            continue
        # What the package's own front offers is at the top of the house.
        other = rest[0] if rest and rest[0] in LEVEL else "__init__"
        lower = LEVEL[other] < LEVEL[room]
        assert other == room or lower, f"{path}:{line}: {room} must not import {name}"


def test_only_the_net_imports_skorch():
    importing = {
        str(path.relative_to(PACKAGE))
        for path in FILES
        for name, _ in imported(path)
        if name.split(".")[0] == "skorch"
    }
    assert importing == {"deep/_net.py"}


def test_who_does_not_train_does_not_wait_for_torch():
    code = (
        "import importlib, sys\n"
        "for name in sys.argv[1:]:\n"
        "    importlib.import_module(name)\n"
        "    assert 'torch' not in sys.modules, name\n"
    )
    subprocess.run([sys.executable, "-c", code, *WITHOUT_TORCH], check=True, cwd=PACKAGE.parent)


def test_completion_lists_submodules_and_public_names():
    rooms = {room_of(path) for path in FILES} - {"base"}
    public = {room for room in rooms if not room.startswith("_")}
    listed = dir(sklearn_cleanse)
    assert listed == sorted({*sklearn_cleanse.__all__, *public})
    for name in listed:
        assert getattr(sklearn_cleanse, name) is not None
