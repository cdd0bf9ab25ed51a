"""Saved models: one file of arrays and names, from which nothing is run."""

from __future__ import annotations

import hashlib
import importlib
import json
import math
import os
import pkgutil
import time
import uuid
import warnings
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np
from safetensors import numpy as safetensors
from sklearn.utils.validation import check_is_fitted

from ._version import __version__

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

#: The form of a file; it changes when older versions of the package could not read a new file.
FORM = 1

# The metadata starts with the digest, which is that of the file with zeros in its place.
_KEY, _NO_DIGEST = "sklearn_cleanse", b"0" * 64
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
        The file, which is replaced if it exists. Symbolic links are followed.

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
    if not _is_own(estimator):
        raise ValueError(
            "`estimator` must be one of this package's own classes to be saved, got "
            f"{type(estimator).__name__}. Pickle it."
        )
    check_is_fitted(estimator)
    encoder = _Encoder()
    model = {"form": FORM, "version": __version__, "model": encoder.encode(estimator)}
    metadata = {_KEY: _NO_DIGEST.decode() + json.dumps(model)}
    raw = bytearray(safetensors.save(encoder.arrays, metadata))
    place = raw.index(_NO_DIGEST)
    raw[place : place + 64] = hashlib.sha256(raw).hexdigest().encode()
    # Raises if, for example, `set_params` has changed the network's size since `fit`.
    _Decoder(bytes(raw), encoder.names, "cpu").model()
    _write(_regular(path), raw)


def _regular(path: str | os.PathLike) -> Path:
    """Follow links; raise if there is something that is not a regular file, such as a device."""
    target = Path(os.path.realpath(path))
    if os.path.lexists(target) and not target.is_file():
        raise OSError(f"`path` must be a regular file, got {path}. Choose another name.")
    return target


def _write(target: Path, raw: bytearray) -> None:
    """Write a file whole or not at all; remove what a killed process has left a day ago."""
    if not target.parent.is_dir():
        raise FileNotFoundError(f"`path` must be in an existing folder, got {target}. Create it.")
    for left in target.parent.glob(f"{_TEMPORARY}*"):
        with suppress(OSError):  # of another user, or gone meanwhile
            if left.is_file() and left.stat().st_mtime < time.time() - _SECONDS_KEPT:
                left.unlink()
    partial = target.with_name(_TEMPORARY + uuid.uuid4().hex)
    try:
        with open(partial, "xb") as file:
            file.write(raw)
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            partial.chmod(target.stat().st_mode)
        os.replace(partial, target)
    finally:
        partial.unlink(missing_ok=True)


def _find(name: str) -> type:
    """Return one of our classes that files may hold."""
    for module, names in CLASSES.items():
        if name in names:
            return getattr(importlib.import_module(f".{module}", __package__), name)
    raise ValueError(f"it holds a {name!r:.80}, which is not a class that can be loaded")


def _is_own(value: Any) -> bool:
    name = type(value).__name__
    return any(name in names for names in CLASSES.values()) and type(value) is _find(name)


def _path_of(value: Any) -> str:
    return f"{value.__module__}.{value.__qualname__}"


class _Encoder:
    """Turns values into JSON; collects their arrays, and the classes and functions they name."""

    def __init__(self) -> None:
        self.arrays: dict[str, np.ndarray] = {}
        self.names: dict[str, Any] = {}

    def encode(self, value: Any, where: str = "estimator") -> Any:
        """Return what JSON can hold."""
        if isinstance(value, np.generic):
            value = value.item()
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        if isinstance(value, list):
            return [self.encode(item, where) for item in value]
        if isinstance(value, tuple):
            return {"tuple": self.encode(list(value), where)}
        if isinstance(value, dict):
            return {"dict": [self.encode(list(i), f"{where}.{i[0]}") for i in value.items()]}
        if hasattr(value, "detach"):  # a tensor
            return {"tensor": self.encode(value.detach().cpu().numpy(), where)}
        if hasattr(value, "set_names"):  # an index
            values = value.tolist() if value.dtype == object else value.to_numpy()
            return {"index": self.encode([values, list(value.names)], where)}
        if isinstance(value, np.ndarray) and value.dtype == object:
            return {"objects": self.encode(value.tolist(), where)}
        if isinstance(value, np.ndarray) and value.dtype.char not in "gFDGSV":
            return self._encode_array(value)
        if _is_own(value):
            return {"object": type(value).__name__, "state": self.encode(_state(value), where)}
        if isinstance(value, (type, FunctionType)) and "<" not in value.__qualname__:
            self.names[_path_of(value)] = value
            return {"import": _path_of(value)}
        raise ValueError(
            f"`{where}` must hold numbers, strings, lists, dicts, arrays, or classes and functions "
            f"at the top of a module to be saved, got {value!r:.80}. Pickle the estimator."
        )

    def _encode_array(self, array: np.ndarray) -> dict[str, Any]:
        name, transposed = str(len(self.arrays)), array.flags.f_contiguous
        # The order in memory decides how products are rounded.
        kept = np.ascontiguousarray(array.T if transposed else array)
        self.arrays[name] = kept.view(np.uint8) if array.dtype.kind in "mMU" else kept
        return {"array": name, "transposed": transposed, "dtype": array.dtype.str}


