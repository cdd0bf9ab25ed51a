"""What is run: the methods, and the groups of experiments as lists of tasks."""

from __future__ import annotations

import hashlib
import inspect
import json
import re
from pathlib import Path
from typing import Any, NamedTuple

import data

import sklearn_cleanse

_NETWORK = "sklearn_cleanse.PartialLabelClassifier"
_CLEANSE = "sklearn_cleanse.CleanSEClassifier"

DEEP_RIVALS = ("cc", "rc", "proden", "lws", "cavl", "scarce")
RIVALS = (*DEEP_RIVALS, "pl-cgr", "dpcls")
CALIBRATED = ("cc", "rc", "proden", "lws", "cavl")

#: The methods: estimator, arguments (or the package's settings that hold them), name in tables.
#: Whatever is not named is the estimator's default.
METHODS: dict[str, tuple[str, dict[str, Any] | str, str]] = {
    **{loss: (_NETWORK, {"loss": loss}, loss.upper()) for loss in DEEP_RIVALS},
    "pl-cgr": ("sklearn_cleanse.kernel.PLCGRClassifier", {}, "PL-CGR"),
    "dpcls": ("sklearn_cleanse.kernel.DPCLSClassifier", {}, "DPCLS"),
    **{f"{m}+cleanse": (_CLEANSE, {"loss": m}, f"CleanSE on {m.upper()}") for m in CALIBRATED},
    "cleanse-kernel": ("sklearn_cleanse.kernel.CleanSEKernelClassifier", {}, "CleanSE, kernel"),
    "cleanse": (_CLEANSE, {}, "CleanSE"),
    "cleanse-paper": (_CLEANSE, "PAPER_SETTINGS", "CleanSE, paper's form"),
    "cleanse-reconstruction": (_CLEANSE, "RECONSTRUCTION", "CleanSE, reconstruction"),
    # with the network and training of PAPER_SETTINGS
    "cleanse-paper-net": (
        _CLEANSE,
        {"count_every": 1, "vote_end": 1.0},
        "CleanSE, our votes in the paper's network",
    ),
}
METHOD_NAMES = {method: name for method, (*_, name) in METHODS.items()}

SEEDS = tuple(range(5))
FRESH_SEEDS = tuple(range(120, 130))
#: Values by setting of the two sweeps.
SWEEPS = {
    "temperature": {f"T={value}": float(value) for value in range(1, 6)},
    "lambda": {f"lambda={value:g}": value for value in (1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0)},
}
BATCH_SIZES = (16, 32, 64, 128, 256)

#: What the defaults changed, in the parts that belong together.
PARTS = ["loss", "vote", "neighbors_from", "vote_start", "count_loss", "scaling", "n_members"]
PARTS = [[name] for name in [*PARTS, "dropout", "hidden_layer_sizes"]]
PARTS.append(["lr", "schedule", "weight_decay"])

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
    if "random_state" in inspect.signature(make).parameters:
        params["random_state"] = task.seed
    return make(**params)


def describe_params(estimator) -> dict:
    """Return all parameters of an estimator in plain values."""
    params = estimator.get_params(deep=True) if hasattr(estimator, "get_params") else {}
    return {name: _plain(value) for name, value in sorted(params.items()) if name not in _NO_PART}


def _plain(value):
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if hasattr(value, "tolist"):  # arrays, and numpy's scalars
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
    kind, params = public_name(type(estimator)), describe_params(estimator)
    if params.get("count_every") == 1:  # as it was before there was a choice: lines keep their keys
        del params["count_every"]
    what = [task.dataset, task.seed, task.train_size, kind, params]
    return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()[:16]


def code_hash() -> str:
    """Hash the sources that a fit goes through: all of the package but its plots and statistics."""
    root = Path(sklearn_cleanse.__file__).parent
    found = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        if path.relative_to(root).parts[0] not in ("comparison", "plots"):
            found.update(f"{path.relative_to(root).as_posix()}\0".encode() + path.read_bytes())
    return found.hexdigest()[:12]


