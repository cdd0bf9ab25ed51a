"""MATLAB v7.3 files: HDF5, read by h5py into the same types as level 5.

Only what lies in the file itself is followed: links and storage that point to other files are
refused.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ._mat5 import Unread, csc_from_parts

__all__ = ["read_level73"]

_MAX_RATIO = 1032  # what deflate can shrink at best
_MAX_DEPTH = 4


def read_level73(path: Path) -> dict[str, Any]:
    """Read the variables of a v7.3 file: arrays, csc_arrays, lists (cells), dicts (structs)."""
    try:
        import h5py
    except ImportError as error:
        raise ImportError(
            'a MATLAB v7.3 file needs h5py: pip install "sklearn-cleanse[data]", or save the file '
            "from MATLAB without -v7.3"
        ) from error
    try:
        with h5py.File(path, "r") as file:
            return _group(file, h5py, _MAX_RATIO * path.stat().st_size, 0)
    except Exception as error:  # h5py raises a dozen types on damaged files; one is enough
        raise ValueError(str(error) or type(error).__name__) from error


def _group(group: Any, h5py: Any, limit: int, depth: int) -> dict[str, Any]:
    if depth > _MAX_DEPTH:
        raise ValueError(f"structs are nested more than {_MAX_DEPTH} deep")
    values = {}
    for name in group:
        if name.startswith("#"):  # MATLAB's own: what cells refer to
            continue
        if not isinstance(group.get(name, getlink=True), h5py.HardLink):
            raise ValueError(f"variable {name!r} is a link, which is not followed")
        values[name] = _value(group[name], h5py, limit, depth)
    return values


def _value(node: Any, h5py: Any, limit: int, depth: int) -> Any:
    if isinstance(node, h5py.Group):
        if "MATLAB_sparse" not in node.attrs:
            return _group(node, h5py, limit, depth + 1)
        rows = int(node.attrs["MATLAB_sparse"])
        indptr = _array(node["jc"], limit)
        if "data" not in node:  # no entry is stored at all
            return csc_from_parts(np.empty(0), np.empty(0), indptr, rows)
        data = _array(node["data"], limit).astype(float)
        return csc_from_parts(data, _array(node["ir"], limit), indptr, rows)
    if not isinstance(node, h5py.Dataset):
        return Unread()
    kind = node.attrs.get("MATLAB_class", b"")
    if kind == b"char":
        return Unread()
    if node.attrs.get("MATLAB_empty"):
        return [] if kind == b"cell" else np.empty((0, 0))
    if h5py.check_ref_dtype(node.dtype) is not None:
        if depth > _MAX_DEPTH:
            raise ValueError(f"cells are nested more than {_MAX_DEPTH} deep")
        references = _array(node, limit)
        return [_value(node.file[ref], h5py, limit, depth + 1) for ref in references.ravel()]
    if node.dtype.kind not in "biuf":
        return Unread()
    # HDF5 lists dimensions in the opposite order of MATLAB.
    values = _array(node, limit).T
    return values.astype(bool) if kind == b"logical" else values


def _array(node: Any, limit: int) -> np.ndarray:
    if node.external or node.is_virtual:
        raise ValueError(f"variable {node.name!r} is stored in another file, which is not opened")
    if node.size is None or node.size * node.dtype.itemsize > limit:
        raise ValueError(f"variable {node.name!r} declares more than the file can hold")
    return np.asarray(node[()])
