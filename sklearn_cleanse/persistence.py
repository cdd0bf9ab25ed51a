"""Saved models: one file of arrays and names, from which nothing is run."""

import hashlib
import json
import math
import os
import time
import warnings
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from pkgutil import resolve_name
from types import FunctionType
from typing import Any

import numpy as np
from safetensors import numpy as safetensors
from sklearn.utils.validation import check_is_fitted

from ._version import __version__
from .base import choose_device

__all__ = ["load_model", "save"]

#: The classes that a file may hold, by the modules they are in; their attributes are stored.
CLASSES = {
    "network": ("CleanSEClassifier", "PartialLabelClassifier"),
    "kernel": ("CleanSEKernelClassifier", "DPCLSClassifier", "PLCGRClassifier"),
    "kernel._steps": ("FeatureScaler", "RBFFeatures"),
    "votes": ("KernelModel", "MeanKernel", "NeighborVoter"),
    "losses": ("Loss",),
    "scaling": ("Scaling",),
}

_MODULES = {name: module for module, names in CLASSES.items() for name in names}

#: The form of a file; it changes when older versions of the package could not read a new file.
FORM = 1

#: Images of more values are not used to find out whether a loaded model predicts.
_PROBED_VALUES = 2**20

_TEMPORARY, _SECONDS_KEPT = ".sklearn_cleanse-", 24 * 60 * 60


def save(estimator: Any, path: str | os.PathLike) -> None:
    """Write a fitted estimator to a file that `load_model` reads without running code.

    The file appears when it is complete, or not at all. Everything that predicts and explains is
    kept to the last bit, training rows included where these do so. Not kept are callbacks, a
    generator as ``random_state``, the optimizer's state, and a voter of your own, which must not
    share in predictions. A module or loss of your own is kept as its name.

    Parameters
    ----------
    estimator : object
        One of this package's estimators, fitted.
    path : str or path-like
        The file, which is replaced if it exists and is not read-only. Symbolic links are followed;
        a hard link is cut, so that its other names keep the old file.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sklearn_cleanse import PLCGRClassifier, load_model
    >>> from sklearn_cleanse.persistence import save
    >>> clf = PLCGRClassifier().fit([[0.0], [0.1], [1.0]], [{"a"}, {"a", "b"}, {"b"}])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(clf, Path(folder, "model.safetensors"))
    ...     again = load_model(Path(folder, "model.safetensors"))
    >>> again.predict([[0.2], [0.9]])
    array(['a', 'b'], dtype='<U1')
    """
    check_is_fitted(estimator, "classes_")
    arrays, names = dict[str, np.ndarray](), dict[str, Any]()
    text = f"{FORM} {__version__} {json.dumps(_encode(estimator, arrays, names))}"
    arrays["model"] = np.frombuffer(text.encode(), dtype=np.uint8)
    # The array whose name sorts last ends the file; the digest of all before takes its place.
    arrays["sklearn_cleanse"] = np.arange(32, dtype=np.uint8)
    raw = safetensors.save(arrays).removesuffix(bytes(range(32)))
    raw += hashlib.sha256(raw).digest()
    if hasattr(estimator, "net_"):
        estimator.net_.check_built_from(estimator)
    _read(raw, names, "cpu")  # what cannot be read again is not written
    _write(_regular(path), raw)


def _regular(path: str | os.PathLike) -> Path:
    """Follow links; raise if there is something that is not a regular file, such as a device."""
    try:
        target = Path(os.path.realpath(os.fsdecode(path)))
        if target.is_file() < os.path.lexists(target):
            raise OSError("a folder, a device or the like")
    except (TypeError, ValueError, OSError) as error:
        found = f"{path!r:.200} ({error!s:.80})"
        raise OSError(f"`path` must be a regular file, got {found}. Choose a name.") from error
    return target


def _write(target: Path, raw: bytes) -> None:
    """Write a file whole or not at all; remove what a killed process has left a day ago."""
    for left in target.parent.glob(f"{_TEMPORARY}*"):
        with suppress(OSError):  # of another user, or gone meanwhile
            if left.is_file() and left.stat().st_mtime < time.time() - _SECONDS_KEPT:
                left.unlink()
    partial = target.with_name(_TEMPORARY + os.urandom(16).hex())
    try:
        mode = target.stat().st_mode if target.exists() else None
        if mode and not (mode & 0o222 and os.access(target, os.W_OK)):  # root may write all files
            raise PermissionError("the file is read-only")
        with open(partial, "xb") as file:
            file.write(raw)
            file.flush()
            os.fsync(file.fileno())
        if mode:
            partial.chmod(mode)
        os.replace(partial, target)
    except OSError as error:
        found = f"{target!s:.200} ({error.strerror or error})"
        raise type(error)(f"`path` must be writable, got {found}. Choose another.") from error
    finally:
        with suppress(OSError):  # a read-only file system raises again
            partial.unlink()


def _is_own(value: Any) -> bool:
    return type(value).__name__ in _MODULES and _path_of(type(value)).startswith(__package__ + ".")