def key_of_task(task: Task) -> tuple:
    """Return the key that the task's line will have."""
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
        ``epochs`` of every network, ``batch_sizes`` of the group "images", the ``width`` of
        "resnet34", and ``train_size``, ``data_home``, ``download`` and ``threads`` of each task.
    """
    epochs, batch_sizes = options.pop("epochs", None), options.pop("batch_sizes", None)
    width = options.pop("width", None)
    convolutional = {"module": "resnet34", "module_params": {"width": width} if width else None}
    if seeds is None:
        seeds = {"fresh": FRESH_SEEDS, "images": (0,)}.get(group, SEEDS)
    tasks = []
    for dataset in _datasets(group, datasets):
        for method, setting, estimator, params in _cells(group, methods, batch_sizes):
            if settings is not None and setting not in settings:
                continue
            params = dict(params)
            if estimator in (_NETWORK, _CLEANSE):
                params |= {"max_epochs": epochs} if epochs is not None else {}
                params |= convolutional if dataset == "cifar10" else {}
            for seed in seeds:
                cell = group, dataset, method, setting, seed
                tasks.append(Task(*cell, estimator, params, **options))
    return tasks


def _datasets(group, asked) -> list[str]:
    """List the data sets of a group; of a controlled set by its mere name, all its forms."""
    if group == "controlled":
        forms = {d: [data.controlled_name(d, *f) for f in data.FORMS] for d in data.CONTROLLED}
        return [name for d in asked or forms for name in forms.get(d, [d])]
    if group == "as-published":
        return [f"{d.removesuffix(':fold0')}:fold0" for d in asked or data.REAL[:3]]
    return list(asked or (data.IMAGES if group == "images" else data.REAL))


def _cells(group, methods, batch_sizes):
    """List (method, setting, estimator, arguments) of a group."""
    _, make, known = GROUPS[group]
    cells = [cell for m in known if m in METHODS for cell in make(m, batch_sizes)]
    if methods is None:
        return cells
    # Groups about CleanSE's own parameters have no place for other methods.
    own = [] if make in (_ablation, _parts, _temperature, _lambda) or known == _PAIRS else methods
    own = [(name, "own", name, {}) for name in own if name not in METHODS]
    return [cell for cell in cells if cell[0] in methods] + own


def arguments(method: str) -> tuple[str, dict]:
    """Return the estimator and the arguments of one of our methods."""
    estimator, params, _ = METHODS[method]
    if method == "cleanse-paper-net":
        params = params | shared(sklearn_cleanse.PAPER_SETTINGS)
    return estimator, dict(getattr(sklearn_cleanse, params) if isinstance(params, str) else params)


def shared(params: dict) -> dict:
    """Keep what every network has: its architecture and how it is trained."""
    own = {"loss", "loss_params", "random_state", "callbacks", "verbose"}
    names = sklearn_cleanse.PartialLabelClassifier().get_params().keys() - own
    return {name: value for name, value in params.items() if name in names}


def _recipe(method: str, setting: str, recipe: dict):
    estimator, params = arguments(method)
    return method, setting, estimator, (shared(recipe) if method in DEEP_RIVALS else {}) | params


def _ours(method: str, *_):
    """Yield the cell of our recipe: a rival is beaten only if it had CleanSE's to the letter."""
    yield _recipe(method, "ours", sklearn_cleanse.CleanSEClassifier().get_params())


def _recipes(method: str, *_):
    if method != "cleanse-paper":
        yield from _ours(method)
    if method != "cleanse":  # a kernel method has no epochs or batches: the same run, listed twice
        yield _recipe(method, "paper", sklearn_cleanse.PAPER_SETTINGS)


def _ablation(method: str, *_):
    """Yield a cell each for neither, votes, counts and both."""
    estimator, params = arguments(method)
    chosen = sklearn_cleanse.CleanSEClassifier(**params)
    # Where the defaults have one of them off, it is switched on as in the paper.
    paper = sklearn_cleanse.PAPER_SETTINGS
    votes = chosen.temperature if chosen.temperature != 1 else paper["temperature"]
    counts = chosen.count_weight or paper["count_weight"]
    rows = {"neither": (1.0, 0.0), "votes": (votes, 0.0), "counts": (1.0, counts)}
    for setting, (temperature, count_weight) in (rows | {"both": (votes, counts)}).items():
        own = {"temperature": temperature, "count_weight": count_weight}
        yield method, setting, estimator, params | own


