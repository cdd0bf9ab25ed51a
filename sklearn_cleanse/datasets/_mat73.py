"""MATLAB v7.3 files: HDF5, read by h5py into the same types as level 5.

Only what lies in the file itself is followed: links and storage that point to other files raise.
The HDF5 library allocates what a file declares, so sizes are checked before each read.
"""

import itertools
import math
import re
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from ._variables import Budget, Unread, cast_exactly, csc_from_parts

_DEFLATE, _SHUFFLE = 1, 2  # HDF5's numbers of the filters that MATLAB uses
_CHUNK_COST = 4096  # bytes that the HDF5 library keeps per chunk while it reads
_NO_DRIVER = b"\x08\x08" + b"\xff" * 8
_MAX_ATTRIBUTE = 1024  # bytes; MATLAB's attributes are a class name or a number


def read_level73(path: Path, budget: Budget) -> dict[str, Any]:
    """Return the variables of a v7.3 file: arrays, csc_arrays, lists (cells), dicts (structs)."""
    try:
        import h5py
    except ImportError as error:
        remedy = 'pip install "sklearn-cleanse[data]", or save it from MATLAB without -v7.3'
        raise ImportError(f"A MATLAB v7.3 file needs h5py: {remedy}.") from error
    try:
        _check_metadata(path)
        with h5py.File(path, "r") as file:
            return _group(file, h5py, budget, 0)
    except Exception as error:  # h5py raises a dozen types on damaged files; one is enough
        raise ValueError(str(error) or type(error).__name__) from error


def _check_metadata(path: Path) -> None:
    """Raise ValueError for metadata that MATLAB does not write and HDF5 2.0 cannot be given."""
    # HDF5 allocates a block of driver information at the size it claims (2 GB for a file of 139
    # bytes), chunks of size 0 in the format of version 3 end the process, and a heap's list of
    # free blocks that runs in a circle takes all memory (a damaged file of 8 kB).
    raw = path.read_bytes()
    base = raw.index(b"\x89HDF")
    version, driver = raw[base + 8], base + 48 + 4 * raw[base + 8]
    if version > 2:
        remedy = 'If h5py wrote it, write it again with libver="v108"'
        raise ValueError(f"its HDF5 header is of version {version}, not MATLAB's. {remedy}")
    if version < 2 and raw[base + 13 : base + 15] + raw[driver : driver + 8] != _NO_DRIVER:
        raise ValueError("its HDF5 header names a file driver, which MATLAB does not")
    for heap in re.finditer(b"HEAP\0\0\0\0", raw):
        size, free, start = struct.unpack_from("<QQQ", raw, heap.end())
        seen: set[int] = set()
        while free < size and free != 1 and free not in seen:  # 1 ends the list
            seen.add(free)
            (free,) = struct.unpack_from("<Q", raw, base + start + free)
        if free in seen:
            raise ValueError("the free blocks of an HDF5 heap form a circle")


def _group(group: Any, h5py: Any, budget: Budget, depth: int) -> dict[str, Any]:
    # MATLAB's own names start with #: what cells refer to.
    names = [name for name in group if not name.startswith("#")]
    return {name: _value(_member(group, name, h5py), h5py, budget, depth) for name in names}


def _member(group: Any, name: str, h5py: Any) -> Any:
    if not isinstance(group.get(name, getlink=True), h5py.HardLink):
        raise ValueError(f"variable {name!r} is a link, which is not followed")
    return group[name]


def _value(node: Any, h5py: Any, budget: Budget, depth: int) -> Any:
    budget.visit(depth)
    if isinstance(node, h5py.Group):
        rows = _attribute(node, "MATLAB_sparse")
        if rows is None:
            return _group(node, h5py, budget, depth + 1)
        parts = {name: _array(_member(node, name, h5py), h5py, budget) for name in node}
        if "data" not in parts:  # no entry is stored at all
            parts |= {"data": np.empty(0), "ir": np.empty(0, int)}
        return csc_from_parts(parts["data"], parts["ir"], parts["jc"], int(rows), budget)
    if not isinstance(node, h5py.Dataset):
        return Unread()
    kind = _attribute(node, "MATLAB_class")
    if kind != b"char" and _attribute(node, "MATLAB_empty"):
        return [] if kind == b"cell" else np.empty((0, 0))
    if h5py.check_ref_dtype(node.dtype) is h5py.Reference:
        references = _array(node, h5py, budget).ravel()
        return [_value(node.file[ref], h5py, budget, depth + 1) for ref in references]
    if kind == b"char" or node.dtype.kind not in "biuf":
        return Unread()
    # HDF5 lists dimensions in the opposite order of MATLAB.
    values = _array(node, h5py, budget).T
    return cast_exactly(values, bool) if kind == b"logical" else values


def _attribute(node: Any, name: str) -> Any:
    if name not in node.attrs:
        return None
    attribute = node.attrs.get_id(name)
    size = math.prod(attribute.shape) * attribute.dtype.itemsize
    if size > _MAX_ATTRIBUTE or attribute.dtype.kind == "O":
        raise ValueError(f"the attribute {name} of {node.name!r} is not one of MATLAB's")
    return node.attrs[name]


def _array(node: Any, h5py: Any, budget: Budget) -> np.ndarray:
    if not isinstance(node, h5py.Dataset) or node.shape is None:
        raise ValueError(f"variable {node.name!r} is not an array")
    if node.external or node.is_virtual:
        raise ValueError(f"variable {node.name!r} is stored in another file, which is not opened")
    what = f"variable {node.name!r}"
    budget.spend(max(8, node.dtype.itemsize) * math.prod(node.shape), what)
    if node.chunks is not None:
        _check_chunks(node, budget, what)
    return np.asarray(node[()])


def _check_chunks(node: Any, budget: Budget, what: str) -> None:
    """Raise ValueError if the chunks are too many or too large, stored or unpacked."""
    axes = [range(0, n, step) for n, step in zip(node.shape, node.chunks, strict=True)]
    n_bytes = math.prod(node.chunks) * node.dtype.itemsize
    budget.spend(_CHUNK_COST * math.prod(map(len, axes)) + n_bytes, what)
    properties = node.id.get_create_plist()
    filters = [properties.get_filter(i)[0] for i in range(properties.get_nfilters())]
    if not set(filters) <= {_DEFLATE, _SHUFFLE} or len(set(filters)) != len(filters):
        raise ValueError(f"{what} is packed by the HDF5 filters {filters}")
    for offset in itertools.product(*axes):
        stored = node.id.get_chunk_info_by_coord(offset)
        if stored.size > node.file.id.get_filesize():
            raise ValueError(f"{what} has a chunk that is longer than the file")
        skipped = _DEFLATE in filters and stored.filter_mask >> filters.index(_DEFLATE) & 1
        if _DEFLATE not in filters or skipped or stored.size == 0:
            continue
        # HDF5 unpacks a chunk whole, however long it gets: measure it with a bound first.
        packed = node.id.read_direct_chunk(offset)[1]
        if len(zlib.decompressobj().decompress(packed, n_bytes + 1)) > n_bytes:
            raise ValueError(f"{what} has a chunk that unpacks to more than it declares")