def _path_of(value: Any) -> str:
    return value if isinstance(value, str) else f"{value.__module__}.{value.__qualname__}"


def _encode(value: Any, arrays: dict, names: dict, at: str = "estimator") -> Any:
    """Return what JSON can hold, with ``{kind: simpler value}`` for any other value.

    ``arrays`` gets the bytes of arrays by number, ``names`` the classes and functions by path.
    Errors name the attribute ``at``.
    """
    value = value.item() if isinstance(value, np.generic) else value
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)):
        items = [_encode(item, arrays, names, at) for item in value]
        return {"tuple": items} if isinstance(value, tuple) else items
    if isinstance(value, dict):
        return {"dict": [_encode(list(i), arrays, names, f"{at}.{i[0]}") for i in value.items()]}
    if hasattr(value, "detach"):
        kind, simpler = "tensor", value.detach().cpu().numpy()
    elif hasattr(value, "set_names"):
        values = value.tolist() if value.dtype == object else value.to_numpy()
        kind, simpler = "index", [values, list(value.names)]
    elif isinstance(value, np.ndarray) and value.dtype == object:
        kind, simpler = "objects", value.tolist()
    elif isinstance(value, np.ndarray) and value.dtype.kind in "biufcmMSU":
        # The order in memory decides how products are rounded.
        kind, simpler = "array", [len(arrays), value.dtype.str, value.shape, "CF"[value.flags.fnc]]
        arrays[str(len(arrays))] = value.ravel("A").view(np.uint8)
    elif _is_own(value):
        kind, simpler = type(value).__name__, _state(value)
    elif isinstance(value, (type, FunctionType)) and "<" not in value.__qualname__:
        kind, simpler = "import", _path_of(value)
        names[simpler] = value
    else:
        remedy = "Set voter_blend=0, or pickle" if at.endswith(("voter", "voter_")) else "Pickle"
        raise ValueError(
            f"`{at}` must hold numbers, strings, lists, dicts, arrays, objects of this package, or "
            f"top-level classes and functions, got {value!r:.80}. {remedy} the estimator."
        )
    return {kind: _encode(simpler, arrays, names, at)}


#: Attributes that a file keeps in another form, or not at all.
_KEPT: dict[str, Any] = {
    "callbacks": lambda callbacks: None,
    "class_prior": lambda prior: prior.to_dict() if hasattr(prior, "to_dict") else prior,
    "device": str,
    "net_": lambda net: [dict(net.module_.state_dict()), net.history],
    "random_state": lambda seed: seed if isinstance(seed, (int, np.integer)) else None,
}


def _state(value: Any) -> dict[str, Any]:
    """Return the attributes that a file keeps."""
    state = {k: _KEPT[k](v) if k in _KEPT else v for k, v in value.__getstate__().items()}
    for name in ("voter", "voter_"):
        if hasattr(state.get(name), "fit") and not (_is_own(state[name]) or value._blend()):
            warnings.warn(f"{name}={state[name]!r:.80} is not saved.", stacklevel=5)
            state[name] = None
    return state


def load_model(path: str | os.PathLike, allow: Any = (), device: str | None = None) -> Any:
    """Load a model that an estimator's ``save`` has written.

    Nothing in the file is run: it holds numbers and names. A file that has changed since it was
    saved raises ValueError. A module or loss of your own is stored as its name, and imported only
    if you allow that name.

    Parameters
    ----------
    path : str or path-like
        The file.
    allow : list of str, classes and functions, or dict, default=()
        What the file may refer to: import paths such as ``"mypackage.networks.Wide"``, or the
        classes and functions themselves. A dict maps paths in the file to these, for what has
        moved since.
    device : str, default=None
        Device of the network. By default the ``device`` that was saved, or the CPU if that is not
        available.

    Returns
    -------
    estimator : object
        The fitted estimator. Its predictions are those of the saved one, to the last bit on the
        same kind of machine. `partial_fit` and ``warm_start`` continue with a fresh optimizer.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sklearn_cleanse import PartialLabelClassifier, load_model
    >>> X, y = [[0.0], [0.1], [0.9], [1.0]], [{"low"}, {"low", "high"}, {"low", "high"}, {"high"}]
    >>> clf = PartialLabelClassifier(max_epochs=20, random_state=0).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "model.safetensors")
    ...     _ = clf.save(path)
    ...     again = load_model(path)
    >>> bool((again.predict_proba(X) == clf.predict_proba(X)).all())
    True
    """
    names = allow if isinstance(allow, dict) else {_path_of(item): item for item in allow}
    if device is not None:
        choose_device(device)
    raw = _regular(path).read_bytes()
    try:
        return _read(raw, names, device)
    except Exception as error:  # whatever a forged file leads to
        found = f"`path` must be a model to load, got {path}: {str(error).rstrip('.'):.500}."
        fix = "" if isinstance(error, ImportError) else " Save the model again."
        raise ValueError(found + fix) from error


