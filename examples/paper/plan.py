"""What is run: the methods, and the groups of experiments as lists of tasks, before any of them."""

import ast
import hashlib
import inspect
import json
import re
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from data import BALANCES, CONTROLLED, MNISTS, REAL, SOURCES, import_object

import sklearn_cleanse

_NETWORK = "sklearn_cleanse.PartialLabelClassifier"
_CLEANSE = "sklearn_cleanse.CleanSEClassifier"
_KERNELS = {
    "pl-cgr": "sklearn_cleanse.PLCGRClassifier",
    "dpcls": "sklearn_cleanse.DPCLSClassifier",
    "kernel": "sklearn_cleanse.CleanSEKernelClassifier",
}
_LOSSES = ("cc", "rc", "lws", "cavl", "scarce", "average", "proden")

#: Methods by the names of result lines; values are their names in tables.
METHODS = {
    **{name: name.upper() for name in ("cc", "rc", "lws", "cavl", "scarce", "pl-cgr", "dpcls")},
    "average": "average",
    "proden": "PRODEN",
    "kernel": "kernel",
    "cleanse": "CleanSE (this package)",
    "cleanse-paper": "CleanSE (paper's form)",
    "cleanse-reconstructed": "CleanSE (reconstructed)",
    "cleanse-paper-net": "CleanSE (our votes, paper's network)",
}
HEADLINE = tuple(METHODS)[:12]
NETWORKS = (*_LOSSES[:5], "cleanse-paper", "cleanse-reconstructed")
SIX = NETWORKS[:6]

THREE = REAL[:3]
FOLD0 = tuple(f"{name}:fold0" for name in THREE)
BATCH_SIZES = (16, 32, 64, 128, 256)
TEMPERATURES = (1.0, 2.0, 3.0, 4.0, 5.0)
LAMBDAS = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0)
#: Rows of the ablation: T and λ.
ABLATION = {"neither": (1, 0), "votes": (3, 0), "counts": (1, 1e-3), "both": (3, 1e-3)}


class Task(NamedTuple):
    """One run; plain values only, so that it can be sent to any process."""

    group: str
    dataset: str
    method: str
    setting: str
    seed: int
    params: dict  # of the networks, on top of the method's own
    train_size: int | None = None


class Group(NamedTuple):
    """A group of experiments; a block has data sets, methods, seeds, settings, training rows."""

    about: str
    recipe: str  # "ours" or "paper": network and training of the compared methods
    last: bool  # whether tables show the mean of the last ten epochs, as the paper does
    blocks: list[tuple]


def tl_setting(temperature: float, count_weight: float) -> str:
    """Name the setting of a cell with its own T and λ; equal cells of several tables are one."""
    return f"T={temperature:g} λ={count_weight:g}"


def _cross(group, datasets, methods, seeds, settings=None, train_size=None) -> list[Task]:
    """List all combinations, seed by seed, so that a part of them is a fair part."""
    combinations = product(seeds, datasets, methods, (settings or {"": {}}).items())
    return [Task(group, d, m, name, s, p, train_size) for s, d, m, (name, p) in combinations]


def _batches(*sizes, **params) -> dict[str, dict]:
    return {f"batch {size}": {"batch_size": size, **params} for size in sizes}


_PAIRS = [*ABLATION.values(), *((T, 1e-3) for T in TEMPERATURES), *((3, w) for w in LAMBDAS)]
_TL = {tl_setting(*p): {"temperature": float(p[0]), "count_weight": p[1]} for p in _PAIRS}
_CASES = [":".join(parts) for parts in product(CONTROLLED, SOURCES, BALANCES)]
_FAST = [method for method in HEADLINE if method != "dpcls"]
_RESNET = {"module": "resnet34", "module_params": {"width": 8}, "n_networks": 1, "max_epochs": 30}
_FULL = (*SIX[:5], "proden", "cleanse")
_QUICK_SETS = ("digits:instance-dependent:balanced", "digits:bag:long-tailed")
QUICK_METHODS = ("cc", "kernel", "cleanse", "cleanse-paper")