def _parts(method: str, *_):
    """Yield the defaults, and the defaults with one thing at a time as the paper has it."""
    yield method, "defaults", _CLEANSE, {}
    for names in PARTS:
        params = {name: sklearn_cleanse.PAPER_SETTINGS[name] for name in names}
        setting = ", ".join(f"{name}={value}" for name, value in params.items())
        yield method, setting, _CLEANSE, params


def _sweep(parameter: str, name: str):
    def cells(method: str, *_):
        estimator, params = arguments(method)
        for setting, value in SWEEPS[parameter].items():
            yield method, setting, estimator, params | {name: value}

    return cells


_temperature, _lambda = _sweep("temperature", "temperature"), _sweep("lambda", "count_weight")


def _images(method: str, batch_sizes):
    for _, setting, estimator, params in _recipes(method):
        for size in batch_sizes or BATCH_SIZES:
            yield method, f"{setting}-batch-{size}", estimator, params | {"batch_size": size}


def _as_published(method: str, *_):
    if method in RIVALS:
        yield _recipe(method, "paper", sklearn_cleanse.PAPER_SETTINGS)
        return
    yield from _ablation(method)
    if method != "cleanse-reconstruction":
        yield from [*_temperature(method), *_lambda(method)]


_BOTH = ("cleanse", "cleanse-paper")
_PUBLISHED = ("cleanse-paper", "cleanse-reconstruction", "cleanse-paper-net")
_PAIRS = tuple(name for loss in CALIBRATED for name in (loss, f"{loss}+cleanse"))

_OWN = (*RIVALS, "proden+cleanse", "cleanse-kernel", "cleanse")

#: The groups: what they are about, how they make cells of a method, and the methods they have.
GROUPS = {
    "real": ("five real sets, our recipe and the paper's protocol", _recipes, (*RIVALS, *_BOTH)),
    "fresh": ("the defaults and the rivals on ten splits that nothing was tuned on", _ours, _OWN),
    "ablation": ("with and without votes and counts", _ablation, _BOTH),
    "parts": ("our defaults with one part at a time as in the paper's form", _parts, ("cleanse",)),
    "temperature": ("T from 1 to 5", _temperature, _BOTH),
    "lambda": ("λ from 1e-5 to 1", _lambda, _BOTH),
    "images": ("image sets, uniform candidates, by batch size", _images, (*DEEP_RIVALS, *_BOTH)),
    "rivals-calibrated": ("CleanSE on top of cc, rc, proden, lws and cavl", _ours, _PAIRS),
    "controlled": ("ordinary data, six kinds of candidates, balanced and imbalanced", _ours, _OWN),
    "as-published": ("the paper's split and network", _as_published, (*RIVALS, *_PUBLISHED)),
}


def quick_plan(**options) -> list[Task]:
    """List the tasks of ``--quick``: every group, cut down, on data that come with scikit-learn."""
    few = {"seeds": (0, 1), "epochs": 10, **options}
    tasks = plan("real", datasets=list(data.SMALL), **few)
    for group in ("ablation", "parts", "temperature", "lambda"):
        tasks += plan(group, datasets=["wine"], **few)
    tasks += plan("rivals-calibrated", datasets=["wine", "digits"], **few)
    tasks += plan("fresh", datasets=["iris", "wine"], **few | {"seeds": (110, 111)})
    tasks += plan("controlled", datasets=["iris:flip", "wine:bag:imbalanced"], **few)
    tasks += plan("as-published", datasets=["wine"], settings=["paper", "both"], **few)
    small = {"batch_sizes": (128, 256), "seeds": (0,), "train_size": 1000}
    return tasks + plan("images", datasets=["digits_images"], **few | small)
