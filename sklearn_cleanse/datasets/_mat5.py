"""MATLAB level-5 files, read without trusting them.

`scipy.io.loadmat` allocates what a damaged header asks for, raises whatever happens to go wrong,
and a file of a megabyte that nests cells deeply enough ends the process (measured: 10 000 levels).
This reader knows only what a data file needs (numbers, sparse matrices, cells, structs), never
looks outside the bytes an element owns, and raises nothing but ValueError.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

__all__ = ["Unread", "csc_from_parts", "read_level5"]

_MATRIX, _COMPRESSED = 14, 15
_STORED = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8"}
_STORED |= {12: "i8", 13: "u8"}
_CELL, _STRUCT, _SPARSE = 1, 2, 5
_NUMERIC = {6: "f8", 7: "f4", 8: "i1", 9: "u1", 10: "i2", 11: "u2", 12: "i4", 13: "u4"}
_NUMERIC |= {14: "i8", 15: "u8"}
_LOGICAL, _COMPLEX = 0x02, 0x08
_MAX_DEPTH = 4


class Unread:
    """A variable of a kind that holds no data (text, function, object): its name is enough."""

    shape = ("not a matrix",)


def read_level5(raw: bytes) -> dict[str, Any]:
    """Read the variables of a level-5 file: arrays, csc_arrays, lists (cells), dicts (structs)."""
    order = {b"IM": "<", b"MI": ">"}[raw[126:128]]
    variables = {}
    position = 128
    while position < len(raw):
        kind, size, body = _tag(raw, position, order)
        position = body + size
        if position > len(raw):
            raise ValueError(
                f"the file is cut short: variable {len(variables)} should end at byte {position}, "
                f"the file ends at byte {len(raw)}"
            )
        element = memoryview(raw)[body:position]
        if kind == _COMPRESSED:
            kind, element = _inflate(element, order)
        if kind != _MATRIX:
            raise ValueError(f"element {len(variables)} is of type {kind}, not a matrix")
        name, value = _matrix(element, order, 0)
        if name:  # the nameless one is MATLAB's own workspace for functions
            variables[name] = value
    return variables


def csc_from_parts(
    data: np.ndarray, indices: np.ndarray, indptr: np.ndarray, rows: int
) -> sp.csc_array:
    """Build a sparse matrix out of a file's parts, every index of which is checked."""
    indices, indptr = indices.astype(np.int64), indptr.astype(np.int64)
    if len(indptr) == 0 or indptr[0] != 0 or np.any(np.diff(indptr) < 0):
        raise ValueError("a sparse matrix has column pointers that do not ascend from 0")
    if indptr[-1] > min(len(indices), len(data)):
        raise ValueError(f"a sparse matrix has {len(data)} values where {indptr[-1]} are declared")
    indices, data = indices[: indptr[-1]], data[: indptr[-1]]
    if len(indices) and (indices.min() < 0 or indices.max() >= rows):
        raise ValueError(f"a sparse matrix of {rows} rows has an entry outside them")
    if rows > max(1_000_000, 100 * len(data)):
        raise ValueError(f"a sparse matrix declares {rows} rows for {len(data)} entries")
    return sp.csc_array((data, indices, indptr), shape=(rows, len(indptr) - 1))


def _tag(raw: Any, position: int, order: str) -> tuple[int, int, int]:
    """Return an element's type, its size in bytes, and where its content starts."""
    if position + 8 > len(raw):
        raise ValueError("the file is cut short in the middle of an element")
    kind, size = struct.unpack_from(order + "II", raw, position)
    if kind >> 16:  # a small element: size and type share one word, content fills the other
        if kind >> 16 > 4:
            raise ValueError(f"a small element claims {kind >> 16} bytes")
        return kind & 0xFFFF, kind >> 16, position + 4
    return kind, size, position + 8