def _state(value: Any) -> dict[str, Any]:
    """Return the attributes that a file keeps."""
    if hasattr(value, "named_buffers"):  # Scaling
        return {"root": value.root, **dict(value.named_buffers())}
    state = dict(value.__getstate__())
    for name in {"callbacks", "random_state"} & state.keys():
        state[name] = state[name] if isinstance(state[name], (int, np.integer)) else None
    if "device" in state:
        state["device"] = str(state["device"])
    if hasattr(state.get("class_prior"), "to_dict"):
        state["class_prior"] = state["class_prior"].to_dict()
    for name in {"voter", "voter_"} & state.keys():
        if state[name] is None or isinstance(state[name], str) or _is_own(state[name]):
            continue
        if value._blend():
            raise ValueError(
                f"`voter` must be a class of this package to be saved, got {state[name]!r:.80}. "
                "Set voter_blend=0, or pickle the estimator."
            )
        warnings.warn(f"{name}={state[name]!r:.80} is not saved.", stacklevel=5)
        state[name] = None
    if "net_" in state:
        epochs = [{k: v for k, v in e.items() if k != "batches"} for e in value.net_.history]
        state["net_"] = {"weights": dict(value.net_.module_.state_dict()), "history": epochs}
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
    if not isinstance(allow, dict):
        allow = {item if isinstance(item, str) else _path_of(item): item for item in allow}
    raw = _regular(path).read_bytes()
    try:
        return _Decoder(raw, allow, device).model()
    except Exception as error:  # whatever a forged file leads to
        raise ValueError(
            f"`path` must be a model that can be loaded, got {path}: {error}"
        ) from error


