"""MATLAB level-5 files, read without trusting them.

This reader knows what a data file needs (numbers, sparse matrices, cells, structs), never looks
outside the bytes that an element owns, and raises nothing but ValueError.
"""

# Why not scipy.io.loadmat (1.17): of 20,000 damaged files, 88 end the process by heap corruption
# even if every sparse matrix is checked (1,570 without that check), and a file of a megabyte that
# nests cells 10,000 deep overflows the stack.

import math
import struct
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from ._variables import Budget, Unread, cast_exactly, csc_from_parts

_MATRIX, _COMPRESSED = 14, 15
_STORED = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 12: "i8", 13: "u8"}
_STORED |= {7: "f4", 9: "f8"}
_CELL, _STRUCT, _SPARSE = 1, 2, 5
_NUMERIC = dict(enumerate(["f8", "f4", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"], 6))
_LOGICAL, _COMPLEX = 0x02, 0x08
_MAX_DIMS = 32
_MAX_NAME = 4096  # MATLAB allows 2048 bytes


def read_level5(raw: bytes, budget: Budget) -> dict[str, Any]:
    """Return a level-5 file's variables: arrays, csc_arrays, lists (cells), dicts (structs)."""
    order = {b"IM": "<", b"MI": ">"}[raw[126:128]]
    variables: dict[str, Any] = {}
    for kind, element in _elements(memoryview(raw)[128:], order):
        if kind == _COMPRESSED:
            kind, element = _inflate(element, order, budget)
        if kind != _MATRIX:
            raise ValueError(f"element {len(variables)} is of type {kind}, not a matrix")
        name, value = _matrix(element, order, budget, 0)
        if name:  # the nameless one is MATLAB's own workspace for functions
            variables[name] = value
    return variables


def _inflate(element: memoryview, order: str, budget: Budget) -> tuple[int, memoryview]:
    stream = zlib.decompressobj()
    try:
        kind, size = struct.unpack(order + "II", stream.decompress(element, 8))
        budget.spend(size, "a compressed variable")
        body = stream.decompress(stream.unconsumed_tail, size)
        # One more byte is asked for so that zlib reaches the end and compares its checksum.
        more = stream.decompress(stream.unconsumed_tail, 1)
    except (zlib.error, struct.error, MemoryError, OverflowError) as error:
        raise ValueError(f"a compressed variable is damaged ({error})") from None
    if len(body) != size or more or not stream.eof:
        raise ValueError(f"a compressed variable does not hold the {size} bytes it declares")
    return kind, memoryview(body)


def _elements(content: memoryview, order: str) -> Iterator[tuple[int, memoryview]]:
    """Yield the type and the bytes of each element."""
    while len(content) > 0:
        if len(content) < 8:
            raise ValueError("the file or a variable is cut short between two elements")
        kind, size = struct.unpack_from(order + "II", content)
        start, step = 8, 1 if kind == _COMPRESSED else 8  # only compressed ones are not padded
        if kind >> 16:  # a small element: size and type share one word, content fills the other
            kind, size, start = kind & 0xFFFF, kind >> 16, 4
        if start + size > (8 if start == 4 else len(content)):
            raise ValueError(f"an element claims {size} bytes, more than there are")
        yield kind, content[start : start + size]
        content = content[-(-(start + size) // step) * step :]


def _matrix(content: memoryview, order: str, budget: Budget, depth: int) -> tuple[str, Any]:
    budget.visit(depth)
    if len(content) == 0:  # how a cell stores []
        return "", np.empty((0, 0))
    parts = _elements(content, order)
    try:
        flags = _integers(*next(parts), order, budget)
        dims = _integers(*next(parts), order, budget)
        name = _text(next(parts)[1])
        if len(flags) < 2 or not 2 <= len(dims) <= _MAX_DIMS or min(dims) < 0:
            raise ValueError(f"variable {name!r} has a damaged header ({len(dims)} dimensions)")
        shape = tuple(dims.tolist())
        kind, options = int(flags[0]) & 0xFF, int(flags[0]) >> 8
        if options & _COMPLEX:
            raise ValueError(f"variable {name!r} holds complex numbers; data are real")
        if kind in _NUMERIC:
            values = _numbers(*next(parts), order, budget)
            if len(values) != math.prod(shape):
                raise ValueError(f"an array of dimensions {shape} holds {len(values)} values")
            dtype = bool if options & _LOGICAL else _NUMERIC[kind]
            return name, cast_exactly(values, dtype).reshape(shape, order="F")
        if kind == _SPARSE:
            indices = _integers(*next(parts), order, budget)
            indptr = _integers(*next(parts), order, budget)
            values = _numbers(*next(parts), order, budget)
            if len(shape) != 2 or len(indptr) != shape[1] + 1:
                raise ValueError(f"sparse matrix {name!r} does not fit its dimensions {shape}")
            return name, csc_from_parts(values, indices, indptr, shape[0], budget)
        if kind == _CELL:
            return name, [_child(part, order, budget, depth) for part in parts]
        if kind == _STRUCT:
            width = _integers(*next(parts), order, budget)
            names = next(parts)[1]
            if len(width) != 1 or width[0] < 1:
                raise ValueError(f"struct {name!r} does not declare the length of its field names")
            starts = range(0, len(names), int(width[0]))
            budget.spend(64 * len(starts), f"the list of fields of {name!r}")
            fields = [_text(names[i : i + starts.step]).split("\0")[0] for i in starts]
            children = [_child(part, order, budget, depth) for part in parts]
            if len(children) == len(fields):  # an array of structs is not a data set
                return name, dict(zip(fields, children, strict=True))
    except StopIteration:
        raise ValueError("a variable ends before its content") from None
    return name, Unread()


def _child(part: tuple[int, memoryview], order: str, budget: Budget, depth: int) -> Any:
    kind, content = part
    if kind != _MATRIX:
        raise ValueError(f"a cell or struct holds an element of type {kind}, not a matrix")
    return _matrix(content, order, budget, depth + 1)[1]


def _text(content: memoryview) -> str:
    if len(content) > _MAX_NAME:
        raise ValueError(f"a variable or field has a name of {len(content)} bytes")
    return bytes(content).decode("latin-1")


def _integers(kind: int, content: memoryview, order: str, budget: Budget) -> np.ndarray:
    values = _numbers(kind, content, order, budget)
    if values.dtype.kind not in "iu":
        raise ValueError("sizes or indices are stored as fractional numbers")
    return values


def _numbers(kind: int, content: memoryview, order: str, budget: Budget) -> np.ndarray:
    if kind not in _STORED:
        raise ValueError(f"numbers are stored as the unknown type {kind}")
    dtype = np.dtype(order + _STORED[kind])
    if len(content) % dtype.itemsize:
        raise ValueError(f"{len(content)} bytes do not divide into numbers of {dtype.itemsize}")
    budget.spend(8 * (len(content) // dtype.itemsize), "a matrix")
    values = np.frombuffer(content, dtype)  # a view of the file's content, which is not copied
    return values if dtype.isnative else values.astype(dtype.newbyteorder("="))
