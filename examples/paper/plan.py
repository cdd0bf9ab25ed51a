"""What is run: the methods, and the groups of experiments as lists of tasks."""

from __future__ import annotations

import hashlib
import inspect
import json
import re
from pathlib import Path
from typing import Any, NamedTuple

import data
from data import IMAGES, REAL

_NETWORK = "sklearn_cleanse.PartialLabelClassifier"
_CLEANSE = "sklearn_cleanse.CleanSEClassifier"

#: The methods: estimator and arguments. Whatever is not named is the estimator's default.
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "cc": (_NETWORK, {"loss": "cc"}),
    "rc": (_NETWORK, {"loss": "rc"}),
    "proden": (_NETWORK, {"loss": "proden"}),
    "lws": (_NETWORK, {"loss": "lws"}),
    "cavl": (_NETWORK, {"loss": "cavl"}),
    "scarce": (_NETWORK, {"loss": "scarce"}),
    "pl-cgr": ("sklearn_cleanse.kernel.PLCGRClassifier", {}),
    "dpcls": ("sklearn_cleanse.kernel.DPCLSClassifier", {}),
    "cleanse": (_CLEANSE, {}),
    "cleanse-paper": (_CLEANSE, "PAPER_SETTINGS"),
}
RIVALS = ("cc", "rc", "proden", "lws", "cavl", "scarce", "pl-cgr", "dpcls")
DEEP_RIVALS = RIVALS[:6]
CALIBRATED = ("cc", "rc", "lws", "cavl")

SEEDS = tuple(range(5))
FRESH_SEEDS = tuple(range(110, 120))
TEMPERATURES = (1.0, 2.0, 3.0, 4.0, 5.0)
LAMBDAS = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0)
BATCH_SIZES = (16, 32, 64, 128, 256)

#: What the defaults changed, in the parts that belong together.
PARTS = (
    ("loss",),
    ("vote",),
    ("neighbors_from",),
    ("vote_start",),
    ("count_loss",),
    ("scaling",),
    ("n_members",),
    ("dropout",),
    ("hidden_layer_sizes",),
    ("lr", "schedule", "weight_decay"),
)

GROUPS = {
    "real": "all methods on the five real sets, our recipe and the paper's protocol",
    "fresh": "the defaults and the rivals on ten splits that nothing was tuned on",
    "ablation": "with and without votes and counts",
    "parts": "our defaults with one part at a time as in the paper's form",
    "temperature": "T from 1 to 5",
    "lambda": "λ from 1e-5 to 1",
    "images": "image sets with uniform candidates, by batch size",
    "rivals-calibrated": "CleanSE on top of cc, rc, lws and cavl",
}

#: Parameters that do not change what is learnt, or that the key holds already.
_NO_PART = ("callbacks", "verbose", "random_state", "device")


class Task(NamedTuple):
    """One run; plain values only, so that it can be sent to any worker."""

    group: str
    dataset: str
    method: str
    setting: str
    seed: int
    estimator: str  # importable path of a class or a factory
    params: dict
    train_size: int | None = None
    data_home: str | None = None
    download: bool = False
    threads: int = 1


def build(task: Task):
    """Make the estimator of a task, seeded by the trial's seed if it takes a ``random_state``."""
    make = data.import_object(task.estimator)
    params = dict(task.params)
    known = inspect.signature(make).parameters
    if "random_state" in known:
        params["random_state"] = task.seed
    return make(**params)


def describe_params(estimator) -> dict:
    """Tell all parameters of an estimator in plain values."""
    if not hasattr(estimator, "get_params"):
        return {}
    params = estimator.get_params(deep=True)
    return {name: _plain(value) for name, value in sorted(params.items()) if name not in _NO_PART}


def _plain(value):
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        return value.item()
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, type) or callable(value):
        return public_name(value if hasattr(value, "__qualname__") else type(value))
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))  # an address is new in every process


def public_name(kind) -> str:
    """Name a class or function as users import it: private modules may be moved about."""
    parts = [part for part in kind.__module__.split(".") if not part.startswith("_")]
    return ".".join([*parts, kind.__qualname__])