GROUPS = {
    "headline": Group(
        "all methods on Lost, BirdSong and MSRCv2, splits 160 to 169",
        *("ours", False, [(THREE, HEADLINE, range(160, 170))]),
    ),
    "another-protocol": Group(
        "BirdSong with 80/20 splits and min-max features, as in other papers",
        *("ours", False, [(["birdsong:80/20"], ("cleanse", "kernel"), range(5))]),
    ),
    "as-published": Group(
        "the paper's split, network and training",
        *("paper", True, [(FOLD0, NETWORKS, range(5)), (FOLD0, ("pl-cgr", "dpcls"), [0])]),
    ),
    "ablation": Group(
        "votes and counts on and off; T and λ",
        *("paper", True, [(FOLD0, ("cleanse-paper", "cleanse-paper-net"), range(3), _TL)]),
    ),
    "images": Group(
        "three MNISTs, 8,000 training images, by batch size",
        *("paper", True, [(MNISTS, (*SIX, "cleanse"), (0, 1), _batches(*BATCH_SIZES), 8000)]),
    ),
    "images-full": Group(
        "MNIST and Fashion-MNIST, all training images",
        *("ours", False, [(("mnist", "fashion_mnist"), _FULL, [0], _batches(256))]),
    ),
    "controlled": Group(
        "seven sets, six sources of wrong candidates, two balances; five lexicons",
        *("ours", False, [(_CASES, _FAST, (0, 1)), (_CASES, ["dpcls"], [0])]),
    ),
    "cifar10": Group(
        "5,000 images, ResNet-34 of width 8, 30 epochs",
        *("paper", True),
        [(["cifar10"], (*SIX, "cleanse"), [0], _batches(16, 64, 256, **_RESNET), 5000)],
    ),
    "seconds": Group(
        "seconds and memory: run it with nothing beside it, and --jobs 1",
        *("ours", False, [(THREE, HEADLINE, range(160, 163))]),
    ),
    "confirm": Group(
        "fresh splits 130 to 159, for confirming a change of defaults",
        *("ours", False, [(THREE, ("cc", "kernel", "cleanse"), range(130, 160))]),
    ),
    "quick": Group(
        "digits with two sources of wrong candidates, four methods, one split",
        *("ours", False, [(_QUICK_SETS, QUICK_METHODS, [0], None, 800)]),
    ),
}
GROUPS["controlled"].blocks.append((["lexicon"], HEADLINE, range(5)))
#: What one command runs, most important first.
WHOLE = tuple(name for name in GROUPS if name not in ("seconds", "confirm", "quick"))


def plan(group, *, datasets=None, methods=None, seeds=None, epochs=None) -> list[Task]:
    """List the tasks of a group, cut down to what was asked for.

    A data set, method or seed that the group does not have is added, with the tasks of the first.
    """
    tasks = [task for block in GROUPS[group].blocks for task in _cross(group, *block)]
    tasks = _choose(tasks, "seed", seeds)
    tasks = _choose(tasks, "dataset", datasets, lambda name: name.partition(":")[0])
    tasks = _choose(tasks, "method", methods)
    own = [task for task in tasks if task.method not in METHODS]
    if own:  # settings are arguments of our networks
        tasks = [task for task in tasks if task.method in METHODS]
        tasks += {t[:3] + t[4:5]: t._replace(setting="", params={}) for t in own}.values()
    if epochs is not None:
        tasks = [task._replace(params=task.params | {"max_epochs": epochs}) for task in tasks]
    return tasks


def _choose(tasks, field, wanted, base=lambda value: value) -> list[Task]:
    if not wanted or not tasks:
        return tasks
    values = [getattr(task, field) for task in tasks]
    chosen = [t for t, v in zip(tasks, values, strict=True) if v in wanted or base(v) in wanted]
    new = [w for w in wanted if w not in values and w not in map(base, values)]
    first = [task for task, value in zip(tasks, values, strict=True) if value == values[0]]
    return chosen + [task._replace(**{field: value}) for value in new for task in first]


def build(task: Task):
    """Make the estimator of a task, seeded by the trial's seed if it takes a ``random_state``."""
    kind, params = _arguments(task.method, GROUPS[task.group].recipe)
    params |= task.params if kind in (_NETWORK, _CLEANSE) else {}
    make = import_object(kind)
    if "random_state" in inspect.signature(make).parameters:
        params["random_state"] = task.seed
    return make(**params)


def _arguments(method: str, recipe: str) -> tuple[str, dict[str, Any]]:
    """Return the estimator of a method and its arguments; all others are at their defaults."""
    if method in _LOSSES:
        return _NETWORK, (_paper_network() if recipe == "paper" else {}) | {"loss": method}
    if not method.startswith("cleanse"):
        return _KERNELS.get(method, method), {}
    if method == "cleanse-paper-net":
        return _CLEANSE, _paper_network() | {"count_every": 1, "voter_blend": 0.0}
    makers = {"cleanse-paper": "paper_settings", "cleanse-reconstructed": "reconstructed_settings"}
    maker = makers.get(method)
    return _CLEANSE, import_object(f"sklearn_cleanse.{maker}")() if maker else {}