def _read(raw: bytes, names: dict[str, Any], device: str | None) -> Any:
    """Return the estimator, in memory in proportion to the file's size."""
    if raw[-32:] != hashlib.sha256(raw[:-32]).digest():
        raise ValueError("it is not a model of sklearn_cleanse, or has changed since it was saved")
    arrays = safetensors.load(raw)
    kinds: dict[str, Any] = {
        "dict": dict,
        "tensor": lambda array: resolve_name("torch:from_numpy")(array),
        "tuple": tuple,
        "index": lambda i: resolve_name("pandas:Index")(i[0]).set_names(i[1]),
        "objects": lambda items: np.fromiter(items, dtype=object, count=len(items)),
        "import": lambda name: _import(name, names),
    }

    def decode(kind: str, content: Any) -> Any:
        if kind == "array":
            place, dtype, shape, order = content
            if math.prod(max(n, 1) for n in shape) > len(raw):
                raise ValueError("an array is larger than the file")
            return np.array(arrays.pop(str(place))).view(dtype).reshape(shape, order=order)
        if kind not in kinds and kind not in _MODULES:
            raise ValueError(f"{kind!r:.80} has no meaning")
        return kinds[kind](content) if kind in kinds else _restore(kind, content, len(raw), device)

    form, version, text = arrays.pop("model").tobytes().decode().split(maxsplit=2)
    if form != str(FORM):
        raise ImportError(f"load it with sklearn_cleanse {version}, which saved it")
    # JSON's decoder calls this for inner objects first.
    model = json.loads(text, object_pairs_hook=lambda pairs: decode(*pairs[0]))
    check_is_fitted(model, "classes_")
    n_values = math.prod(model._sample_shape)
    is_large = n_values > len(raw) and not hasattr(model, "net_")
    if is_large or np.ndim(getattr(model, "proba_temperature_", 1.0)):
        raise ValueError("its samples or its temperature are larger than the file")
    if n_values <= _PROBED_VALUES:
        X, S = np.zeros((1, *model._sample_shape)), np.ones((1, len(model.classes_)), dtype=int)
        with warnings.catch_warnings(action="ignore"):  # X has no feature names
            found = model.predict_proba(X), model.disambiguate(X, S, return_proba=True)[1]
        if not all(proba.shape == S.shape and np.isfinite(proba).all() for proba in found):
            raise ValueError("it does not predict a finite probability of each class")
    return model


def _import(name: str, names: dict[str, Any]) -> Any:
    """Return a function of our losses, or what is allowed."""
    module, _, function = name.rpartition(".")
    own = module == f"{__package__}.losses" and getattr(resolve_name(module), function)
    found = names.get(name, own if isinstance(own, FunctionType) else None)
    if found is None:
        raise ImportError(
            f"it refers to {name!r:.200}, and nothing of that was imported. If you trust this "
            f"code, pass allow=[{name!r:.200}], or the class or function itself"
        )
    return resolve_name(found) if isinstance(found, str) else found


def _restore(kind: str, state: dict[str, Any], size: int, device: str | None) -> Any:
    """Return an instance of one of our classes, with parameters that are valid."""
    model: Any = object.__new__(resolve_name(f"{__package__}.{_MODULES[kind]}:{kind}"))
    # Raises if a name is not a string.
    getattr(model, "__setstate__", vars(model).update)(dict(**state))
    if hasattr(model, "get_params"):
        model._validate_params()
    if {"classes_", "net_"} <= vars(model).keys():
        _build_net(model, size, device)
    return model


def _build_net(model: Any, size: int, device: str | None) -> None:
    """Build the net of a network estimator from its weights."""
    from .network._build import build_net, own_random

    shape, (weights, history), used = model._sample_shape, model.net_, "cpu"
    # A forged file may ask for more weights than it has; a module that is allowed may have any.
    n_weights = n_inputs = shape[0] + model._scaler.n_indicators
    if model.module == "resnet34":
        width = (model.module_params or {}).get("width", 64)
        n_weights = 9 * width * (64 * width + n_inputs)
    elif model.module == "mlp":
        hidden = np.ravel(model.hidden_layer_sizes).tolist()
        widths = [n_inputs * math.prod(shape[1:]), *hidden, len(model.classes_)]
        n_weights = model.n_networks * sum(a * b for a, b in pairwise(widths))
        n_weights = n_weights if 2 * len(hidden) < len(weights) else math.inf  # weights and biases
    if 4 * n_weights > size:
        raise ValueError("its network is larger than the file")
    # Where the model is loaded, the device that was saved may not exist.
    with suppress(ValueError):
        used = choose_device(model.device if device is None else device)
    with own_random(model, used, 0):
        net = build_net(model, np.broadcast_to(0.0, (1, *shape)), n_inputs, used, 0)
    net.module_.load_state_dict(weights)
    net.history.extend(history)
    model.net_, model.device = net, device or model.device
    model._scaler.to("cpu" if used.startswith("mps") else used)  # mps has no double precision