def run_hash(task: Task) -> str:
    """Hash everything that determines a run's numbers but the code itself."""
    estimator = build(task)
    what = [
        task.dataset,
        task.seed,
        task.train_size,
        public_name(type(estimator)),
        describe_params(estimator),
    ]
    return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()[:16]


def code_hash() -> str:
    """Hash the sources that a fit goes through: all of the package but its plots and statistics."""
    import sklearn_cleanse

    # Files may change under a process that has long imported them: the first answer counts. It is
    # kept in the package, as a worker of a cluster gets this module anew with every task.
    known = getattr(sklearn_cleanse, "_source_hash", None)
    if known is not None:
        return known
    root = Path(sklearn_cleanse.__file__).parent
    found = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        if path.relative_to(root).parts[0] not in ("comparison", "plots"):
            found.update(f"{path.relative_to(root).as_posix()}\0".encode() + path.read_bytes())
    sklearn_cleanse._source_hash = found.hexdigest()[:12]
    return sklearn_cleanse._source_hash


def key_of_task(task: Task) -> tuple:
    """Tell the key that the task's line will have."""
    return (task.group, task.dataset, task.method, task.setting, task.seed, run_hash(task))


def plan(group, *, datasets=None, methods=None, settings=None, seeds=None, **options) -> list[Task]:
    """List the tasks of a group, cut down to what was asked for.

    Parameters
    ----------
    group : str
        One of `GROUPS`.
    datasets, methods, settings : list of str, default=None
        Which ones; all if None. Methods and data sets outside the group's own are added to it.
    seeds : list of int, default=None
        The trials; the group's own if None.
    **options : dict
        ``epochs``, ``batch_sizes``, ``train_size``, ``data_home``, ``download``, ``threads``.
    """
    own_sets = IMAGES if group == "images" else REAL
    epochs = options.pop("epochs", None)
    batch_sizes = options.pop("batch_sizes", None) or BATCH_SIZES
    if seeds is None:
        seeds = FRESH_SEEDS if group == "fresh" else (0,) if group == "images" else SEEDS
    cells = _CELLS[group](methods, batch_sizes)
    tasks = []
    for dataset in own_sets if datasets is None else datasets:
        for method, setting, estimator, params in cells:
            if methods is not None and method not in methods:
                continue
            if settings is not None and setting not in settings:
                continue
            params = dict(params)
            if estimator in (_NETWORK, _CLEANSE):
                if epochs is not None:
                    params["max_epochs"] = epochs
                if dataset == "cifar10":
                    params["module"] = "resnet34"
            tasks += [
                Task(group, dataset, method, setting, seed, estimator, params, **options)
                for seed in seeds
            ]
    return tasks


def _arguments(method: str) -> tuple[str, dict]:
    from sklearn_cleanse import PAPER_SETTINGS

    estimator, params = METHODS.get(method, (method, {}))  # not one of ours: a path to import
    return estimator, dict(PAPER_SETTINGS) if params == "PAPER_SETTINGS" else dict(params)


def _recipes(method: str):
    """Yield (setting, estimator, arguments): our recipe, and the paper's protocol for rivals."""
    from sklearn_cleanse import PAPER_SETTINGS, CleanSEClassifier

    estimator, params = _arguments(method)
    if method == "cleanse-paper":
        yield "paper", estimator, params
        return
    if method not in METHODS:
        yield "own", estimator, params
        return
    if method not in DEEP_RIVALS:
        yield "ours", estimator, params
        if method in RIVALS:  # a kernel method has no epochs or batches: the same run, listed twice
            yield "paper", estimator, params
        return
    # A rival counts as beaten only if it had the same recipe, so it gets CleanSE's to the letter.
    yield "ours", estimator, _shared(CleanSEClassifier().get_params()) | params
    yield "paper", estimator, _shared(PAPER_SETTINGS) | params


def _shared(params: dict) -> dict:
    """Keep what every network has: its architecture and how it is trained."""
    from sklearn_cleanse import PartialLabelClassifier

    own = {"loss", "loss_params", "random_state", "callbacks", "verbose"}
    return {
        k: v for k, v in params.items() if k in PartialLabelClassifier().get_params().keys() - own
    }