def _inflate(element: memoryview, order: str) -> tuple[int, memoryview]:
    stream = zlib.decompressobj()
    try:
        head = stream.decompress(element, 8)
        if len(head) < 8:
            raise ValueError("a compressed variable is cut short")
        kind, size = struct.unpack(order + "II", head)
        body = stream.decompress(stream.unconsumed_tail, size)
        # One more byte is asked for so that zlib reaches the end and compares its checksum.
        more = stream.decompress(stream.unconsumed_tail, 1)
    except (zlib.error, MemoryError, OverflowError) as error:
        raise ValueError(f"a compressed variable is damaged ({error})") from None
    if len(body) != size or more or not stream.eof:
        raise ValueError(f"a compressed variable does not hold the {size} bytes it declares")
    return kind, memoryview(body)


def _elements(content: memoryview, order: str) -> Iterator[tuple[int, memoryview]]:
    position = 0
    while position < len(content):
        kind, size, body = _tag(content, position, order)
        if body + size > len(content):
            raise ValueError("an element is longer than the variable it is part of")
        yield kind, content[body : body + size]
        position = body + size if kind == _COMPRESSED else -(-(body + size) // 8) * 8


def _matrix(content: memoryview, order: str, depth: int) -> tuple[str, Any]:
    if depth > _MAX_DEPTH:
        raise ValueError(f"cells or structs are nested more than {_MAX_DEPTH} deep")
    if len(content) == 0:  # how a cell stores []
        return "", np.empty((0, 0))
    parts = _elements(content, order)
    try:
        flags = _numbers(*next(parts), order)
        dims = tuple(_numbers(*next(parts), order).tolist())
        name = bytes(next(parts)[1]).decode("latin-1")
        if len(flags) < 2 or len(dims) < 2 or min(dims) < 0:
            raise ValueError(f"a variable has a damaged header (dimensions {dims})")
        kind, options = int(flags[0]) & 0xFF, int(flags[0]) >> 8
        if options & _COMPLEX:
            raise ValueError(f"variable {name!r} holds complex numbers; data are real")
        if kind in _NUMERIC:
            values = _numbers(*next(parts), order)
            dtype = bool if options & _LOGICAL else _NUMERIC[kind]
            return name, _reshape(values.astype(dtype), dims)
        if kind == _SPARSE:
            indices, indptr, values = (_numbers(*next(parts), order) for _ in range(3))
            if len(dims) != 2 or len(indptr) != dims[1] + 1:
                raise ValueError(f"sparse matrix {name!r} does not fit its dimensions {dims}")
            return name, csc_from_parts(values.astype(float), indices, indptr, dims[0])
        if kind == _CELL:
            return name, [_child(part, order, depth) for part in parts]
        if kind == _STRUCT:
            (width,) = _numbers(*next(parts), order).tolist() or (0,)
            text = bytes(next(parts)[1]).decode("latin-1")
            fields = [
                text[i : i + width].split("\0")[0] for i in range(0, len(text), max(width, 1))
            ]
            values = [_child(part, order, depth) for part in parts]
            if len(values) == len(fields):  # an array of structs is not a data set
                return name, dict(zip(fields, values, strict=True))
    except StopIteration:
        raise ValueError("a variable ends before its content") from None
    return name, Unread()


def _child(part: tuple[int, memoryview], order: str, depth: int) -> Any:
    kind, content = part
    if kind != _MATRIX:
        raise ValueError(f"a cell or struct holds an element of type {kind}, not a matrix")
    return _matrix(content, order, depth + 1)[1]


def _numbers(kind: int, content: memoryview, order: str) -> np.ndarray:
    if kind not in _STORED:
        raise ValueError(f"numbers are stored as the unknown type {kind}")
    dtype = np.dtype(order + _STORED[kind])
    if len(content) % dtype.itemsize:
        raise ValueError(f"{len(content)} bytes do not divide into numbers of {dtype.itemsize}")
    return np.frombuffer(content, dtype).astype(dtype.newbyteorder("="))


def _reshape(values: np.ndarray, dims: tuple[int, ...]) -> np.ndarray:
    expected = 1
    for dim in dims:
        expected *= dim  # Python's integers: numpy's would overflow on a damaged header
    if len(values) != expected:
        raise ValueError(f"an array of dimensions {dims} holds {len(values)} values")
    return values.reshape(dims, order="F")
