"""A few thousand damaged files: each is read, or refused by a ValueError, and by nothing else."""

import contextlib
import io
import pickle

import numpy as np
import pytest
from test_datasets_mat import LEVELS, D, M, N, layouts, save

from sklearn_cleanse.datasets import read_mat
from sklearn_cleanse.datasets._images import _load_batch, _read_idx


def mutate(raw, rng):
    """Flip bits, overwrite a word, cut, or repeat a stretch."""
    raw = bytearray(raw)
    how = rng.integers(5)
    if how == 0:
        for _ in range(rng.integers(1, 9)):
            raw[rng.integers(len(raw))] ^= 1 << rng.integers(8)
    elif how == 1:
        start = rng.integers(len(raw))
        raw[start : start + 8] = rng.bytes(8)
    elif how == 2:
        del raw[rng.integers(len(raw)) :]
    elif how == 3:  # sizes and dimensions are words of four bytes: make one extreme
        start = 4 * rng.integers(len(raw) // 4)
        extreme = (0, 1, 2**16, 2**31 - 1, 2**31, 2**32 - 1)
        raw[start : start + 4] = int(rng.choice(extreme)).to_bytes(4, "little")
    else:
        start, size = rng.integers(len(raw)), rng.integers(1, 200)
        raw[start:start] = raw[start : start + size]
    return bytes(raw)


@pytest.mark.parametrize("level", LEVELS)
def test_damaged_mat_files_raise_nothing_but_value_error(tmp_path, level):
    rng = np.random.default_rng(0)
    Y = np.eye(M)[rng.integers(0, M, N)]
    S = np.maximum(Y, rng.random((N, M)) < 0.3)
    X = rng.normal(size=(N, D))
    variables = layouts(X, S, Y).values()
    originals = [save(tmp_path / "a.mat", v, level).read_bytes() for v in variables]
    messages = []
    for i in range(2000):
        (tmp_path / "b.mat").write_bytes(mutate(originals[i % len(originals)], rng))
        try:
            bunch = read_mat(tmp_path / "b.mat")
        except ValueError as error:
            messages.append(str(error))
            continue
        if level == "5, compressed":  # the only kind with checksums: no wrong value gets through
            np.testing.assert_array_equal(bunch.data, X)
    assert len(messages) > 500
    assert all(message.startswith("cannot read ") for message in messages)


def test_damaged_idx_files_raise_nothing_but_value_error(tmp_path):
    rng = np.random.default_rng(0)
    original = b"\0\0\x08\x03" + np.array([4, 28, 28], ">u4").tobytes() + rng.bytes(4 * 784)
    for _ in range(500):
        (tmp_path / "a").write_bytes(mutate(original, rng))
        with contextlib.suppress(ValueError):
            assert _read_idx(tmp_path / "a").dtype == np.uint8


def test_a_batch_cannot_name_anything_but_arrays():
    for harmful in (eval, print, np.load, pickle.loads, np.lib.format.open_memmap):
        with pytest.raises(ValueError, match="asks for"):
            _load_batch(io.BytesIO(pickle.dumps({"data": harmful})))