def _user_methods(methods) -> list[str]:
    return [method for method in methods or () if method not in METHODS and "+" not in method]


def _real(methods, _):
    names = [*RIVALS, "cleanse", "cleanse-paper", *_user_methods(methods)]
    return [(name, *recipe) for name in names for recipe in _recipes(name)]


def _fresh(methods, _):
    names = [*RIVALS, "cleanse", *_user_methods(methods)]
    return [(name, *next(_recipes(name))) for name in names]


def _switched_on(params: dict) -> tuple[float, float]:
    """Tell T and λ of a method where they are on; the paper's where its default is off."""
    from sklearn_cleanse import PAPER_SETTINGS, CleanSEClassifier

    chosen = CleanSEClassifier(**params)
    temperature = PAPER_SETTINGS["temperature"]
    if chosen.temperature != 1:
        temperature = chosen.temperature
    return temperature, chosen.count_weight or PAPER_SETTINGS["count_weight"]


def _ablation(*_):
    cells = []
    for method in ("cleanse", "cleanse-paper"):
        estimator, params = _arguments(method)
        votes, counts = _switched_on(params)
        for setting, temperature, count_weight in (
            ("neither", 1.0, 0.0),
            ("votes", votes, 0.0),
            ("counts", 1.0, counts),
            ("both", votes, counts),
        ):
            own = {"temperature": temperature, "count_weight": count_weight}
            cells.append((method, setting, estimator, params | own))
    return cells


def _parts(*_):
    """Take the defaults, and put back one thing at a time to what the paper has."""
    from sklearn_cleanse import PAPER_SETTINGS

    cells = [("cleanse", "defaults", _CLEANSE, {})]
    for names in PARTS:
        params = {name: PAPER_SETTINGS[name] for name in names}
        setting = ", ".join(f"{name}={value}" for name, value in params.items())
        cells.append(("cleanse", setting, _CLEANSE, params))
    return cells


def _sweep(name: str, symbol: str, values):
    def cells(*_):
        found = []
        for method in ("cleanse", "cleanse-paper"):
            estimator, params = _arguments(method)
            found += [
                (method, f"{symbol}={value:g}", estimator, params | {name: value})
                for value in values
            ]
        return found

    return cells


def _images(methods, batch_sizes):
    cells = [
        (name, f"{setting}-batch-{size}", estimator, params | {"batch_size": size})
        for name in (*DEEP_RIVALS, "cleanse", "cleanse-paper")
        for setting, estimator, params in _recipes(name)
        for size in batch_sizes
    ]
    return cells + [(name, *next(_recipes(name))) for name in _user_methods(methods)]


def _calibrated(*_):
    cells = []
    for loss in CALIBRATED:
        cells.append((loss, *next(_recipes(loss))))
        cells.append((f"{loss}+cleanse", "ours", _CLEANSE, {"loss": loss}))
    return cells


_CELLS = {
    "real": _real,
    "fresh": _fresh,
    "ablation": _ablation,
    "parts": _parts,
    "temperature": _sweep("temperature", "T", TEMPERATURES),
    "lambda": _sweep("count_weight", "lambda", LAMBDAS),
    "images": _images,
    "rivals-calibrated": _calibrated,
}


def quick_plan(**options) -> list[Task]:
    """List the tasks of ``--quick``: every group, cut down, on data that come with scikit-learn."""
    few = {"seeds": (0, 1), "epochs": 10}
    sets = ["iris", "wine", "cancer", "digits"]
    tasks = plan("real", datasets=sets, settings=["ours", "paper"], **few, **options)
    for group, methods in (
        ("ablation", None),
        ("parts", None),
        ("temperature", None),
        ("lambda", None),
    ):
        tasks += plan(group, datasets=["wine"], methods=methods, **few, **options)
    tasks += plan("rivals-calibrated", datasets=["wine", "digits"], **few, **options)
    tasks += plan("fresh", datasets=["iris", "wine"], seeds=(110, 111), epochs=10, **options)
    small = {"batch_sizes": (128, 256), "seeds": (0,), "epochs": 10, "train_size": 1000}
    return tasks + plan("images", datasets=["digits_images"], **small, **options)