def _paper_network() -> dict[str, Any]:
    """Return what every network has, its layers and training, as the paper has them."""
    shared = set(inspect.signature(import_object(_NETWORK)).parameters) - {"loss"}
    settings = import_object("sklearn_cleanse.paper_settings")()
    return {name: value for name, value in settings.items() if name in shared}


def describe_params(estimator) -> dict:
    """Return all parameters of an estimator in plain values, but for the machinery's."""
    params = estimator.get_params(deep=True) if hasattr(estimator, "get_params") else {}
    machinery = ("callbacks", "verbose", "random_state", "device")
    kept = {name: value for name, value in params.items() if not name.endswith(machinery)}
    return {name: _plain(value) for name, value in sorted(kept.items())}


def _plain(value):
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if hasattr(value, "tolist"):  # arrays and numpy's scalars
        return _plain(value.tolist())
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if hasattr(value, "__qualname__"):
        return value.__qualname__
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))  # an address is new in every process


def run_hash(task: Task) -> str:
    """Hash everything that determines a run's numbers but the code itself."""
    estimator = build(task)
    kind = type(estimator).__qualname__
    what = [task.dataset, task.seed, task.train_size, kind, describe_params(estimator)]
    what += [task.group] * (task.group == "seconds")  # a run of its own, not a copy
    return _digest(json.dumps(what, sort_keys=True))


@cache
def code_hash() -> str:
    """Hash the syntax trees of the package, so that edited texts do not make a figure old.

    Left out are comments, docstrings, the messages of errors, and files that no fit goes through.
    """
    root = Path(sklearn_cleanse.__file__).parent
    besides = {"plots", "inspection", "comparison.py", "persistence.py", "onnx.py", "_version.py"}
    paths = {path.relative_to(root): path for path in sorted(root.rglob("*.py"))}
    return _digest(
        "".join(
            f"{name.as_posix()}\n{tree_of(path.read_text(encoding='utf-8'))}\n"
            for name, path in paths.items()
            if name.parts[0] not in besides
        )
    )


def tree_of(source: str) -> str:
    """Return the syntax tree of a source as text, without docstrings and texts of errors."""
    tree, documented = ast.parse(source), (ast.Module, ast.ClassDef, ast.FunctionDef)
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise):
            node.exc = node.cause = None
        elif isinstance(node, documented) and ast.get_docstring(node, clean=False) is not None:
            del node.body[0]
    return ast.dump(tree)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def key_of(task: Task) -> tuple:
    """Return what identifies a task's line."""
    return task.group, task.dataset, task.method, task.setting, task.seed, run_hash(task)


#: Training rows and features, for estimates only.
_SIZES = {"lost": (1010, 108), "birdsong": (4498, 38), "msrcv2": (1582, 48), "mnist": (60000, 784)}
_SIZES |= {"fashion_mnist": (60000, 784), "kmnist": (8000, 784), "cifar10": (50000, 3072)}
_SIZES |= {name: (2000, 40) for name in ("satimage", "segment", "digits", "lexicon")}


def estimate(task: Task, measured: dict[tuple, float]) -> float:
    """Return about how many seconds a task takes: those of its cell's lines, else by a formula.

    The formula was fitted by eye to runs of one thread of a server, and is right to a factor of 2.
    """
    seconds = measured.get((task.group, task.dataset, task.method, task.setting))
    if seconds is not None:
        return seconds
    n, d = _SIZES.get(task.dataset.partition(":")[0], (700, 20))
    n = min(n, task.train_size or n)
    if task.method in _KERNELS:
        return {"pl-cgr": 0.2, "dpcls": 8.0, "kernel": 0.4}[task.method] * (n / 1000) ** 2.4 + 0.1
    if task.dataset == "cifar10":
        return 0.003 * n * task.params.get("max_epochs", 30)
    paper = GROUPS[task.group].recipe == "paper" or "-" in task.method
    if task.method == "cleanse" or not paper:
        return (4 + 0.0025 * n) * task.params.get("max_epochs", 30) / 30
    slower = {"cleanse-paper": 3.0, "cleanse-reconstructed": 3.0, "cleanse-paper-net": 1.6}
    steps = task.params.get("max_epochs", 250) * n / task.params.get("batch_size", 64)
    return steps * 1e-3 * (0.7 + d / 1000) * slower.get(task.method, 1.0)