class _Decoder:
    """Turns JSON and arrays into an estimator, in memory in proportion to the file's size."""

    def __init__(self, raw: bytes, names: dict[str, Any], device: str | None) -> None:
        self.size, self.names, self.device = len(raw), names, device
        header = raw[8 : 8 + int.from_bytes(raw[:8], "little")]
        try:
            text = json.loads(header)["__metadata__"][_KEY]
        except (ValueError, LookupError, TypeError, RecursionError):
            raise ValueError("it is not a model of sklearn_cleanse") from None
        zeroed = raw.replace(text[:64].encode(), _NO_DIGEST, 1)
        if hashlib.sha256(zeroed).hexdigest() != text[:64]:
            raise ValueError("the file has changed since it was saved")
        self.header, self.arrays = json.loads(text[64:]), safetensors.load(raw)

    def model(self) -> Any:
        """Return the estimator."""
        if self.header["form"] != FORM:
            raise ValueError(
                f"load it with sklearn_cleanse {self.header['version']}, which saved it"
            )
        model = self.decode(self.header["model"])
        check_is_fitted(model, "classes_")
        if math.prod(model._sample_shape) <= _PROBED_VALUES:
            X, S = np.zeros((1, *model._sample_shape)), np.ones((1, len(model.classes_)), dtype=int)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # X has no feature names
                found = model.predict_proba(X), model.disambiguate(X, S, return_proba=True)[1]
            if not all(proba.shape == S.shape and np.isfinite(proba).all() for proba in found):
                raise ValueError("it does not predict a finite probability of each class")
        return model

    def decode(self, node: Any) -> Any:
        """Return the value that was encoded."""
        if isinstance(node, list):
            return [self.decode(item) for item in node]
        match node:
            case {"tuple": items}:
                return tuple(self.decode(items))
            case {"dict": items}:
                return dict(self.decode(items))
            case {"tensor": array}:
                return importlib.import_module("torch").from_numpy(self.decode(array))
            case {"index": parts}:
                values, names = self.decode(parts)
                return importlib.import_module("pandas").Index(values).set_names(names)
            case {"objects": items}:
                return np.fromiter(self.decode(items), dtype=object, count=len(items))
            case {"array": name, "transposed": transposed, "dtype": dtype}:
                array = np.array(self.arrays.pop(name))  # each is used once
                array = array.view(dtype) if np.dtype(dtype).kind in "mMU" else array
                return array.T if transposed else array
            case {"import": name}:
                return self._import(name)
            case {"object": name, "state": state}:
                return self._restore(_find(name), self.decode(state))
            case dict():
                raise ValueError(f"{node!r:.80} has no meaning")
        return node

    def _import(self, name: str) -> Any:
        """Return a function of our losses, or what is allowed."""
        module, _, function = name.rpartition(".")
        if module == f"{__package__}.losses":
            own = getattr(importlib.import_module(module), function)
            if isinstance(own, FunctionType):
                return own
        if name not in self.names:
            raise ValueError(
                f"it refers to {name!r:.200}, and nothing of that was imported. If you trust this "
                f"code, pass allow=[{name!r:.200}], or the class or function itself"
            )
        found = self.names[name]
        return pkgutil.resolve_name(found) if isinstance(found, str) else found

    def _restore(self, cls: type, state: dict[str, Any]) -> Any:
        """Return an instance of one of our classes; check it if it is an estimator."""
        if hasattr(cls, "register_buffer"):  # Scaling
            scaling = cls(0.0, 1.0)
            scaling.root = state.pop("root")
            for name, values in state.items():
                scaling.register_buffer(name, values)
            return scaling
        model: Any = object.__new__(cls)
        vars(model).update(**state)  # raises if a name is not a string
        if hasattr(model, "get_params"):
            model._validate_params()
        if hasattr(model, "classes_"):
            self._check_fitted(model)
        return model

    def _check_fitted(self, model: Any) -> None:
        """Build its network; raise if its attributes do not fit each other or the file."""
        shape, n_classes = model._sample_shape, len(set(model.classes_.tolist()))
        if (shape[0], *model.candidate_proba_.shape[1:]) != (model.n_features_in_, n_classes):
            raise ValueError(f"it has not {model.n_features_in_} features and {n_classes} classes")
        if shape[0] > self.size or (not hasattr(model, "net_") and math.prod(shape) > self.size):
            raise ValueError(f"samples of shape {shape} are larger than the file")
        if hasattr(model, "net_"):
            self._build_net(model, shape, **model.net_)

    def _build_net(self, model: Any, shape: tuple[int, ...], weights: dict, history: list) -> None:
        """Build the net of a network estimator from its weights."""
        from .base import choose_device
        from .network._build import build_net, own_random

        sample = model._scaler.shift.new_zeros(1, shape[0], *(min(n, 8) for n in shape[1:]))
        scaled = model._scaler(sample)
        checked = [scaled, *(weights.values() if isinstance(model.module, str) else ())]
        if not all(values.isfinite().all() for values in checked):
            raise ValueError("its weights or its scaling are not finite")
        if 4 * _count_weights(model, shape, scaled.shape[1]) > self.size:
            raise ValueError("its network is larger than the file")
        device = "cpu" if self.device is None else choose_device(self.device)
        if self.device is None:
            with suppress(ValueError):  # where it was trained there was another
                device = choose_device(model.device)
        with own_random(model, device, 0):
            X = np.broadcast_to(0.0, (1, *shape))
            net = build_net(model, X, scaled.shape[1], device, 0)
        net.module_.load_state_dict(weights)
        net.history.extend(map(dict, history))
        model.net_, model.device = net, self.device or model.device
        if not device.startswith("mps"):  # without double precision
            model._scaler.to(device)


def _count_weights(model: Any, shape: tuple[int, ...], n_inputs: int) -> int:
    """Return how many weights a network has at least; a module that is allowed may have any."""
    if model.module == "resnet34":
        return 576 * (model.module_params or {}).get("width", 64) ** 2
    if model.module != "mlp":
        return 0
    n_inputs = math.prod(shape) if shape[1:] else n_inputs
    widths = [n_inputs, *np.ravel(model.hidden_layer_sizes).tolist(), len(model.classes_)]
    return model.n_networks * sum(a * b for a, b in pairwise(widths))
