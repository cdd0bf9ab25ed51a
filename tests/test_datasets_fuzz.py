"""Damaged files are read or raise ValueError, and nothing else.

``FUZZ_SEED=2000 FUZZ_TRIALS=100000 pytest -m slow tests/test_datasets_fuzz.py`` goes on.
"""

import os
import struct
import warnings
import zlib
from functools import cache

import numpy as np
import pytest
from test_datasets_mat import FORMS, convert, layouts, make_toy, save

from sklearn_cleanse.datasets import read_mat
from sklearn_cleanse.datasets._images import _read_idx

SEED, TRIALS = (
    int(os.environ.get(f"FUZZ_{name}", n)) for name, n in [("SEED", 0), ("TRIALS", 2000)]
)


def mutate(raw, rng):
    """Flip bits, overwrite a word, cut, make a size extreme, or repeat a stretch."""
    raw = bytearray(raw or b"\0")
    how, start = rng.integers(5), rng.integers(len(raw))
    if how == 0:
        for _ in range(rng.integers(1, 9)):
            raw[rng.integers(len(raw))] ^= 1 << rng.integers(8)
    elif how == 1:
        raw[start : start + 8] = rng.bytes(8)
    elif how == 2:
        del raw[start:]
    elif how == 3:  # sizes and dimensions are words of four bytes
        extreme = int(rng.choice([0, 1, 2**16, 2**31 - 1, 2**31, 2**32 - 1]))
        raw[start - start % 4 : start - start % 4 + 4] = extreme.to_bytes(4, "little")
    else:
        raw[start:start] = raw[start : start + rng.integers(1, 200)]
    return bytes(raw)


@cache
def mat_files(level, folder):
    """Return a sound file of each layout, with dense and with sparse labels."""
    X, S, Y, _ = make_toy()
    return [
        save(folder / "sound.mat", convert(v, FORMS[form]), level).read_bytes()
        for v in layouts(X, S, Y).values()
        for form in ("float", "sparse labels", "logical labels")
    ]


def damaged(target, rng, folder):
    if target == "idx":
        header = b"\0\0\x08\x03" + np.array([4, 28, 28], ">u4").tobytes()
        return mutate(header + bytes(4 * 784), rng)
    files = mat_files(target.removesuffix(", packed"), folder)
    raw = files[rng.integers(len(files))]
    if target.endswith(", packed"):  # damaged before it is compressed: its checksum is right
        body = zlib.compress(mutate(raw[128:], rng))
        return raw[:128] + struct.pack("<II", 15, len(body)) + body
    return mutate(mutate(raw, rng) if rng.random() < 0.3 else raw, rng)


@pytest.mark.slow
@pytest.mark.parametrize("target", ["5", "5, compressed", "5, packed", "7.3", "idx"])
def test_damaged_files_raise_nothing_but_value_error(tmp_path, target):
    path, messages = tmp_path / "a.mat", []
    for seed in range(SEED, SEED + TRIALS):
        path.write_bytes(damaged(target, np.random.default_rng(seed), tmp_path))
        try:
            with warnings.catch_warnings(action="ignore"):
                found = _read_idx(path) if target == "idx" else read_mat(path)
        except ValueError as error:
            messages.append(str(error))
            continue
        if target == "5, compressed":  # the only kind with checksums: never a wrong value
            np.testing.assert_array_equal(found.data, make_toy()[0])
    assert len(messages) > TRIALS / 4
    assert all(message.startswith("Cannot read ") for message in messages)
