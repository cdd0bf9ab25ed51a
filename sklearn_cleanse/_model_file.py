"""Models as files: arrays as safetensors, all else as JSON in the header of the same file.

`write` takes a model apart, `ModelFile` hands its parts out again, each of the type and shape that
the caller expects. Reading runs nothing from a file and trusts nothing in it; what is named by an
import path is resolved by what the caller has allowed, or not at all.
"""

from __future__ import annotations

import json
import os
import pkgutil
import sys
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np
import scipy.sparse as sp
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from ._version import __version__

#: What a file calls itself, and the form that this version writes and reads.
FORMAT, FORM = "sklearn_cleanse model", 1

_KEY = "sklearn_cleanse"

_DTYPES = {
    "BOOL": "bool", "U8": "uint8", "I8": "int8", "U16": "uint16", "I16": "int16", "U32": "uint32",
    "I32": "int32", "U64": "uint64", "I64": "int64", "F16": "float16", "F32": "float32",
    "F64": "float64",
}  # fmt: skip

#: Characters, at most, that an array of strings may hold, padding included.
_MOST_CHARACTERS = 2**26


def write(path: str | os.PathLike, estimator: str, params: dict, state: dict) -> None:
    """Write a model to a file, which appears when it is complete, or not at all.

    Parameters
    ----------
    path : str or path-like
    estimator : str
        Name of the estimator's class.
    params : dict
        Its parameters: numbers, strings, None, lists, tuples, dicts, arrays, classes and functions.
    state : dict
        What it has learnt: as above, and tensors, sparse arrays and dicts of these.
    """
    values: dict[str, Any] = {}
    arrays: dict[str, np.ndarray] = {}
    _flatten(state, "", values, arrays)
    transposed = [name for name, array in arrays.items() if _is_column_major(array)]
    header = {
        "format": FORMAT,
        "form": FORM,
        "version": __version__,
        "estimator": estimator,
        "params": {name: encode(value, name) for name, value in params.items()},
        "values": values,
        "transposed": transposed,  # the order in memory decides how products are rounded
    }
    rows_first = {
        name: np.asarray(array.T if name in transposed else array, order="C")
        for name, array in arrays.items()
    }
    path = Path(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"cannot write {path}: there is no folder {path.parent}")
    partial = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        partial.touch()
        mode = partial.stat().st_mode  # that of any new file here; safetensors lets the owner alone
        save_file(rows_first, partial, metadata={_KEY: json.dumps(header)})
        partial.chmod(mode)
        with open(partial, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(partial, path)
    except SafetensorError as error:
        raise OSError(f"cannot write {path}: {error}") from error
    finally:
        partial.unlink(missing_ok=True)


def _flatten(state: Mapping, place: str, values: dict, arrays: dict) -> None:
    for name, value in state.items():
        name = place + name
        if hasattr(value, "detach"):  # a tensor; torch need not be imported here
            value = _to_numpy(value, name)
        if sp.issparse(value):
            value = {key: getattr(value, key) for key in ("data", "indices", "indptr")}
        if isinstance(value, Mapping):
            _flatten(value, name + ".", values, arrays)
        elif isinstance(value, np.ndarray) and str(value.dtype) in _DTYPES.values():
            arrays[name] = value
        else:
            values[name] = encode(value, name)


def _to_numpy(tensor: Any, name: str) -> np.ndarray:
    try:
        return tensor.detach().cpu().numpy()
    except TypeError as error:
        raise ValueError(
            f"{name} has the type {tensor.dtype}, which save does not keep; use single precision, "
            "or pickle the estimator"
        ) from error


def _is_column_major(array: np.ndarray) -> bool:
    return array.flags.f_contiguous and not array.flags.c_contiguous


# -- values as JSON ------------------------------------------------------------------------------


def encode(value: Any, where: str) -> Any:
    """Turn a value into what JSON can hold, from which `ModelFile.decode` makes it again."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, list):
        return [encode(item, where) for item in value]
    if isinstance(value, tuple):
        return {"tuple": [encode(item, where) for item in value]}
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {"dict": {key: encode(item, where) for key, item in value.items()}}
    if isinstance(value, np.ndarray) and value.dtype.kind in "biufUO":
        kind = {"U": "str", "O": "object"}.get(value.dtype.kind, str(value.dtype))
        return {"array": encode(value.tolist(), where), "dtype": kind}
    if isinstance(value, (type, FunctionType)):
        return {"import": _import_path(value, where)}
    raise ValueError(
        f"{where} holds {value!r:.80}, of type {type(value).__name__}, which save does not keep; "
        "use numbers, strings, lists, dicts, arrays, or classes and functions of a module; or "
        "pickle the estimator"
    )


def path_of(value: Any) -> str:
    """Return where a class or function says that it can be imported from."""
    return f"{value.__module__}.{value.__qualname__}"


def _import_path(value: Any, where: str) -> str:
    found = sys.modules.get(value.__module__)
    for part in value.__qualname__.split("."):
        found = getattr(found, part, None)
    if found is not value:
        raise ValueError(
            f"{where} holds {path_of(value)}, which cannot be imported by that name; define it at "
            "the top of a module, so that a saved model can refer to it"
        )
    return path_of(value)


class ModelFile:
    """The parts of a saved model, to be asked for one by one; each request is a check.

    Parameters
    ----------
    path : str or path-like
        The file.
    allow : iterable of str, classes and functions, or mapping of str to these, default=()
        What the file may refer to; see `sklearn_cleanse.load`.

    Attributes
    ----------
    estimator : str
        Name of the estimator's class, as the file has it.
    """

    def __init__(self, path: str | os.PathLike, allow: Iterable | Mapping = ()) -> None:
        self._allowed = _allowed(allow)
        with open(path, "rb"):
            pass  # what is not there, or no file, is an OSError that says so
        try:
            with safe_open(path, framework="np") as file:
                header = json.loads((file.metadata() or {}).get(_KEY, "null"))
                self._check_header(header)
                slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
                for name, part in slices.items():
                    if part.get_dtype() not in _DTYPES:
                        raise ValueError(f"{name} has the type {part.get_dtype()}")
                self._arrays = {name: np.array(file.get_tensor(name)) for name in slices}
        except (SafetensorError, TypeError, OverflowError, RecursionError) as error:
            raise ValueError(f"it is damaged, or no saved model ({error})") from error
        for name in _strings(header["transposed"], "transposed"):
            if name not in self._arrays:
                raise ValueError(f"it names {name!r}, which it does not hold")
            self._arrays[name] = self._arrays[name].T
        self.estimator, self._params = header["estimator"], header["params"]
        self._values = header["values"]
        self._unread = {*self._values, *self._arrays}

    def _check_header(self, header: Any) -> None:
        if not isinstance(header, dict) or header.get("format") != FORMAT:
            raise ValueError("it is no model that sklearn_cleanse has saved")
        if header.get("form") != FORM:
            raise ValueError(
                f"it was written by sklearn_cleanse {header.get('version')!r:.20} in form "
                f"{header.get('form')!r:.20}, and this version reads form {FORM}; load it with "
                "that version"
            )
        kinds = {"estimator": str, "params": dict, "values": dict, "transposed": list}
        for name, kind in kinds.items():
            if not isinstance(header.get(name), kind):
                raise ValueError(f"its header has no proper {name!r}")

    def params(self) -> dict[str, Any]:
        """Return the estimator's parameters."""
        return {name: self.decode(value) for name, value in self._params.items()}

    def decode(self, value: Any) -> Any:
        """Make a value again from what `encode` has made of it."""
        if isinstance(value, list):
            return [self.decode(item) for item in value]
        if not isinstance(value, dict):
            return value
        match value:
            case {"tuple": list(items)} if len(value) == 1:
                return tuple(self.decode(items))
            case {"dict": dict(items)} if len(value) == 1:
                return {key: self.decode(item) for key, item in items.items()}
            case {"import": str(name)} if len(value) == 1:
                return self._resolve(name)
            case {"array": list(items), "dtype": str(kind)} if len(value) == 2:
                return _array(self.decode(items), kind)
        raise ValueError(f"it holds {value!r:.80}, which has no meaning")

    def _resolve(self, name: str) -> Any:
        if name not in self._allowed:
            raise ValueError(
                f"it refers to {name!r:.200}, and nothing of that was imported; if you trust this "
                f"code, pass allow=[{name!r:.200}], or the class or function itself"
            )
        found = self._allowed[name]
        try:
            return pkgutil.resolve_name(found) if isinstance(found, str) else found
        except (ImportError, AttributeError) as error:
            raise ValueError(f"{found!r} of allow cannot be imported: {error}") from error

    # -- what has been learnt --------------------------------------------------------------------

    def has(self, name: str) -> bool:
        """Return whether there is a value, an array or a group of this name that is not None."""
        if name in self._values:
            if self._values[name] is not None:
                return True
            self._unread.discard(name)
            return False
        return name in self._arrays or any(key.startswith(name + ".") for key in self._unread)

    def value(self, name: str, *kinds: type) -> Any:
        """Return a value of one of the given types; floats are finite."""
        found = self.decode(self._take(self._values, name))
        if type(found) is int and float in kinds and int not in kinds:
            found = float(found)
        if type(found) not in kinds or (type(found) is float and not np.isfinite(found)):
            raise ValueError(f"{name} is {found!r:.80}, which it cannot be")
        return found

    def array(
        self,
        name: str,
        kinds: str,
        shape: tuple[int | None, ...] | None,
        gaps: bool = False,
    ) -> np.ndarray:
        """Return an array of one of the given kinds, such as "f", and of a shape.

        None in the shape stands for any length, None for the shape for any shape; with ``gaps``
        there may be NaN.
        """
        found = self._take(self._arrays, name)
        fits = shape is None or (
            len(shape) == found.ndim
            and all(want in (None, n) for want, n in zip(shape, found.shape, strict=True))
        )
        if found.dtype.kind not in kinds or not fits:
            wanted = "" if shape is None else f"; it must have the shape {shape}"
            raise ValueError(f"{name} is {found.dtype} of shape {found.shape}{wanted}")
        bad = np.isinf if gaps else lambda values: ~np.isfinite(values)
        if found.dtype.kind == "f" and bad(found).any():
            raise ValueError(f"{name} holds values that are not finite")
        return found

    def sparse(
        self,
        name: str,
        n_rows: int | None,
        n_columns: int,
        kinds: str = "f",
        gaps: bool = False,
    ) -> sp.csr_array:
        """Return a sparse array; its values are as for `array`."""
        indptr = self.array(f"{name}.indptr", "i", (None if n_rows is None else n_rows + 1,))
        indices = self.array(f"{name}.indices", "i", (None,))
        data = self.array(f"{name}.data", kinds, (len(indices),), gaps)
        within = len(indptr) and indptr[0] == 0 and indptr[-1] == len(indices)
        if not within or (np.diff(indptr) < 0).any():
            raise ValueError(f"{name} has rows that do not fit its entries")
        if len(indices) and not 0 <= indices.min() <= indices.max() < n_columns:
            raise ValueError(f"{name} has an entry outside its {n_columns} columns")
        return sp.csr_array((data, indices, indptr), shape=(len(indptr) - 1, n_columns))

    def labels(self, name: str) -> np.ndarray:
        """Return an array of labels, none of which occurs twice."""
        if name in self._arrays:
            found = self.array(name, "biuf", (None,))
        else:
            found = self.value(name, np.ndarray)
        if found.ndim != 1 or not len(found) or len(set(found.tolist())) < len(found):
            raise ValueError(f"{name} must be a list of different labels")
        return found

    def group(self, name: str) -> dict[str, np.ndarray]:
        """Return all arrays whose names begin by that of the group."""
        keys = [key for key in self._arrays if key.startswith(name + ".")]
        return {key[len(name) + 1 :]: self.array(key, "biuf", None) for key in keys}

    def _take(self, source: dict, name: str) -> Any:
        if name not in source:
            raise ValueError(f"{name} is missing")
        self._unread.discard(name)
        return source[name]

    def finish(self) -> None:
        """Refuse a file that holds more than was asked for."""
        for name in sorted(self._unread):
            raise ValueError(f"it holds {name!r:.80}, which is no part of a {self.estimator}")


def _allowed(allow: Iterable | Mapping) -> dict[str, Any]:
    if isinstance(allow, Mapping):
        return dict(allow)
    if isinstance(allow, str):
        raise ValueError(f"allow is {allow!r}; it must be a list, such as [{allow!r}]")
    return {item if isinstance(item, str) else path_of(item): item for item in allow}


def _strings(values: list, name: str) -> list[str]:
    if not all(isinstance(value, str) for value in values):
        raise ValueError(f"its header has no proper {name!r}")
    return values


def _array(items: list, kind: str) -> np.ndarray:
    if kind == "str":
        longest = max((len(item) for item in _strings(items, "array")), default=1)
        if len(items) * longest > _MOST_CHARACTERS:
            raise ValueError("an array of strings would take too much room")
        return np.array(items, dtype=str)
    if kind == "object":
        found = np.empty(len(items), dtype=object)
        for i, item in enumerate(items):
            found[i] = item
        return found
    if kind not in _DTYPES.values():
        raise ValueError(f"an array has the type {kind!r:.20}")
    return np.array(items, dtype=kind)
